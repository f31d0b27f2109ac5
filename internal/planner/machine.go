package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Machine is how many seconds this machine takes for the steps of a report's way. Each is the best of a few
// measurements, for other work on the machine only ever adds.
type Machine struct {
	SealBit, OpenBit           float64 // one bit message, on the device and at the analyzer
	SealEnvelope, OpenEnvelope float64 // an envelope with its proof of participation, on the device and at the analyzer
	// A report as such: its host's signature and outer envelope, on the device and at the shuffler.
	Send, Receive float64
	NoiseWord     float64 // 64 noise bits

	// Shares is how long one report of the channel shares takes, made by a device and prepared by the shuffler and by
	// the analyzer.
	Shares func(entries, width int) (device, shuffler, analyzer float64, err error)
}

// CPU is how many seconds each role spends on one person.
type CPU struct{ Device, Shuffler, Analyzer float64 }

// Servers is the time of shuffler and analyzer together.
func (c CPU) Servers() float64 { return c.Shuffler + c.Analyzer }

// CPU estimates the time that the roles take for one person. What the broker takes to carry the bytes is not in it.
func (m *Machine) CPU(w play.Work) (c CPU, err error) {
	rounds := float64(w.Rounds)
	c.Device = rounds*m.Send + float64(w.NoiseBits)/64*m.NoiseWord
	c.Shuffler = rounds * m.Receive
	switch w.Channel {
	case plan.Shuffle:
		c.Device += float64(w.BitMessages) * m.SealBit
		c.Shuffler += w.Dummies * m.SealBit
		c.Analyzer += (float64(w.BitMessages) + w.Dummies) * m.OpenBit
	case plan.Shares:
		device, shuffler, analyzer, err := m.Shares(w.Coordinates, w.Width)
		if err != nil {
			return CPU{}, err
		}
		c.Device += rounds * device
		c.Shuffler += rounds * shuffler
		c.Analyzer += rounds * analyzer
	case plan.Local, plan.Central:
		c.Device += rounds * m.SealEnvelope
		c.Analyzer += rounds * m.OpenEnvelope
	default:
		return CPU{}, fmt.Errorf("planner: no channel is called %q", w.Channel)
	}
	return c, nil
}

// best is the least time of a step in seconds: a few batches of so many calls.
func best(batches, batch int, step func() error) (float64, error) {
	least := math.Inf(1)
	for range batches {
		start := time.Now()
		for range batch {
			if err := step(); err != nil {
				return 0, fmt.Errorf("planner: %w", err)
			}
		}
		least = math.Min(least, time.Since(start).Seconds()/float64(batch))
	}
	return least, nil
}

// scene holds keys that are made for measuring and thrown away.
type scene struct {
	key      *seal.HPKEKey
	by       channel.Sender
	verifier *channel.Verifier
}

// sceneName is the deployment of a scene.
const sceneName = "measured"

func newScene() (*scene, error) {
	key, err := seal.GenerateHPKE()
	if err != nil {
		return nil, err
	}
	host, err := seal.GenerateIdentity()
	if err != nil {
		return nil, err
	}
	registrar, err := seal.GenerateIdentity()
	if err != nil {
		return nil, err
	}
	credential, _, err := wire.Sign(&wire.Credential{Deployment: sceneName, HostKey: host.Public(), Devices: 1},
		registrar)
	if err != nil {
		return nil, err
	}
	return &scene{key: key, by: channel.Sender{Identity: host, Credential: credential},
		verifier: channel.NewVerifier(wire.Party{Deployment: sceneName, Key: registrar.Public()})}, nil
}

// Measure measures this machine, now, in some tens of milliseconds. Preparation of shares is measured when it is first
// asked for.
func Measure() (*Machine, error) {
	s, err := newScene()
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	m := &Machine{Shares: measured(s)}
	if m.SealBit, err = MeasureSeal(); err != nil {
		return nil, err
	}
	steps, err := s.steps(m)
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	for _, step := range steps {
		if *step.into, err = best(sealBatches, step.batch, step.do); err != nil {
			return nil, err
		}
	}
	m.NoiseWord /= noiseWords
	return m, nil
}

// noiseWords is how many random words are drawn at a time when noise is measured.
const noiseWords = 1024

// step is one step to measure, in batches.
type step struct {
	into  *float64
	batch int
	do    func() error
}

func (s *scene) steps(m *Machine) ([]step, error) {
	bits, err := seal.NewBitSealer(s.key.Public(), [32]byte{})
	if err != nil {
		return nil, err
	}
	bit, err := bits.AppendSeal(nil, 0, 0, true)
	if err != nil {
		return nil, err
	}
	bitOpener := seal.NewBitOpener(s.key, [32]byte{})
	envelopes, err := seal.NewEnvelopeSealer(s.key.Public(), seal.LocalEnvelope, [32]byte{})
	if err != nil {
		return nil, err
	}
	// The content stands for the entries of an envelope; their number hardly matters.
	content := make([]byte, 64)
	makeEnvelope := func() ([]byte, error) {
		plain, err := s.by.AppendProof(append([]byte(nil), content...), [32]byte{}, content)
		if err != nil {
			return nil, err
		}
		return envelopes.AppendSeal(nil, plain, nil)
	}
	payload, err := makeEnvelope()
	if err != nil {
		return nil, err
	}
	envelopeOpener := seal.NewEnvelopeOpener(s.key, seal.LocalEnvelope, [32]byte{})
	opener, err := seal.NewReportOpener(s.key)
	if err != nil {
		return nil, err
	}
	context := seal.ReportContext{Deployment: sceneName}
	send := func() ([]byte, error) {
		signature, err := seal.Sign(seal.Report, payload, s.by.Identity)
		if err != nil {
			return nil, err
		}
		return wire.SealReport(append(append([]byte(nil), payload...), signature...), s.key.Public(), context)
	}
	envelope, err := send()
	if err != nil {
		return nil, err
	}
	src := rand.NewChaCha8([32]byte{}) // of noise that is thrown away
	return []step{
		{&m.OpenBit, sealBatch, func() error { _, _, _, err := bitOpener.Open(bit); return err }},
		{&m.SealEnvelope, sealBatch, func() error { _, err := makeEnvelope(); return err }},
		{&m.OpenEnvelope, sealBatch, func() error {
			plain, err := envelopeOpener.Open(payload, nil)
			if err != nil {
				return err
			}
			_, err = s.verifier.Check(plain[len(content):], 1, [32]byte{}, content)
			return err
		}},
		{&m.Send, sealBatch, func() error { _, err := send(); return err }},
		{&m.Receive, sealBatch, func() error {
			report, err := wire.OpenEnvelope(envelope, opener, context)
			if err != nil {
				return err
			}
			return seal.Verify(seal.Report, report[:len(payload)], s.by.Identity.Public(), report[len(payload):])
		}},
		{&m.NoiseWord, 1, func() error { protocol.Binomial(64*noiseWords, protocol.BiasHalf, src); return nil }},
	}, nil
}

// measured measures the three sides of the channel shares, once for each shape of a report.
func measured(s *scene) func(entries, width int) (device, shuffler, analyzer float64, err error) {
	type shape struct{ entries, width int }
	known := map[shape][3]float64{}
	return func(entries, width int) (device, shuffler, analyzer float64, err error) {
		t, ok := known[shape{entries, width}]
		if !ok {
			if t, err = s.shares(entries, width); err != nil {
				return 0, 0, 0, fmt.Errorf("planner: %w", err)
			}
			known[shape{entries, width}] = t
		}
		return t[0], t[1], t[2], nil
	}
}

// shares measures one report of so many entries of so many binary digits: made by a device, prepared by the shuffler,
// verified by the analyzer.
func (s *scene) shares(entries, width int) (t [3]float64, err error) {
	e := protocol.Encoding{Scale: 1}
	for range entries {
		e.Coordinates = append(e.Coordinates, protocol.Coordinate{Levels: 1<<width - 1})
	}
	a := &plan.Announcement{Deployment: sceneName, AnalyzerKey: s.key.Public(), Encodings: []protocol.Encoding{e},
		Plan: plan.Plan{Channel: plan.Shares, Rounds: []plan.Round{{Releases: []plan.Release{{}}}}}}
	shuffler, err := seal.GenerateIdentity()
	if err != nil {
		return t, err
	}
	secret := shares.NewSecret(shuffler, [32]byte{})
	by := s.by
	by.Commitment = secret.Commitment()
	device, err := shares.NewDevice(a, [32]byte{})
	if err != nil {
		return t, err
	}
	round, err := shares.NewRound(a, [32]byte{})
	if err != nil {
		return t, err
	}
	leader, err := round.NewLeader(secret)
	if err != nil {
		return t, err
	}
	helper, err := round.NewHelper(secret, s.key, s.verifier)
	if err != nil {
		return t, err
	}
	sum, err := round.NewLeaderSum()
	if err != nil {
		return t, err
	}
	src, vectors := rand.NewChaCha8([32]byte{}), [][]float64{make([]float64, entries)}
	var payload, message []byte
	var pending shares.Pending
	var answer [shares.AnswerSize]byte
	const most = 8000 // entry bits that one batch measures
	batch := max(1, min(sealBatch, most/(entries*width)))
	if t[0], err = best(sealBatches, batch, func() (err error) {
		payload, err = device.Append(payload[:0], by, vectors, src)
		return err
	}); err != nil {
		return t, err
	}
	// The analyzer is measured before the shuffler finishes: it makes the answer that the shuffler finishes with.
	prepare := func() (err error) {
		message, pending, err = leader.Prepare(message[:0], payload)
		return err
	}
	if err := prepare(); err != nil {
		return t, err
	}
	if t[2], err = best(sealBatches, batch, func() error {
		v, err := helper.Verify(message)
		answer = v.Answer
		return err
	}); err != nil {
		return t, err
	}
	t[1], err = best(sealBatches, batch, func() error {
		if err := prepare(); err != nil {
			return err
		}
		return leader.Finish(sum, pending, answer[:])
	})
	return t, err
}

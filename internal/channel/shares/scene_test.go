package shares

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestMain(m *testing.M) { os.Exit(testbed.RoleTests(m)) }

// size is how many devices report in a scene; destroyed is what the shuffler says of a round that cannot leave.
const (
	size                     = 12
	destroyed outcome.Reason = "destroyed"
)

// deployment is a broker with both servers' connections and disks.
type deployment struct {
	*testing.T
	*testbed.Bed
	shuffler, analyzer *bus.Conn
	mixDisk, countDisk channel.Disk
	hosts              []devices.Sender
	epoch              uint64
}

func newDeployment(t *testing.T, change ...func(*broker.Options, *bus.ProvisionOptions)) *deployment {
	t.Helper()
	d := &deployment{T: t, Bed: testbed.New(t, change...)}
	d.shuffler, d.analyzer = d.Connect(bus.Shuffler), d.Connect(bus.Analyzer)
	d.mixDisk, d.countDisk = channel.Folder(t.TempDir()), channel.Folder(t.TempDir())
	for range 3 {
		identity, credential := d.Host(100_000)
		d.hosts = append(d.hosts, devices.Sender{Identity: identity, Credential: credential})
	}
	return d
}

func (d *deployment) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// scene is one round of a deployment, with the reports of its devices.
type scene struct {
	*deployment
	a       *plan.Announcement
	digest  [32]byte
	first   [32]byte
	release *channel.Release
	entries [][]uint64 // sums of the entries of all members' reports, by release and coordinate

	mu       sync.Mutex
	payloads map[uint32][]byte // by slot
	sent     map[uint32][]byte // chunks that left, whatever broker they went to
	said     map[uint32][]byte // answers that left

	mixing   func(*Mixing)        // changes the shuffler of every attempt
	counting func(*Counting)      // changes the analyzer of every attempt
	ended    func(*wire.Manifest) // changes the manifest before the analyzer sees it; nil: nothing
}

// newScene announces the next epoch and makes the reports of as many devices, the first numbers of all hosts in turn,
// that no earlier scene used.
func (d *deployment) newScene(members int, change ...func(*plan.Announcement)) *scene {
	d.Helper()
	d.epoch++
	l, err := learner.New(testbed.Learner(glm.Practical, size))
	d.must(err)
	step := l.Next()
	step.Cohort = max(size, members)
	terms := testbed.Terms()
	terms.Channel = plan.Shares
	var previous []byte
	if d.epoch > 1 {
		previous = make([]byte, 32)
	}
	a := d.Draw(step, terms, d.epoch, previous)
	for _, f := range change {
		f(a)
	}
	_, digest := d.Sign(a, d.Analyzer)
	s := &scene{
		deployment: d, a: a, digest: digest, first: digest, payloads: map[uint32][]byte{},
		sent: map[uint32][]byte{}, said: map[uint32][]byte{},
	}
	s.release = &channel.Release{
		Epoch: a.Epoch, Round: a.Round, Announcement: digest, Announced: a, First: s.first, Minimum: a.Cohort.Minimum,
	}
	s.release.Layout, err = s.mixer(s.mixDisk, s.toMix()).Layout(a)
	d.must(err)
	for _, e := range a.Encodings {
		s.entries = append(s.entries, make([]uint64, len(e.Coordinates)))
	}
	for slot := range uint32(members) {
		s.add(slot, s.sender(slot), true)
	}
	return s
}

// noise announces noise of both servers.
func noise(shuffler, analyzer uint64) func(*plan.Announcement) {
	return func(a *plan.Announcement) {
		for i := range a.Plan.Rounds[0].Releases {
			r := &a.Plan.Rounds[0].Releases[i]
			r.ShufflerNoise, r.AnalyzerNoise = shuffler, analyzer
		}
	}
}

// sender is the device of a slot.
func (s *scene) sender(slot uint32) devices.Sender {
	by := s.hosts[int(slot)%len(s.hosts)]
	by.Number = uint32(s.epoch)*100 + slot
	by.Commitment = shares.NewSecret(s.Shuffler, s.first).Commitment()
	return by
}

// add makes a device's report and has the slot hold it. counted says that its entries are expected in the sums.
func (s *scene) add(slot uint32, by devices.Sender, counted bool) {
	s.Helper()
	device, err := shares.NewDevice(s.a, s.digest)
	s.must(err)
	seed := [32]byte{byte(s.epoch), byte(slot), byte(slot >> 8)}
	src, again := rand.NewChaCha8(seed), rand.NewChaCha8(seed)
	var vectors [][]float64
	for i, e := range s.a.Encodings {
		vector := make([]float64, len(e.Coordinates))
		for j := range vector {
			vector[j] = float64(int(slot)%3-1) * 0.1
		}
		vectors = append(vectors, vector)
		ones, err := e.Encode(nil, vector, again)
		s.must(err)
		for j, n := range ones {
			if counted {
				s.entries[i][j] += uint64(n)
			}
		}
	}
	payload, err := device.Append(nil, by, vectors, src)
	s.must(err)
	s.hold(slot, payload)
}

// hold has the slot hold a payload.
func (s *scene) hold(slot uint32, payload []byte) {
	if s.payloads[slot] == nil {
		s.release.Members = append(s.release.Members, channel.Member{
			Slot: slot, Sequence: uint64(slot) + 1, Digest: [32]byte{byte(slot * 101), byte(slot)},
		})
	}
	s.payloads[slot] = payload
}

func (s *scene) report(_ context.Context, _ *channel.Release, m channel.Member) (*wire.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &wire.Report{Slot: m.Slot, Payload: bytes.Clone(s.payloads[m.Slot])}, nil
}

// mixer is a new process of the shuffler.
func (s *scene) mixer(d channel.Disk, b MixingBroker) *Mixing {
	m := &Mixing{
		Deployment: testbed.Deployment, Reports: s.report, Broker: b, Disk: d, Source: entropy.New(),
		Identity: s.Shuffler, Analyzer: s.Analyzer.Public(), Log: testbed.Log(), perChunk: 5,
	}
	if s.mixing != nil {
		s.mixing(m)
	}
	return m
}

// counter is a new process of the analyzer.
func (s *scene) counter(d channel.Disk, b CountingBroker) *Counting {
	s.Helper()
	participants, err := channel.OpenParticipants(d, testbed.Deployment, nil)
	s.must(err)
	c := &Counting{
		Deployment: testbed.Deployment, Identity: s.Analyzer, Participants: participants,
		Verifier: devices.NewVerifier(wire.Party{Deployment: testbed.Deployment, Key: s.Registrar.Public()}),
		Broker:   b, Disk: d, Source: entropy.New(), Clock: role.SystemClock(), Log: zerolog.Nop(), perChunk: 5,
		Messages: testbed.Account(s, "report", nil, CountReasons()),
	}
	c.Log = testbed.Log()
	if s.counting != nil {
		s.counting(c)
	}
	return c
}

// end is how a round ended at both servers.
type end struct {
	rejected map[uint32]wire.Refusal
	manifest *wire.Manifest
	mixErr   error
	counts   []wire.ReleaseCounts
	countErr error
	account  *outcome.Outcomes
}

var errCrash = errors.New("crash")

// run has both servers work on the round to its end. A server that crashes begins anew.
func (s *scene) run() (e end) {
	s.Helper()
	return s.runOn(s.mixDisk, s.toMix(), s.countDisk, s.toCount())
}

func (s *scene) runOn(md channel.Disk, mb MixingBroker, cd channel.Disk, cb CountingBroker) (e end) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	over := make(chan struct{})
	var both sync.WaitGroup
	both.Go(func() {
		defer close(over)
		for {
			e.manifest = &wire.Manifest{
				Deployment: testbed.Deployment, Epoch: s.release.Epoch, Round: s.release.Round,
				Announcement: s.digest[:], Outcome: wire.Released, Enrolled: uint32(len(s.release.Members)),
				ReportsDigest: make([]byte, 32),
			}
			rejected, err := s.mixer(md, recorded{mb, s}).Release(ctx, s.release, e.manifest)
			if errors.Is(err, errCrash) {
				continue
			}
			e.mixErr, e.rejected = err, map[uint32]wire.Refusal{}
			for _, one := range rejected {
				e.rejected[one.Slot] = one.Reason
			}
			e.manifest.Reports = uint32(len(s.release.Members) - len(rejected))
			if s.ended != nil {
				s.ended(e.manifest)
			}
			return
		}
	})
	both.Go(func() {
		for {
			c := s.counter(cd, said{cb, s})
			ctx, stop := context.WithCancel(ctx)
			var take sync.WaitGroup
			take.Go(func() {
				_ = s.analyzer.Mixed.ReceiveMixed(ctx, func(m *bus.Mixed) {
					if !m.Manifest {
						c.Take(channel.Part{Epoch: m.Epoch, Round: m.Round, Payload: m.Payload})
					}
					_ = m.Ack()
				})
			})
			e.counts, e.countErr = c.Count(ctx, &channel.Round{Announcement: s.a, Digest: s.digest, Key: s.AnalyzerKey},
				func(ctx context.Context) (*wire.Manifest, error) {
					select {
					case <-over:
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
					if e.mixErr != nil {
						return nil, destroyed
					}
					return e.manifest, nil
				})
			e.account = c.Messages
			stop()
			take.Wait()
			if !errors.Is(e.countErr, errCrash) {
				return
			}
		}
	})
	both.Wait()
	return e
}

// released demands that the round was released with these members refused, and returns the counts.
func (s *scene) released(e end, refused map[uint32]wire.Refusal) [][]uint64 {
	s.Helper()
	if e.mixErr != nil || e.countErr != nil {
		s.Fatalf("shuffler: %v; analyzer: %v", e.mixErr, e.countErr)
	}
	if len(e.rejected) != len(refused) {
		s.Errorf("refused are %v, want %v", e.rejected, refused)
	}
	for slot, why := range refused {
		if e.rejected[slot] != why {
			s.Errorf("slot %d is refused for %v, want %v", slot, e.rejected[slot], why)
		}
	}
	if want := uint64(len(s.release.Members) - len(refused)); e.manifest.Messages != want {
		s.Errorf("the manifest has %d messages of %d reports", e.manifest.Messages, want)
	}
	if _, _, err := wire.Sign(e.manifest, s.Shuffler); err != nil {
		s.Errorf("the manifest: %v", err)
	}
	if root := s.acceptedRoot(); !bytes.Equal(e.manifest.MessagesRoot, root[:]) {
		s.Errorf("the manifest's root is %x, that of the accepted prepare messages is %x",
			e.manifest.MessagesRoot, root)
	}
	if err := e.account.Check(); err != nil {
		s.Error(err)
	}
	counts := make([][]uint64, len(e.counts))
	for i := range e.counts {
		counts[i] = e.counts[i].Ones
	}
	return counts
}

// exact demands that counts are the sums of the expected entries.
func (s *scene) exact(counts [][]uint64) {
	s.Helper()
	s.within(counts, 0)
}

// within demands that counts are the sums of the expected entries and at most so much noise.
func (s *scene) within(counts [][]uint64, noise uint64) {
	s.Helper()
	if len(counts) != len(s.entries) {
		s.Fatalf("%d releases, want %d", len(counts), len(s.entries))
	}
	for i := range counts {
		for j, n := range counts[i] {
			if want := s.entries[i][j]; n < want || n > want+noise {
				s.Errorf("release %d, coordinate %d: %d, want %d to %d", i, j, n, want, want+noise)
			}
		}
	}
}

// impossible demands that the shuffler gave up for this reason and sent no sum.
func (s *scene) impossible(e end, why wire.Refusal) {
	s.Helper()
	if !errors.Is(e.mixErr, channel.ErrImpossible) || why != 0 && !errors.Is(e.mixErr, reason(why)) {
		s.Errorf("the shuffler: %v, want %v", e.mixErr, why)
	}
	s.noSum()
}

// noSum demands that nothing but preparation left.
func (s *scene) noSum() {
	s.Helper()
	last := uint32((len(s.release.Members)+4)/5) + 1
	for index := range s.sent {
		if index >= last {
			s.Errorf("chunk %d left, the first %d are preparation", index, last)
		}
	}
}

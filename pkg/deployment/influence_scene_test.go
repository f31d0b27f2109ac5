package deployment_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// honestPeople report in every round of these tests: enough that no count is cut to what all reports can make.
const honestPeople = 24

// attack is what one dishonest device reports: for each coordinate, release by release, so many ones.
type attack []int

// scene is a round in one channel from sealed reports to sums, with dishonest devices.
type scene struct {
	*testing.T
	a        *plan.Announcement
	digest   [32]byte
	analyzer *seal.HPKEKey
	people   *rand.ChaCha8
}

func seedOf(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

func made[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newScene is a round of two releases with ranges and noise of different sizes, whose reports hold up to three
// decisions, with so many dishonest reports expected.
func newScene(t *testing.T, c plan.Channel, people, dishonest int) *scene {
	t.Helper()
	first, second := uint32(8), uint32(3)
	if c == plan.Central {
		first, second = 0, 0
	}
	encodings := []protocol.Encoding{
		{Scale: 4, NoiseBits: first, Bias: protocol.BiasHalf,
			Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 8}, {Offset: -0.5, Levels: 3}}},
		{Scale: 2, NoiseBits: second, Bias: protocol.BiasQuarter,
			Coordinates: []protocol.Coordinate{{Offset: -2, Levels: 9}, {Offset: 0, Levels: 4}}},
	}
	releases := []plan.Release{
		{Statistic: statistic.Hessian, Shift: 1, NoiseBits: first, Bias: protocol.BiasHalf},
		{Statistic: statistic.Gradient, Shift: 1, NoiseBits: second, Bias: protocol.BiasQuarter},
	}
	switch c {
	case plan.Shares:
		releases[0].ShufflerNoise, releases[0].AnalyzerNoise = 40, 30
	case plan.Central:
		releases[0].AnalyzerNoise, releases[1].AnalyzerNoise = 90, 50
	}
	s := &scene{T: t, digest: [32]byte{4}, people: rand.NewChaCha8([32]byte{17}),
		analyzer: made(seal.NewHPKEKey(seedOf(5)))}
	s.a = &plan.Announcement{
		Deployment: "influence", Epoch: 1, Encodings: encodings, AnalyzerKey: s.analyzer.Public(),
		Plan:   plan.Plan{Channel: c, Rounds: []plan.Round{{Releases: releases}}, Decisions: 3},
		Cohort: plan.Cohort{Size: uint32(people), Minimum: 10, MaxDishonest: uint32(dishonest)},
	}
	return s
}

// honest are the vectors of one honest report.
func (s *scene) honest() (vectors [][]float64) {
	src := rand.New(s.people)
	for _, e := range s.a.Encodings {
		var x []float64
		for _, c := range e.Coordinates {
			x = append(x, c.Offset+src.Float64()*float64(c.Levels)/e.Scale)
		}
		vectors = append(vectors, x)
	}
	return vectors
}

// sums are those of so many honest people, the same ones at every call, and of the attackers, as the analyzer decodes
// them.
func (s *scene) sums(honest int, attackers []attack) (sums [][]float64) {
	s.Helper()
	s.people = rand.NewChaCha8([32]byte{17})
	var ones [][]uint64
	switch s.a.Plan.Channel {
	case plan.Shuffle:
		ones = s.shuffled(honest, attackers)
	case plan.Shares:
		ones = s.shared(honest, attackers)
	default:
		ones = s.inEnvelopes(honest, attackers)
	}
	counts := &wire.Counts{Reports: uint32(honest + len(attackers))}
	for _, of := range ones {
		counts.Releases = append(counts.Releases, wire.ReleaseCounts{Ones: of})
	}
	for _, sum := range made(deployment.Sums(s.a, counts)) {
		sums = append(sums, sum.Values)
	}
	return sums
}

func (s *scene) shuffled(honest int, attackers []attack) [][]uint64 {
	d := made(shuffle.NewDevice(s.a.Encodings, s.a.AnalyzerKey, s.digest))
	sealer := made(seal.NewBitSealer(s.a.AnalyzerKey, s.digest))
	var messages []byte
	for range honest {
		messages = made(d.Append(messages, channel.Sender{}, s.honest(), s.people))
	}
	for _, of := range attackers {
		before, j := len(messages), 0
		for r, e := range s.a.Encodings {
			for c := range e.Coordinates {
				messages = made(sealer.AppendSealRun(messages, uint8(r), uint16(c), e.MessagesAt(c), of[j]))
				j++
			}
		}
		if len(messages)-before != d.Size() {
			s.Fatalf("an attacker's payload has %d bytes: the shuffler refuses all but %d", len(messages)-before,
				d.Size())
		}
		if err := shuffle.CheckLabels(messages[before:], shuffle.LabelsOf(s.a.Encodings)); err != nil {
			s.Fatalf("the shuffler refuses an attacker's payload: %v", err)
		}
	}
	if len(attackers) > 0 { // all bits on one coordinate are no report
		payload := made(sealer.AppendSealRun(nil, 0, 0, s.a.ReportMessages(), s.a.ReportMessages()))
		if err := shuffle.CheckLabels(payload, shuffle.LabelsOf(s.a.Encodings)); !errors.Is(err, wire.ErrLabels) {
			s.Errorf("all bits on one coordinate: %v, want ErrLabels", err)
		}
	}
	t := shuffle.NewTally(s.a.Encodings)
	t.Open(seal.NewBitOpener(s.analyzer, s.digest), messages)
	none := make([]uint64, len(s.a.Encodings))
	if err := t.Complete(uint64(honest+len(attackers)), none); err != nil {
		s.Fatalf("the analyzer refuses the round: %v", err)
	}
	ones, odd := t.Counts(uint64(honest+len(attackers)), none)
	if odd != 0 {
		s.Fatalf("%d bits too many", odd)
	}
	return ones
}

// liar is the announcement with encodings of the same sizes in which a vector of whole numbers is its own entries.
func (s *scene) liar(most func(e protocol.Encoding, j int) uint32) *plan.Announcement {
	a := s.a.Clone()
	for r, e := range a.Encodings {
		a.Encodings[r].Scale, a.Encodings[r].NoiseBits = 1, 0
		for j := range e.Coordinates {
			a.Encodings[r].Coordinates[j] = protocol.Coordinate{Levels: most(e, j)}
		}
	}
	return a
}

// vectors are those that a liar's encodings turn into an attack's entries.
func (s *scene) vectors(of attack) (vectors [][]float64) {
	j := 0
	for _, e := range s.a.Encodings {
		var x []float64
		for range e.Coordinates {
			x = append(x, float64(of[j]))
			j++
		}
		vectors = append(vectors, x)
	}
	return vectors
}

// host is who sends, admitted by the registrar.
func (s *scene) host(commitment []byte) (channel.Sender, *channel.Verifier) {
	registrar, host := made(seal.NewIdentity(seedOf(6))), made(seal.NewIdentity(seedOf(8)))
	admitted := &wire.Credential{Deployment: "influence", HostKey: host.Public(), Devices: 100}
	credential, _, err := wire.Sign(admitted, registrar)
	return channel.Sender{Identity: host, Credential: made(credential, err), Number: 1, Commitment: commitment},
		channel.NewVerifier(wire.Party{Deployment: "influence", Key: registrar.Public()})
}

func (s *scene) shared(honest int, attackers []attack) [][]uint64 {
	secret := shares.NewSecret(made(seal.NewIdentity(seedOf(7))), [32]byte{9})
	by, verifier := s.host(secret.Commitment())
	round := made(shares.NewRound(s.a, s.digest))
	leader, helper := made(round.NewLeader(secret)), made(round.NewHelper(secret, s.analyzer, verifier))
	mine, theirs := made(round.NewLeaderSum()), made(round.NewHelperSum())
	take := func(payload []byte) {
		message, pending, err := leader.Prepare(nil, payload)
		if err != nil {
			s.Fatal(err)
		}
		v := made(helper.Verify(message))
		if err := errors.Join(leader.Finish(mine, pending, v.Answer[:]), helper.Add(theirs, v)); err != nil {
			s.Fatal(err)
		}
	}
	d := made(shares.NewDevice(s.a, s.digest))
	for range honest {
		take(made(d.Append(nil, by, s.honest(), s.people)))
	}
	wide := uint32(1)<<s.a.EntryBits() - 1
	lying := made(shares.NewDevice(s.liar(func(protocol.Encoding, int) uint32 { return wide }), s.digest))
	for _, of := range attackers {
		take(made(lying.Append(nil, by, s.vectors(of), s.people)))
	}
	if len(attackers) > 0 { // a wider entry is no report
		wider := made(shares.NewDevice(s.liar(func(protocol.Encoding, int) uint32 { return 2 * wide }), s.digest))
		payload := made(wider.Append(nil, by, s.vectors(attackers[0]), s.people))
		if _, _, err := leader.Prepare(nil, payload); !errors.Is(err, wire.ErrSize) {
			s.Errorf("entries of more bits: %v, want ErrSize", err)
		}
	}
	noised := made(mine.Noise(rand.NewChaCha8([32]byte{1})))
	return made(theirs.Counts(noised, rand.NewChaCha8([32]byte{2})))
}

func (s *scene) inEnvelopes(honest int, attackers []attack) [][]uint64 {
	by, verifier := s.host(nil)
	o := made(envelope.NewOpener(s.a, s.digest, s.analyzer, verifier))
	ones := make([][]uint64, len(s.a.Encodings))
	for r, e := range s.a.Encodings {
		ones[r] = make([]uint64, len(e.Coordinates))
		if err := e.AddServerNoise(ones[r], s.a.Releases()[r].ServerNoise(), rand.NewChaCha8([32]byte{1})); err != nil {
			s.Fatal(err)
		}
	}
	take := func(payload []byte) {
		entries, _, err := o.Open(nil, payload)
		if err != nil {
			s.Fatal(err)
		}
		j := 0
		for r := range ones {
			for c := range ones[r] {
				ones[r][c] += uint64(entries[j])
				j++
			}
		}
	}
	d := made(envelope.NewDevice(s.a, s.digest))
	for range honest {
		take(made(d.Append(nil, by, s.honest(), s.people)))
	}
	wide := s.liar(func(e protocol.Encoding, j int) uint32 { return uint32(e.MessagesAt(j)) + 1 })
	lying := made(envelope.NewDevice(wide, s.digest))
	for _, of := range attackers {
		take(made(lying.Append(nil, by, s.vectors(of), s.people)))
	}
	if len(attackers) > 0 { // one more than there can be is no entry
		x := s.vectors(attackers[0])
		x[0][0] = float64(s.a.Encodings[0].MessagesAt(0)) + 1
		if _, _, err := o.Open(nil, made(lying.Append(nil, by, x, s.people))); !errors.Is(err, envelope.ErrRange) {
			s.Errorf("an entry out of range: %v, want ErrRange", err)
		}
	}
	return ones
}

// own is how many bits an honest device sends for each coordinate, release by release.
func (s *scene) own() (own []int) {
	for _, e := range s.a.Encodings {
		for j := range e.Coordinates {
			own = append(own, e.MessagesAt(j))
		}
	}
	return own
}

// strongest are attacks of k devices that put as many ones as the channel lets pass on every coordinate, or none.
func (s *scene) strongest(k int, most bool) (all []attack) {
	for range k {
		of := make(attack, len(s.own()))
		switch {
		case !most:
		case s.a.Plan.Channel == plan.Shares:
			for j := range of {
				of[j] = 1<<s.a.EntryBits() - 1
			}
		default:
			copy(of, s.own())
		}
		all = append(all, of)
	}
	return all
}

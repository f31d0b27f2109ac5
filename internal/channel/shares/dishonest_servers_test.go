package shares

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// lying is an analyzer that answers otherwise than it should.
type lying struct {
	CountingBroker
	s     *scene
	alter func(index uint32, payload []byte) []byte
}

func (l lying) PublishPrepared(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	return l.CountingBroker.PublishPrepared(ctx, epoch, round, index, l.alter(index, bytes.Clone(payload)))
}

func (l lying) AppendAudit(ctx context.Context, kind string, payload []byte) error {
	return l.CountingBroker.AppendAudit(ctx, kind, l.alter(statementIndex, bytes.Clone(payload)))
}

// signs makes the analyzer sign another statement.
func (s *scene) signs(change func(*wire.Accepted)) func(uint32, []byte) []byte {
	return func(index uint32, payload []byte) []byte {
		if index != statementIndex {
			return payload
		}
		a, _, err := wire.Open[wire.Accepted](payload, s.AnalyzerParty())
		s.must(err)
		change(a)
		signed, _, err := wire.Sign(a, s.Analyzer)
		s.must(err)
		return signed
	}
}

// The shuffler's sum leaves for the set that both servers computed, and for no other that the analyzer signs or
// answers.
func TestTheShufflersSumLeavesForTheSameSetOnly(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	refuses := func(messages int) func(uint32, []byte) []byte {
		return func(index uint32, b []byte) []byte {
			for i := 0; index > 0 && i < messages && i < len(b)/verdictSize; i++ {
				b[i*verdictSize] = byte(wire.RefusalBadProof)
			}
			return b
		}
	}
	for what, lie := range map[string]struct {
		alter func(*scene) func(uint32, []byte) []byte
		why   wire.Refusal
	}{
		"another digest": {func(s *scene) func(uint32, []byte) []byte {
			return s.signs(func(a *wire.Accepted) { a.Set[0] ^= 1 })
		}, wire.RefusalSecondSet},
		"another count": {func(s *scene) func(uint32, []byte) []byte {
			return s.signs(func(a *wire.Accepted) { a.Reports-- })
		}, wire.RefusalSecondSet},
		"another announcement": {func(s *scene) func(uint32, []byte) []byte {
			return s.signs(func(a *wire.Accepted) { a.Announcement[0] ^= 1 })
		}, wire.RefusalSecondSet},
		"a count below the minimum": {func(s *scene) func(uint32, []byte) []byte {
			return s.signs(func(a *wire.Accepted) { a.Reports = 1 })
		}, 0},
		"a report that it refused": {func(*scene) func(uint32, []byte) []byte { return refuses(1) },
			wire.RefusalSecondSet},
		"honest reports, below the minimum": {func(*scene) func(uint32, []byte) []byte { return refuses(5) },
			wire.RefusalSecondSet},
		"no signature": {func(*scene) func(uint32, []byte) []byte {
			return func(index uint32, b []byte) []byte {
				if index == statementIndex {
					b[len(b)-1] ^= 1
				}
				return b
			}
		}, wire.RefusalBadSignature},
		"a preparation message of another report": {func(*scene) func(uint32, []byte) []byte {
			return func(index uint32, b []byte) []byte {
				if index == 1 {
					copy(b[1:verdictSize], b[verdictSize+1:])
				}
				return b
			}
		}, wire.RefusalSecondSet},
		"a short answer": {func(*scene) func(uint32, []byte) []byte {
			return func(index uint32, b []byte) []byte {
				if index == 2 {
					return b[:len(b)-1]
				}
				return b
			}
		}, wire.RefusalMalformed},
	} {
		s := d.newScene(size)
		s.a.Cohort.Minimum = 10
		e := s.runOn(s.mixDisk, s.toMix(), s.countDisk, lying{s.toCount(), s, lie.alter(s)})
		s.impossible(e, lie.why)
		if t.Failed() {
			t.Fatal(what)
		}
	}
}

// An analyzer that refuses honest reports until too few are left, or signs that it accepts few, gets no sum.
func TestAnAnalyzerThatAcceptsTooFewGetsNoSum(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	s.counting = func(c *Counting) { c.SponsorShare = 0.1 } // one of each host
	e := s.run()
	s.impossible(e, 0)
	if !errors.Is(e.countErr, destroyed) {
		t.Errorf("the analyzer: %v", e.countErr)
	}
}

// A shuffler that drops reports until too few are left gets no statement that they are accepted, and the analyzer
// counts nothing, even where the shuffler sends a sum all the same.
func TestAShufflerThatDropsReportsBelowTheMinimumIsRefused(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	s.release.Members, s.release.Minimum = s.release.Members[:s.a.Cohort.Minimum-1], 1
	e := s.run()
	if !errors.Is(e.countErr, Rejected) || e.counts != nil {
		t.Errorf("the analyzer: %v, %v", e.counts, e.countErr)
	}
	if n, err := channel.OpenParticipants(s.countDisk, "testbed", nil); err != nil || n.Devices(s.a.Epoch) != 0 {
		t.Errorf("devices of a round that cannot count are remembered: %v", err)
	}
}

// cheating is a shuffler that sends another chunk than it should.
type cheating struct {
	MixingBroker
	alter func(index uint32, chunk *wire.Chunk)
}

func (c cheating) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	chunk, err := wire.ParseChunk(payload)
	if err != nil {
		return err
	}
	c.alter(index, chunk)
	if payload, err = wire.BuildChunk(*chunk); err != nil {
		return err
	}
	return c.MixingBroker.PublishChunk(ctx, epoch, round, index, payload)
}

// The analyzer counts a sum only if it is of the set that it signed, and the one that the manifest names.
func TestTheAnalyzerCountsOnlyTheSumOfItsOwnSet(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	last := uint32((size+4)/5) + 1
	for what, cheat := range map[string]struct {
		at    int
		index uint32
		why   error
	}{
		"another set":   {4, last, reason(wire.RefusalSecondSet)},
		"another count": {3, last, reason(wire.RefusalSecondSet)},
		"another share": {4 + 32 + 3, last, Rejected},
	} {
		s := d.newScene(size)
		e := s.runOn(s.mixDisk, cheating{s.toMix(), func(index uint32, c *wire.Chunk) {
			if index == cheat.index {
				c.Payload[cheat.at] ^= 1
			}
		}}, s.countDisk, s.toCount())
		if !errors.Is(e.countErr, cheat.why) || e.counts != nil {
			t.Errorf("%s: %v, %v", what, e.counts, e.countErr)
		}
	}
}

// Nothing is counted under a manifest that does not fit the announcement, the accepted set and the chunks.
func TestTheManifestFitsWhatIsCounted(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for what, alter := range map[string]func(*wire.Manifest){
		"another announcement": func(m *wire.Manifest) { m.Announcement = bytes.Repeat([]byte{1}, 32) },
		"fewer reports":        func(m *wire.Manifest) { m.Reports-- },
		"more messages":        func(m *wire.Manifest) { m.Messages++ },
		"noise":                func(m *wire.Manifest) { m.NoiseMessages = 1 },
		"more chunks":          func(m *wire.Manifest) { m.Chunks++ },
		"other chunks":         func(m *wire.Manifest) { m.ChunksDigest = make([]byte, 32) },
		"another root":         func(m *wire.Manifest) { m.MessagesRoot = make([]byte, 32) },
	} {
		s := d.newScene(size)
		s.ended = alter
		if e := s.run(); !errors.Is(e.countErr, Rejected) || e.counts != nil {
			t.Errorf("%s: %v, %v", what, e.counts, e.countErr)
		}
	}
}

// A second sum is refused whatever the broker delivers, and a set with a duplicate nonce is none.
func TestASecondSumAndARepeatedNonceAreRefused(t *testing.T) {
	t.Parallel()
	r, err := new(Counting).newCounting(t.Context(), &channel.Round{Announcement: &plan.Announcement{
		Plan:      plan.Plan{Rounds: []plan.Round{{Releases: []plan.Release{{}}}}},
		Encodings: []protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: 1}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	one := sum{share: make([]byte, r.round.AggregateSize())}.encode()
	for range 2 {
		if r.takeSum(one, [32]byte{1}); r.refused != nil {
			t.Fatal(r.refused)
		}
	}
	if r.takeSum(one, [32]byte{2}); !errors.Is(r.refused, reason(wire.RefusalSecondSet)) {
		t.Errorf("a second sum: %v", r.refused)
	}
	if s, err := setOf([]nonce{{1}, {2}, {1}}); err == nil {
		t.Errorf("a set with a nonce twice: %+v", s)
	}
}

// After its sum was made durable a shuffler sends that one, whatever the analyzer signs meanwhile; and what was sent
// under a chunk's index stays: nothing else follows it.
func TestTheShufflersSumLeavesOnce(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size, noise(1<<16, 0))
	s.released(s.run(), nil)
	sent := len(s.sent)
	s.analyzer = d.Connect(bus.Analyzer)
	d.must(s.analyzer.Prepared.PurgePrepared(d.Context(), s.a.Epoch, 0))
	d.must(s.analyzer.Prepared.PublishPrepared(d.Context(), s.a.Epoch, 0, statementIndex, []byte("another set")))
	m := &wire.Manifest{}
	if _, err := s.mixer(s.mixDisk, recorded{s.toMix(), s}).Release(d.Context(), s.release, m); err != nil {
		t.Error(err) // recorded compares the bytes
	}
	if len(s.sent) != sent {
		t.Errorf("%d chunks left instead of %d", len(s.sent), sent)
	}
	// A state folder without the sum is older than what left.
	fresh := s.mixer(channel.Folder(t.TempDir()), s.toMix())
	if _, err := fresh.Release(d.Context(), s.release, m); !errors.Is(err, channel.ErrImpossible) {
		t.Errorf("a shuffler without its state: %v", err)
	}
	s.release.Announcement[0] ^= 1
	if _, err := s.mixer(s.mixDisk, s.toMix()).Release(d.Context(), s.release, m); !errors.Is(err,
		reason(wire.RefusalSecondSet)) {
		t.Errorf("the sum of another announcement: %v", err)
	}
}

// A shuffler that changes a prepare message gets it refused, by the analyzer itself.
func TestTheAnalyzerVerifiesEachPrepareMessageItself(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	const hashAt = leaderAt // a prepare message has the hash of the leader's share in its place, then the envelope
	const envelopeAt = hashAt + 32
	const proofAt = envelopeAt + envelopeLen
	for what, cheat := range map[string]struct {
		do  func(first, second []byte) // two prepare messages
		why wire.Refusal
	}{
		"another nonce":          {func(a, _ []byte) { a[0] ^= 1 }, wire.RefusalUndecryptable},
		"another public share":   {func(a, _ []byte) { a[publicAt] ^= 1 }, wire.RefusalUndecryptable},
		"another leader's share": {func(a, _ []byte) { a[hashAt] ^= 1 }, wire.RefusalUndecryptable},
		"another report's envelope": {
			func(a, b []byte) { copy(a[envelopeAt:proofAt], b[envelopeAt:]) }, wire.RefusalUndecryptable,
		},
		"an invalid proof": {func(a, _ []byte) { a[proofAt] ^= 1 }, wire.RefusalBadProof},
		"another report's proof": {
			func(a, b []byte) { copy(a[proofAt:], b[proofAt:]) }, wire.RefusalBadProof,
		},
		"another report's message": {func(a, b []byte) { copy(b, a) }, wire.RefusalDuplicate},
	} {
		s := d.newScene(size)
		round, err := shares.NewRound(s.a, s.digest)
		d.must(err)
		e := s.runOn(s.mixDisk, cheating{s.toMix(), func(index uint32, c *wire.Chunk) {
			if index == 1 {
				messages, err := parseMessages(c.Payload, round.PrepareMessageSize(), 5)
				if err != nil {
					t.Error(err)
					return
				}
				cheat.do(messages[0], messages[1])
			}
		}}, s.countDisk, s.toCount())
		if e.mixErr != nil || len(e.rejected) != 1 {
			t.Fatalf("%s: %v, %v", what, e.mixErr, e.rejected)
		}
		for _, why := range e.rejected {
			if why != cheat.why {
				t.Errorf("%s: refused for %v, want %v", what, why, cheat.why)
			}
		}
	}
}

// A second chunk under an index that was answered, shown to a later process of the analyzer, ends the round.
func TestAnotherChunkUnderAnAnsweredIndexIsRefused(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	s.exact(s.released(s.run(), nil))
	s.must(s.analyzer.Mixed.PurgeMixed(s.Context(), s.a.Epoch, 0))
	s.must(s.analyzer.Prepared.PurgePrepared(s.Context(), s.a.Epoch, 0))
	statement := s.said[statementIndex]
	s.sent, s.said = map[uint32][]byte{}, map[uint32][]byte{statementIndex: statement}   // there is no second statement
	e := s.runOn(channel.Folder(s.TempDir()), deaf{s.toMix()}, s.countDisk, s.toCount()) // seals the secret anew
	s.impossible(e, 0)
	if !errors.Is(e.countErr, destroyed) {
		t.Errorf("the analyzer: %v", e.countErr)
	}
}

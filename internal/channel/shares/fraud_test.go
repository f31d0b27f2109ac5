package shares

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Where the parts of a payload begin: nonce, public share, leader's share, box.
const (
	publicAt = shares.NonceSize
	leaderAt = publicAt + 64
	boxLen   = seal.BoxOverhead + 64 + devices.ProofSize
)

// Whatever one dishonest device or host hands in, it is refused for its own reason, and the others' reports count.
func TestEachFalseReportIsRefusedForItsOwnReason(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for what, plant := range map[string]struct {
		do  func(s *scene, slot uint32)
		why wire.Refusal
	}{
		"a copy under its own nonce": {func(s *scene, slot uint32) {
			s.hold(slot, s.payloads[0])
		}, wire.RefusalDuplicate},
		"a copy under another nonce": {func(s *scene, slot uint32) {
			copied := bytes.Clone(s.payloads[0])
			copied[0] ^= 1
			s.hold(slot, copied)
		}, wire.RefusalBadShare},
		"a second report of a device": {func(s *scene, slot uint32) {
			s.add(slot, s.sender(0), false)
		}, wire.RefusalDuplicate},
		"another's shares with one's own box": {func(s *scene, slot uint32) {
			s.add(slot, s.sender(slot), false)
			own := s.payloads[slot]
			swapped := bytes.Clone(s.payloads[0])
			copy(swapped[len(swapped)-boxLen:], own[len(own)-boxLen:])
			s.hold(slot, swapped)
		}, wire.RefusalUndecryptable},
		"a public share that was changed": {func(s *scene, slot uint32) {
			s.add(slot, s.sender(slot), false)
			s.payloads[slot][publicAt] ^= 1
		}, wire.RefusalBadShare},
		"a leader's share that was changed": {func(s *scene, slot uint32) {
			s.add(slot, s.sender(slot), false)
			s.payloads[slot][leaderAt] ^= 1
		}, wire.RefusalBadShare},
		"a leader's share that does not decode": {func(s *scene, slot uint32) {
			s.add(slot, s.sender(slot), false)
			for i := range 16 {
				s.payloads[slot][leaderAt+i] = 0xff
			}
		}, wire.RefusalBadShare},
		"an invented host": {func(s *scene, slot uint32) {
			by := s.sender(slot)
			by.Identity = s.Analyzer // any key that the registrar did not admit
			s.add(slot, by, false)
		}, wire.RefusalNoCredential},
		"a device beyond its credential": {func(s *scene, slot uint32) {
			by := s.sender(slot)
			by.Number = 1 << 30
			s.add(slot, by, false)
		}, wire.RefusalNoCredential},
		"a report for another commitment": {func(s *scene, slot uint32) {
			by := s.sender(slot)
			by.Commitment = make([]byte, 32)
			s.add(slot, by, false)
		}, wire.RefusalBadShare},
		"a share of another release": {func(s *scene, slot uint32) {
			a, digest := s.a, s.digest
			other := a.Clone()
			other.Cohort.Size++
			_, s.digest = s.Sign(other, s.Analyzer)
			s.add(slot, s.sender(slot), false)
			s.a, s.digest = a, digest
		}, wire.RefusalBadShare},
	} {
		s := d.newScene(size, noise(0, 0), func(a *plan.Announcement) { a.Cohort.Size++ })
		plant.do(s, size)
		s.release.Members[size].Digest = [32]byte{0xff} // after the report that it copies
		e := s.run()
		s.exact(s.released(e, map[uint32]wire.Refusal{size: plant.why}))
		if t.Failed() {
			t.Fatalf("%s", what)
		}
	}
}

// A device that was counted in an earlier epoch is refused, by an analyzer that was started anew, too.
func TestADeviceOfAnEarlierEpochIsRefused(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size)
	old := s.sender(3)
	s.exact(s.released(s.run(), nil))
	s = d.newScene(size, func(a *plan.Announcement) { a.Cohort.Size++ })
	old.Commitment = s.sender(0).Commitment
	s.add(size, old, false)
	s.exact(s.released(s.run(), map[uint32]wire.Refusal{size: wire.RefusalAlreadyEnrolled}))
}

// No host has more reports accepted than its part of the cohort.
func TestAHostHasNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size, func(a *plan.Announcement) { a.Cohort.Size = 16 })
	s.counting = func(c *Counting) { c.HostShare = 0.25 } // 4 of 16, which each of the three has
	s.add(size, s.sender(size), false)
	s.release.Members[size].Digest = [32]byte{0xff}
	s.exact(s.released(s.run(), map[uint32]wire.Refusal{size: wire.RefusalHostShare}))
}

// A share is the decimal that it was written as, as the shuffler counts it: 0.29 of 100 slots are 29, although the
// product of the two floating-point numbers is below that.
func TestAHostMayHaveAllOfADecimalShare(t *testing.T) {
	t.Parallel()
	participants, err := channel.OpenParticipants(channel.Folder(t.TempDir()), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := (&Counting{HostShare: 0.29, Participants: participants}).newCounting(t.Context(),
		&channel.Round{Announcement: &plan.Announcement{
			Epoch: 1, Cohort: plan.Cohort{Size: 100}, Plan: plan.Plan{Rounds: []plan.Round{{Releases: []plan.Release{{}}}}},
			Encodings: []protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: 1}}}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(30) {
		want := wire.NoRefusal
		if i == 29 {
			want = wire.RefusalHostShare
		}
		one := shares.Verified{Nonce: nonce{byte(i)}, Participant: devices.Participant{Number: i}}
		if got := r.admit(one); got != want {
			t.Errorf("device %d: %v, want %v", i, got, want)
		}
	}
}

// The attack that works on the shuffle channel: a shuffler that forwards copies of one victim's report in place of the
// others' gets nothing, and neither does one that fills the cohort with devices that it made up.
func TestCopiesOfAVictimAndFillersNeverReachTheMinimum(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size)
	for slot := range uint32(size) {
		s.payloads[slot] = s.payloads[0]
	}
	s.impossible(s.run(), 0)
	s = d.newScene(size)
	for slot := uint32(1); slot < size; slot++ {
		by := s.sender(slot)
		by.Identity = testIdentity(t)
		s.add(slot, by, false)
	}
	s.impossible(s.run(), 0)
}

func testIdentity(t *testing.T) *seal.Identity {
	t.Helper()
	id, err := seal.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The analyzer takes one secret for an epoch. A second one, which would give away the values of reports that it saw
// under the first, is refused before anything is computed under it.
func TestASecondVerificationKeyOfAnEpochIsRefused(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size)
	s.exact(s.released(s.run(), nil))
	d.must(s.counter(s.countDisk, s.analyzer).Forget(d.Context(), s.a.Epoch, 0))
	again := &scene{
		deployment: d, a: s.a.Clone(), first: s.first, payloads: s.payloads, entries: s.entries,
		sent: map[uint32][]byte{}, said: map[uint32][]byte{},
	}
	again.a.Reference[0] += 0.01 // another announcement of the epoch
	_, again.digest = d.Sign(again.a, d.Analyzer)
	release := *s.release
	again.release = &release
	again.release.Announcement, again.release.Announced = again.digest, again.a
	again.mixing = func(m *Mixing) { m.Identity = testIdentity(t) }
	again.mixDisk, again.countDisk = channel.Folder(t.TempDir()), s.countDisk
	e := again.runOn(channel.Folder(t.TempDir()), deaf{s.shuffler}, s.countDisk, s.analyzer)
	again.impossible(e, 0)
	if len(again.said) != 1 || again.said[0] == nil {
		t.Errorf("the analyzer answered %d chunks under a second key", len(again.said)-1)
	}
	if !errors.Is(e.countErr, destroyed) {
		t.Errorf("the analyzer: %v", e.countErr)
	}
}

// A secret that devices did not see the commitment of verifies no report.
func TestASecretThatIsNotTheCommittedOneVerifiesNothing(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	sealer, err := seal.NewBoxSealer(s.a.AnalyzerKey, seal.SecretBox, s.digest)
	s.must(err)
	other, err := sealer.AppendSeal(nil, shares.NewSecret(testIdentity(t), s.first).Bytes(), nil)
	s.must(err)
	e := s.runOn(s.mixDisk, cheating{s.shuffler, func(index uint32, c *wire.Chunk) {
		if index == 0 {
			copy(c.Payload[8:], other)
		}
	}}, s.countDisk, s.analyzer)
	s.impossible(e, 0)
	if n := testRefused(e, wire.RefusalUndecryptable); n != size {
		t.Errorf("%d reports are refused as undecryptable", n)
	}
}

func testRefused(e end, why wire.Refusal) int {
	for _, c := range e.account.Balance().Refused {
		if c.Reason == reason(why) {
			return int(c.Items)
		}
	}
	return -1
}

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

// The shuffler's sum leaves for the set that both servers computed, and for no other that the analyzer signs or answers.
func TestTheShufflersSumLeavesForTheSameSetOnly(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	refuses := func(rows int) func(uint32, []byte) []byte {
		return func(index uint32, b []byte) []byte {
			for i := 0; index > 0 && i < rows && i < len(b)/verdictSize; i++ {
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
		e := s.runOn(s.mixDisk, s.shuffler, s.countDisk, lying{s.analyzer, s, lie.alter(s)})
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
	s.counting = func(c *Counting) { c.HostShare = 0.1 } // one of each host
	e := s.run()
	s.impossible(e, 0)
	if !errors.Is(e.countErr, destroyed) {
		t.Errorf("the analyzer: %v", e.countErr)
	}
}

// A shuffler that drops reports until too few are left gets no statement that they are accepted, and the analyzer counts
// nothing, even where the shuffler sends a sum all the same.
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
		e := s.runOn(s.mixDisk, cheating{s.shuffler, func(index uint32, c *wire.Chunk) {
			if index == cheat.index {
				c.Payload[cheat.at] ^= 1
			}
		}}, s.countDisk, s.analyzer)
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
	} {
		s := d.newScene(size)
		s.ended = alter
		if e := s.run(); !errors.Is(e.countErr, Rejected) || e.counts != nil {
			t.Errorf("%s: %v, %v", what, e.counts, e.countErr)
		}
	}
}

// A second sum is refused whatever the broker delivers, and a set in which a nonce stands twice is none.
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
	d.must(s.analyzer.PurgePrepared(d.Context(), s.a.Epoch, 0))
	d.must(s.analyzer.PublishPrepared(d.Context(), s.a.Epoch, 0, statementIndex, []byte("another set")))
	m := &wire.Manifest{}
	if _, err := s.mixer(s.mixDisk, recorded{s.shuffler, s}).Release(d.Context(), s.release, m); err != nil {
		t.Error(err) // recorded compares the bytes
	}
	if len(s.sent) != sent {
		t.Errorf("%d chunks left instead of %d", len(s.sent), sent)
	}
	// A state folder without the sum is older than what left.
	fresh := s.mixer(channel.Folder(t.TempDir()), s.shuffler)
	if _, err := fresh.Release(d.Context(), s.release, m); !errors.Is(err, channel.ErrImpossible) {
		t.Errorf("a shuffler without its state: %v", err)
	}
	s.release.Announcement[0] ^= 1
	if _, err := s.mixer(s.mixDisk, s.shuffler).Release(d.Context(), s.release, m); !errors.Is(err,
		reason(wire.RefusalSecondSet)) {
		t.Errorf("the sum of another announcement: %v", err)
	}
}

// A shuffler that changes a row gets it refused, by the analyzer itself.
func TestTheAnalyzerVerifiesEachRowItself(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	const hashAt = leaderAt // in a row the hash of the leader's share stands in its place, then the box
	const boxAt = hashAt + 32
	for what, cheat := range map[string]struct {
		do  func(first, second []byte) // two rows
		why wire.Refusal
	}{
		"another nonce":           {func(a, _ []byte) { a[0] ^= 1 }, wire.RefusalUndecryptable},
		"another public share":    {func(a, _ []byte) { a[publicAt] ^= 1 }, wire.RefusalUndecryptable},
		"another leader's share":  {func(a, _ []byte) { a[hashAt] ^= 1 }, wire.RefusalUndecryptable},
		"another report's box":    {func(a, b []byte) { copy(a[boxAt:boxAt+boxLen], b[boxAt:]) }, wire.RefusalUndecryptable},
		"an invalid proof":        {func(a, _ []byte) { a[boxAt+boxLen] ^= 1 }, wire.RefusalBadProof},
		"another report's proof":  {func(a, b []byte) { copy(a[boxAt+boxLen:], b[boxAt+boxLen:]) }, wire.RefusalBadProof},
		"a row of another report": {func(a, b []byte) { copy(b, a) }, wire.RefusalDuplicate},
	} {
		s := d.newScene(size)
		round, err := shares.NewRound(s.a, s.digest)
		d.must(err)
		e := s.runOn(s.mixDisk, cheating{s.shuffler, func(index uint32, c *wire.Chunk) {
			if index == 1 {
				rows, err := parseRows(c.Payload, round.RowSize(), 5)
				if err != nil {
					t.Error(err)
					return
				}
				cheat.do(rows[0], rows[1])
			}
		}}, s.countDisk, s.analyzer)
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
	s.must(s.analyzer.PurgeMixed(s.Context(), s.a.Epoch, 0))
	s.must(s.analyzer.PurgePrepared(s.Context(), s.a.Epoch, 0))
	statement := s.said[statementIndex]
	s.sent, s.said = map[uint32][]byte{}, map[uint32][]byte{statementIndex: statement}   // there is no second statement
	e := s.runOn(channel.Folder(s.TempDir()), deaf{s.shuffler}, s.countDisk, s.analyzer) // seals the secret anew
	s.impossible(e, 0)
	if !errors.Is(e.countErr, destroyed) {
		t.Errorf("the analyzer: %v", e.countErr)
	}
}

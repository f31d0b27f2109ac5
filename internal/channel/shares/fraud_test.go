package shares

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Where the parts of a payload begin: nonce, public share, leader's share, envelope.
const (
	publicAt    = shares.NonceSize
	leaderAt    = publicAt + 64
	envelopeLen = seal.EnvelopeOverhead + 64 + devices.ProofSize
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
		"another's shares with one's own envelope": {func(s *scene, slot uint32) {
			s.add(slot, s.sender(slot), false)
			own := s.payloads[slot]
			swapped := bytes.Clone(s.payloads[0])
			copy(swapped[len(swapped)-envelopeLen:], own[len(own)-envelopeLen:])
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

// A nonce counts once, whoever's report has it, and a device once, whatever its nonce. Two dishonest devices that
// agreed on a nonce would otherwise leave the round without a set that could be signed.
func TestANonceAndADeviceCountOnce(t *testing.T) {
	t.Parallel()
	participants, err := channel.OpenParticipants(channel.Folder(t.TempDir()), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := (&Counting{Participants: participants}).newCounting(t.Context(),
		&channel.Round{Announcement: &plan.Announcement{
			Epoch: 1, Cohort: plan.Cohort{Size: 10},
			Plan:      plan.Plan{Rounds: []plan.Round{{Releases: []plan.Release{{}}}}},
			Encodings: []protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: 1}}}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range []struct {
		nonce  byte
		device uint32
		want   wire.Refusal
	}{
		{1, 1, wire.NoRefusal},
		{1, 2, wire.RefusalDuplicate},
		{2, 1, wire.RefusalDuplicate},
		{1, 1, wire.RefusalDuplicate},
		{2, 2, wire.NoRefusal},
	} {
		v := verified(one.nonce, one.device)
		if got := r.admit(v); got != one.want {
			t.Errorf("report %d: %v, want %v", i, got, one.want)
		}
	}
	if set, err := setOf(r.nonces); err != nil || set.Reports != 2 {
		t.Errorf("a set of %d reports, %v", set.Reports, err)
	}
}

// No host has more reports accepted than its part of the cohort.
func TestAHostHasNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size, func(a *plan.Announcement) { a.Cohort.Size = 16 })
	s.counting = func(c *Counting) { c.SponsorShare = 0.25 } // 4 of 16, which each of the three has
	s.add(size, s.sender(size), false)
	s.release.Members[size].Digest = [32]byte{0xff}
	s.exact(s.released(s.run(), map[uint32]wire.Refusal{size: wire.RefusalSponsorShare}))
}

// A share is the decimal that it was written as, as the shuffler counts it: 0.29 of 100 slots are 29, although the
// product of the two floating-point numbers is below that.
func TestAHostMayHaveAllOfADecimalShare(t *testing.T) {
	t.Parallel()
	participants, err := channel.OpenParticipants(channel.Folder(t.TempDir()), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := (&Counting{SponsorShare: 0.29, Participants: participants}).newCounting(t.Context(),
		&channel.Round{Announcement: &plan.Announcement{
			Epoch: 1, Cohort: plan.Cohort{Size: 100},
			Plan:      plan.Plan{Rounds: []plan.Round{{Releases: []plan.Release{{}}}}},
			Encodings: []protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: 1}}}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(30) {
		want := wire.NoRefusal
		if i == 29 {
			want = wire.RefusalSponsorShare
		}
		one := verified(byte(i), i)
		if got := r.admit(one); got != want {
			t.Errorf("device %d: %v, want %v", i, got, want)
		}
	}
}

// A report counts only if its device can be in the epoch's panel, whatever the shuffler says.
func TestOnlyDevicesOfThePanelAreAccepted(t *testing.T) {
	t.Parallel()
	participants, err := channel.OpenParticipants(channel.Folder(t.TempDir()), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	drawn := &channel.Drawn{Seed: panel.Seed{1}, Registered: 10_000, Size: 50}
	r, err := (&Counting{Participants: participants}).newCounting(t.Context(), &channel.Round{Drawn: drawn,
		Announcement: &plan.Announcement{
			Epoch: 1, Cohort: plan.Cohort{Size: 50},
			Plan:      plan.Plan{Rounds: []plan.Round{{Releases: []plan.Release{{}}}}},
			Encodings: []protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: 1}}}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range uint32(50) {
		one := verified(byte(i), i)
		want := wire.NoRefusal
		if !drawn.Holds(one.Participant) {
			want = wire.RefusalNotDrawn
			refused++
		}
		if got := r.admit(one); got != want {
			t.Errorf("device %d: %v, want %v", i, got, want)
		}
	}
	if refused < 40 {
		t.Errorf("%d of 50 devices are refused: too few to show anything", refused)
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
	d.must(s.counter(s.countDisk, s.toCount()).Forget(d.Context(), s.a.Epoch, 0))
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
	e := again.runOn(channel.Folder(t.TempDir()), deaf{s.toMix()}, s.countDisk, s.toCount())
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
	sealer, err := seal.NewEnvelopeSealer(s.a.AnalyzerKey, seal.SecretEnvelope, s.digest)
	s.must(err)
	other, err := sealer.AppendSeal(nil, shares.NewSecret(testIdentity(t), s.first).Bytes(), nil)
	s.must(err)
	e := s.runOn(s.mixDisk, cheating{s.toMix(), func(index uint32, c *wire.Chunk) {
		if index == 0 {
			copy(c.Payload[8:], other)
		}
	}}, s.countDisk, s.toCount())
	s.impossible(e, 0)
	if n := refusals(e, wire.RefusalUndecryptable); n != size {
		t.Errorf("%d reports are refused as undecryptable", n)
	}
}

func refusals(e end, why wire.Refusal) int {
	for _, c := range e.account.Balance().Refused {
		if c.Reason == reason(why) {
			return int(c.Items)
		}
	}
	return -1
}

// verified is a report with a nonce, of a device of one host.
func verified(n byte, device uint32) shares.Verified {
	by := devices.Present{Participant: devices.Participant{Number: device}}
	return shares.Verified{Nonce: nonce{n}, Present: by}
}

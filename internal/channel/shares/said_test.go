package shares

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// deaf is a shuffler that does not look into the audit log, or one whose broker hides the log.
type deaf struct{ MixingBroker }

func (deaf) Said(context.Context, bus.Role, string, func([]byte) error) error { return nil }

// setBack runs a round to its end, and once more after the shuffler's state was lost and the analyzer purged what it
// may. In the second run the analyzer accepts the round without the victim, if there is one.
func setBack(d *deployment, victim *uint32, broker func(*bus.Conn) MixingBroker) (s *scene, first [][]uint64, e end) {
	d.Helper()
	d.epoch++ // there is an earlier epoch
	s = d.newScene(size, noise(1<<16, 0))
	s.a.Cohort.Minimum, s.release.Minimum = 10, 10
	first = s.released(s.run(), nil)
	d.must(s.analyzer.Mixed.PurgeMixed(d.Context(), s.a.Epoch, 0))
	d.must(s.analyzer.Prepared.PurgePrepared(d.Context(), s.a.Epoch, 0))
	s.sent, s.said = map[uint32][]byte{}, map[uint32][]byte{}
	malicious := channel.Folder(d.TempDir())
	if victim != nil {
		by := s.sender(*victim)
		participants, err := channel.OpenParticipants(malicious, "testbed", nil)
		d.must(err)
		d.must(participants.Add(s.a.Epoch-1, 0, []devices.Present{{Participant: devices.Participant{
			Host: [32]byte(by.Identity.Public()), Number: by.Number,
		}}}))
	}
	return s, first, s.runOn(channel.Folder(d.TempDir()), broker(s.shuffler), malicious, s.toCount())
}

// The attack on a shuffler whose state folder was lost or set back after its share left: the analyzer, which may purge
// the exchange, signs a second set without one person, or the same set. The audit log holds what was said, and nothing
// leaves. A shuffler that does not look there gives the person, or its noise, away.
func TestAShufflerThatWasSetBackSendsNoSecondSum(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	victim := uint32(4)
	for what, of := range map[string]*uint32{"a set without the victim": &victim, "the same set": nil} {
		s, _, e := setBack(d, of, func(c *bus.Conn) MixingBroker { return mixingOver(c.Streams) })
		s.impossible(e, wire.RefusalSecondSet)
		if len(s.sent) != 0 {
			t.Errorf("%s: %d chunks left", what, len(s.sent))
		}
		refused := map[uint32]wire.Refusal{}
		if of != nil {
			refused[*of] = wire.RefusalAlreadyEnrolled
		}
		s, first, e := setBack(d, of, func(c *bus.Conn) MixingBroker { return deaf{mixingOver(c.Streams)} })
		if second := s.released(e, refused); slices.EqualFunc(first, second, slices.Equal) {
			t.Errorf("%s: without the guard the attack gives no second sum", what)
		}
	}
}

// The statement of the shuffler's share is in the audit log when the share leaves.
func TestTheShareLeavesAfterItsStatement(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	last, said := uint32((size+4)/5)+1, 0
	s.exact(s.released(s.runOn(s.mixDisk, cheating{s.toMix(), func(index uint32, _ *wire.Chunk) {
		if index != last {
			return
		}
		s.must(s.analyzer.Audit.ReadAudit(s.Context(),
			bus.AuditFilter{Role: bus.Shuffler, Kind: wire.SummedKind(s.a.Epoch, 0)},
			func(statement bus.Statement) error {
				said++
				_, _, err := wire.Open[wire.Summed](statement.Payload,
					wire.Party{Deployment: s.a.Deployment, Key: s.Shuffler.Public()})
				return err
			}))
	}}, s.countDisk, s.toCount()), nil))
	if said != 1 {
		t.Errorf("%d statements of the share are in the log when it leaves", said)
	}
}

// overtaken is a shuffler beside which another process, with a copy of its state folder, says first which share leaves.
type overtaken struct{ MixingBroker }

func (o overtaken) AppendAudit(ctx context.Context, kind string, payload []byte) error {
	if err := o.MixingBroker.AppendAudit(ctx, kind, []byte("the other process's statement")); err != nil {
		return err
	}
	return o.MixingBroker.AppendAudit(ctx, kind, payload)
}

// Of two processes with copies of one state folder at most one sends a share.
func TestAShareDoesNotLeaveBesideAnother(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	s.impossible(s.runOn(s.mixDisk, overtaken{s.toMix()}, s.countDisk, s.toCount()), wire.RefusalSecondSet)
}

// A share that is kept does not leave where the log names another one, as of a newer state folder.
func TestAKeptShareThatTheLogDoesNotNameStays(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	s.exact(s.released(s.run(), nil))
	s.must(s.shuffler.Audit.AppendAudit(s.Context(), wire.SummedKind(s.a.Epoch, 0), []byte("another share")))
	_, err := s.mixer(s.mixDisk, s.toMix()).Release(s.Context(), s.release, &wire.Manifest{})
	if !errors.Is(err, channel.ErrImpossible) || !errors.Is(err, reason(wire.RefusalSecondSet)) {
		t.Error(err)
	}
}

// An analyzer that signs two sets of one round, and shows the shuffler either, gets no sum.
func TestAnAnalyzerThatSignsTwoSetsGetsNoSum(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	other, _, err := wire.Sign(&wire.Accepted{
		Deployment: s.a.Deployment, Epoch: s.a.Epoch, Announcement: s.digest[:], Reports: size,
		Set: make([]byte, 32),
	}, s.Analyzer)
	s.must(err)
	s.must(s.analyzer.Audit.AppendAudit(s.Context(), wire.AcceptedKind(s.a.Epoch, 0), other))
	s.impossible(s.run(), wire.RefusalSecondSet)
}

// counted is a source that notes that it was asked.
type counted struct{ n *int }

func (c counted) Uint64() uint64 { *c.n++; return 0 }

// Sums that cannot be are refused for good: a later process does not draw the analyzer's noise for them again.
func TestSumsThatCannotBeAreRefusedOnce(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size, noise(0, 64))
	last, drawn := uint32((size+4)/5)+1, 0
	s.counting = func(c *Counting) { c.Source = counted{&drawn} }
	broken := cheating{s.toMix(), func(index uint32, c *wire.Chunk) {
		if index == last {
			c.Payload[sumFixed+3] ^= 1
		}
	}}
	manifest := func(m *wire.Manifest) {
		var digests [][32]byte
		s.must(s.analyzer.Mixed.ReadChunks(s.Context(), s.a.Epoch, 0, func(_ uint32, payload []byte) error {
			digests = append(digests, wire.ChunkDigest(payload))
			return nil
		}))
		all := wire.ChunksDigest(digests)
		m.ChunksDigest = all[:]
	}
	for run := range 2 {
		s.ended = manifest
		e := s.runOn(s.mixDisk, broken, s.countDisk, s.toCount())
		if !errors.Is(e.countErr, Rejected) || e.counts != nil {
			t.Fatalf("%v, %v", e.counts, e.countErr)
		}
		if run == 0 && drawn == 0 {
			t.Fatal("no noise was drawn: the sum is not refused for what it is")
		}
		if run == 0 {
			drawn = 0
		}
	}
	if drawn != 0 {
		t.Error("the analyzer's noise is drawn again")
	}
}

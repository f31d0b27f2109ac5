package shuffler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// never is longer than any test.
const never = time.Hour

// stored lists which of the first n sequences hold a report.
func (s *scene) stored(n uint64) (kept []uint64) {
	s.t.Helper()
	for sequence := range n {
		_, err := s.shuffler.c.Bus.GetReport(s.Context(), sequence+1)
		switch {
		case err == nil:
			kept = append(kept, sequence+1)
		case !errors.Is(err, bus.ErrGone):
			s.t.Fatal(err)
		}
	}
	return kept
}

// acknowledged waits until the broker has nothing left that the shuffler has not acknowledged.
func (s *scene) acknowledged() {
	s.t.Helper()
	s.eventually("acknowledged", func() bool {
		b, err := s.shuffler.c.Bus.Backlog(s.Context())
		s.must(err)
		newest, err := s.shuffler.c.Bus.LastReport(s.Context())
		s.must(err)
		return b.Waiting == 0 && b.Sent >= newest // the consumer hears of a report after its sender does
	})
}

// paper is a first announcement of the paper profile, and what makes the one of its next round.
func (s *scene) paper() (first *plan.Announcement, next func(digest [32]byte) *plan.Announcement) {
	s.t.Helper()
	make := func() *plan.Announcement {
		a := s.Announcement(glm.Paper, 12)
		a.Timing.Grace = 10 * time.Minute
		return a
	}
	return make(), func(digest [32]byte) *plan.Announcement {
		a := make()
		a.Round, a.Previous, a.Encodings = 1, digest[:], a.Encodings[1:]
		return a
	}
}

// A finished round takes along its own reports and all that was refused meanwhile: nothing waits for a later look.
func TestFinishedRoundForgetsItsReports(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.forgetEvery = never
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	for i := range uint32(11) {
		s.send(s.report(i))
		s.send([]byte("junk"))
	}
	s.acknowledged()
	if kept := s.stored(22); len(kept) != 22 {
		t.Errorf("before the release the broker holds %v", kept)
	}
	s.pass(11)
	s.finished()
	if kept := s.stored(22); len(kept) != 0 {
		t.Errorf("after the release the broker holds %v", kept)
	}
	s.account(11, 0, map[wire.Refusal]int{wire.RefusalWrongSize: 11})
}

// Reports of the next round that wait for its announcement outlive the end of this one, and so do the members of an
// open round whatever is forgotten around them: they are all released.
func TestForgettingKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	first, next := s.paper()
	s.open(first)
	s.enrol(12)
	s.send([]byte("junk"))
	for i := range uint32(12) {
		if i == 7 { // sweeps pass while the round is open
			s.eventually("forgotten", func() bool {
				return slices.Equal(s.stored(8), []uint64{2, 3, 4, 5, 6, 7, 8})
			})
		}
		s.send(s.report(i))
	}
	s.finished()
	if m := s.manifest(1, 0); m.Reports != 12 || m.Outcome != wire.Released {
		t.Fatalf("manifest %v", m)
	}
	s.eventually("forgotten", func() bool { return len(s.stored(13)) == 0 })

	s.opened = next(s.digest)
	_, s.digest = s.Sign(s.opened, s.Analyzer)
	s.send(s.report(0)) // 14: this round was not announced to the shuffler
	s.send([]byte("junk"))
	time.Sleep(5 * s.forgetEvery)
	if kept := s.stored(15); len(kept) != 2 {
		t.Errorf("of a report that waits for its round, and junk behind it, the broker holds %v", kept)
	}
	s.must(s.stop())
	s.start() // a new process looks at once
	time.Sleep(5 * s.forgetEvery)
	s.open(s.opened)
	for i := range uint32(11) {
		s.send(s.report(i + 1))
	}
	if m := s.manifest(1, 1); m.Reports != 12 || m.Outcome != wire.Released {
		t.Errorf("manifest %v", m)
	}
	s.forgotten()
}

// Where no round ever finishes, refused reports are forgotten all the same.
func TestJunkIsForgottenBetweenCohorts(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	for range 10 {
		s.sendTo(1, 0, []byte("junk"))
	}
	s.forgotten()
	s.account(0, 0, map[wire.Refusal]int{wire.RefusalWrongEpoch: 10})
}

// A report that claims to be ahead while no device can know the next round is refused: it would keep those behind it
// from being forgotten.
func TestAReportAheadOfAnOpenRoundIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.forgetEvery = never
	s.start()
	first, _ := s.paper()
	s.open(first)
	s.enrol(12)
	s.sendTo(1, 1, s.report(0))
	s.sendAll(11)
	s.acknowledged()
	s.pass(11)
	s.finished()
	if kept := s.stored(12); len(kept) != 0 {
		t.Errorf("after the release the broker holds %v", kept)
	}
	s.account(11, 0, map[wire.Refusal]int{wire.RefusalWrongEpoch: 1})
}

// A crash after the manifest and before the purge, or a purge that fails: the next try forgets, whatever else happens.
func TestForgettingIsRepeatedAfterACrash(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.forgetEvery = never
	s.crashAt(stepManifest)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(11)
	s.acknowledged()
	s.pass(11)
	s.eventually("crashed", s.crashed)
	if err := s.stop(); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	if kept := s.stored(11); len(kept) != 11 {
		t.Errorf("before the purge the broker holds %v", kept)
	}
	s.crash = nil
	s.start()
	s.finished()
	if kept := s.stored(11); len(kept) != 0 {
		t.Errorf("after the restart the broker holds %v", kept)
	}
}

// What an acknowledgement that is on its way keeps when a round is finished is forgotten soon after it has come.
func TestForgettingFollowsTheAcknowledgement(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for range 3 {
		s.sendTo(1, 0, []byte("a member"))
	}
	sh, err := s.configured().open()
	s.must(err)
	defer sh.Close()
	sh.forgetting.forgetEvery, sh.recalled, s.shuffler = never, true, sh
	over := &cohort.Release{Release: channel.Release{Epoch: 1, Members: []channel.Member{{Sequence: 3}}}}
	s.must(sh.forgetting.forget(s.Context(), over))
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	go func() { _ = sh.forgetting.keepForgetting(ctx) }()
	time.Sleep(100 * time.Millisecond)
	if kept := s.stored(3); len(kept) != 3 {
		t.Errorf("before the acknowledgements the broker holds %v", kept)
	}
	go func() { _ = sh.c.Bus.ReceiveReports(ctx, func(d *bus.Delivery) { _ = d.Ack() }) }()
	s.eventually("forgotten", func() bool { return len(s.stored(3)) == 0 })
}

// unwritable is a broker whose disk takes no purge until it is mended.
type unwritable struct {
	Broker
	mended *atomic.Bool
}

func (b unwritable) PurgeReports(ctx context.Context, upTo uint64) error {
	if b.mended.Load() {
		return b.Broker.PurgeReports(ctx, upTo)
	}
	<-ctx.Done()
	return fmt.Errorf("%w: %w (%w)", bus.ErrUnknown, context.Cause(ctx), bus.ErrDisk)
}

// A broker that cannot write what it is to forget does not hold up the next round: it is what shows the broker's health
// check that it must be restarted. Once it can write, it forgets.
func TestABrokerThatCannotForgetHoldsUpNoRound(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var mended atomic.Bool
	s.wrap = func(c Broker) Broker { return unwritable{c, &mended} }
	s.config.Clock = hasty{role.SystemClock()}
	s.start()
	s.open(s.announcement())
	s.cohort(0, 12, 12)
	s.manifest(1, 0)
	s.open(s.next())
	if n := len(s.stored(12)); n != 12 {
		t.Errorf("the broker holds %d of 12 reports", n)
	}
	mended.Store(true)
	s.eventually("forgotten", func() bool { return len(s.stored(12)) == 0 })
}

// hasty is a clock by which waiting for what the broker is to forget takes little time.
type hasty struct{ role.Clock }

func (c hasty) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == forgetTime {
		d = 300 * time.Millisecond
	}
	return c.Clock.WithTimeout(ctx, d)
}

package shuffler

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// idle makes the shuffler of the scene's configuration without running it: the test takes its steps, in whatever order
// it likes.
func (s *scene) idle() *Shuffler {
	s.t.Helper()
	var sh *Shuffler
	s.config.Reports = testbed.Account(s.t, "report", func() int64 { return sh.Held() }, Reasons())
	s.config.Messages = testbed.Account(s.t, "bit_message", func() int64 { return sh.HeldMessages() }, Reasons())
	s.config.Announcements = testbed.Account(s.t, "announcement", nil, Reasons())
	sh, err := s.configured().open()
	s.must(err)
	s.t.Cleanup(func() { _ = sh.Close() })
	sh.c.Reports.Resumed(int(sh.Held()))
	sh.c.Messages.Resumed(int(sh.HeldMessages()))
	return sh
}

// deciding reports whether the shuffler would take reports.
func deciding(s *Shuffler) bool {
	select {
	case <-s.begun:
		return true
	default:
		return false
	}
}

// A state folder that was restored from a copy knows nothing of reports that were acknowledged after the copy was
// taken. A look at what can be forgotten, at whatever point of the start, forgets none of
// them before they are taken in again.
func TestNothingIsForgottenBeforeItIsTakenInAgain(t *testing.T) {
	t.Parallel()
	for name, announced := range map[string]bool{
		"copied before the announcement": false, "copied before the reports": true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.forgetEvery = never
			s.start()
			folder := ""
			if !announced {
				folder = s.backup()
			}
			s.open(s.announcement())
			if announced {
				s.enrol(12)
				folder = s.backup()
			} else {
				s.enrol(12)
			}
			s.sendAll(9)
			s.acknowledged()
			s.must(s.stop())
			s.config.StateDir = folder
			s.config.Notice = nil
			sh := s.idle()
			s.shuffler = sh
			kept := func(when string) {
				t.Helper()
				s.must(sh.forgetting.forget(s.Context(), nil))
				if n := len(s.stored(9)); n != 9 {
					t.Fatalf("%s: the broker holds %d of 9 reports that were acknowledged", when, n)
				}
			}
			kept("before the journal is held against the broker")
			if trouble, err := sh.history.recall(s.Context()); trouble != nil || err != nil {
				t.Fatal(trouble, err)
			}
			kept("before the round is opened, or its reports are looked through")
			var last look
			if clear, err := sh.history.consistent(s.Context(), &last); !clear || err != nil {
				t.Fatal(clear, err)
			}
			if deciding(sh) != announced { // the announcement is yet to come by, where the journal lacks it
				t.Errorf("reports are decided on: %t", !announced)
			}
			stored, err := s.broker.Announcements.ReadAnnouncements(s.Context())
			s.must(err)
			for _, a := range stored {
				s.must(sh.announcements.announced(s.Context(), a))
			}
			if !announced {
				kept("before the round's reports are looked through")
			}
			if clear, err := sh.history.consistent(s.Context(), &last); !clear || err != nil {
				t.Fatal(clear, err)
			}
			if !deciding(sh) {
				t.Error("no report is decided on")
			}
			if announced {
				if sh.Held() != 9 {
					t.Errorf("%d reports are taken in again", sh.Held())
				}
				kept("once they are members of the round")
				return
			}
			kept("although their enrolments are lost: a newer folder may be back before the round is over")
		})
	}
}

// An announcement that the shuffler refuses for good is never opened. Reports that are not needed are forgotten all the
// same.
func TestARefusedAnnouncementKeepsNoReports(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := s.announcement()
	a.Cohort.Minimum = 3 // this shuffler releases no fewer than 4
	s.Announce(s.analyzer, a)
	s.start()
	for range 5 {
		s.sendTo(1, 0, []byte("junk"))
	}
	s.forgotten()
}

// A worker that asks about reports waits until they may be decided on.
func TestWorkersWaitUntilTheJournalWasHeldAgainstTheBroker(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	sh := s.idle()
	ctx, give := context.WithTimeout(s.Context(), 50*time.Millisecond)
	defer give()
	if _, err := sh.reports.claims(ctx, make([]byte, 16)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asked before: %v", err)
	}
	if trouble, err := sh.history.recall(s.Context()); trouble != nil || err != nil {
		t.Fatal(trouble, err)
	}
	if clear, err := sh.history.consistent(s.Context(), &look{}); !clear || err != nil {
		t.Fatal(clear, err)
	}
	if _, err := sh.reports.claims(s.Context(), make([]byte, 16)); err != nil {
		t.Errorf("asked after: %v", err)
	}
}

// blind is a broker that shows no announcements until it is opened, and tells whether reports were asked for.
type blind struct {
	Broker
	open, receiving atomic.Bool
	looks           atomic.Int32
}

func (b *blind) ReadAnnouncements(ctx context.Context) ([]bus.Announcement, error) {
	b.looks.Add(1)
	if !b.open.Load() {
		return nil, errors.New("the broker does not answer")
	}
	return b.Broker.ReadAnnouncements(ctx)
}

func (b *blind) ReceiveReports(ctx context.Context, handler func(*bus.Delivery)) error {
	b.receiving.Store(true)
	return b.Broker.ReceiveReports(ctx, handler)
}

// No report is taken before the journal was held against the broker: one whose enrolment the journal lacks would be
// refused, and acknowledged, a moment before the journal has it again.
func TestNoReportIsTakenBeforeTheJournalWasHeldAgainstTheBroker(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var b *blind
	s.wrap = func(c Broker) Broker { b = &blind{Broker: c}; return b }
	s.start()
	s.eventually("the broker was looked at again", func() bool { return b.looks.Load() >= 3 })
	if b.receiving.Load() {
		t.Error("reports are asked for while the broker shows no announcements")
	}
	b.open.Store(true)
	s.eventually("reports are taken", b.receiving.Load)
}

package shuffler

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// registered is a scene whose shuffler runs and knows 20 devices.
func registered(t *testing.T) *scene {
	s := newScene(t)
	quick(s)
	s.start()
	s.opened = s.announcement()
	s.register(0, 20)
	return s
}

// lost waits until the shuffler says that its devices are not those of a pool, and checks that it draws nothing and
// takes no registration.
func (s *scene) lost() {
	s.t.Helper()
	s.eventually("noticed", func() bool {
		return strings.Contains(s.why(historyCondition), "the devices that this state folder knows are not those")
	})
	if r := s.ask(70, toRegister); r.Refusal != wire.RefusalWrongEpoch {
		s.t.Errorf("a device registers: %v", r)
	}
	time.Sleep(quiet)
	if n := len(s.words(bus.Shuffler, wire.KindPool)); n != 1 {
		s.t.Errorf("%d pools in the audit log", n)
	}
	if f, ok := s.shuffler.Filling(); ok && f.Enrolled != 0 {
		s.t.Errorf("drawn: %+v", f)
	}
}

// A state folder from before the pool was fixed, with the same devices: the pool is taken from the audit log, and the
// panel is the same one. There is no second pool, whatever the shuffler would contribute now.
func TestAnOlderStateFolderHasTheSamePanel(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]int{"pooled": 0, "drawn": 1, "reported": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := registered(t)
			folder := s.backup()
			s.open(panelled(s.announcement()))
			s.pooled()
			var slots map[uint32]uint32
			if when > 0 {
				s.reveal(s.Analyzer)
				s.drawn()
				slots = s.slots(20)
			}
			if when > 1 { // acknowledged by the process whose journal is lost
				s.reportAs(slots, 2)
				s.acknowledged()
			}
			before := s.words(bus.Shuffler, wire.KindPool)
			s.config.Source = testbed.Source()
			s.restore(folder)
			s.reopen()
			if when == 0 {
				s.reveal(s.Analyzer)
			}
			s.drawn()
			for device, slot := range s.slots(20) {
				if when > 0 && slots[device] != slot {
					t.Fatal("another panel")
				}
			}
			after := s.words(bus.Shuffler, wire.KindPool)
			if len(before) != 1 || len(after) != 1 || !bytes.Equal(before[0], after[0]) {
				t.Errorf("%d pools before, %d after", len(before), len(after))
			}
			if when == 2 {
				s.admitted(10) // taken in again
			}
		})
	}
}

// slowBroker does not show what the analyzer said until it is told to.
type slowBroker struct {
	Broker
	shows *atomic.Bool
}

func (b slowBroker) SaidSince(
	ctx context.Context, role bus.Role, from uint64, handler func(bus.Statement) error,
) error {
	if role == bus.Analyzer && !b.shows.Load() {
		return nil
	}
	return b.Broker.SaidSince(ctx, role, from, handler)
}

// hidingBroker shows what comes after the analyzer's draws, and the draws themselves only when it is told to.
type hidingBroker struct {
	Broker
	shows, passed *atomic.Bool // passed: what is behind a draw was read without it
}

func (b hidingBroker) SaidSince(
	ctx context.Context, role bus.Role, from uint64, handler func(bus.Statement) error,
) error {
	hidden := false
	return b.Broker.SaidSince(ctx, role, from, func(st bus.Statement) error {
		if role == bus.Analyzer && st.Kind == wire.KindDraw && !b.shows.Load() {
			hidden = true
			return nil
		}
		if hidden {
			b.passed.Store(true)
		}
		return handler(st)
	})
}

// A broker that shows later entries of the analyzer's, and hides the draw before them for a while, delays the draw, and
// no more: the shuffler reads the log again.
func TestADrawThatWasHiddenIsFoundLater(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var shows, passed atomic.Bool
	s.wrap = func(c Broker) Broker { return hidingBroker{c, &shows, &passed} }
	quick(s)
	s.start()
	s.opened = s.announcement()
	s.register(0, 20)
	s.open(panelled(s.announcement()))
	s.reveal(s.Analyzer)
	s.must(s.analyzer.Audit.AppendAudit(s.Context(), wire.KindCounts, []byte("what comes after the draw")))
	s.eventually("read on behind the draw", passed.Load)
	shows.Store(true)
	s.drawn()
	s.slots(20)
}

// A state folder from between pool and draw, and the draw does not show at once: the reports that were acknowledged
// since are kept at the broker until it does, and are taken in then.
func TestReportsWaitForADrawThatTheJournalLacks(t *testing.T) {
	t.Parallel()
	s := registered(t)
	s.open(panelled(s.announcement()))
	s.pooled()
	folder := s.backup()
	s.reopen()
	s.reveal(s.Analyzer)
	s.drawn()
	s.reportAs(s.slots(20), 2)
	s.acknowledged()
	var shows atomic.Bool
	s.wrap = func(c Broker) Broker { return slowBroker{c, &shows} }
	s.restore(folder)
	s.reopen()
	time.Sleep(quiet)
	shows.Store(true)
	s.drawn()
	s.admitted(10)
}

// The same, where the epoch is over meanwhile: its panel is known again from the pool and the draw, so that it counts
// in later epochs.
func TestAnOlderStateFolderLearnsThePanelsThatAreOver(t *testing.T) {
	t.Parallel()
	s := registered(t)
	folder := s.backup()
	first := map[uint32]uint32{}
	for epoch := range 2 {
		if epoch == 0 {
			s.open(panelled(s.announcement()))
		} else {
			s.open(panelled(s.next()))
		}
		s.reveal(s.Analyzer)
		s.drawn()
		slots := s.slots(20)
		for device := range slots {
			first[device]++
		}
		s.reportAs(slots, 0)
		s.manifest(s.opened.Epoch, 0)
		s.finished()
	}
	s.restore(folder)
	s.eventually("known again", func() bool { return s.shuffler.Snapshot().Epoch == 2 })
	s.finished()
	s.shuffler.mu.Lock()
	defer s.shuffler.mu.Unlock()
	for device, n := range first {
		id := cohort.DeviceID{Host: [32]byte(s.host.Public()), Number: device}
		if s.shuffler.state.Served(id, 3) != (n == 2) {
			t.Errorf("device %d was in %d panels of two that it may be in", device, n)
		}
	}
}

// A state folder that lacks devices of a pool cannot draw it, and makes no other: the shuffler stops deciding and says
// what to do. With the newer folder it goes on.
func TestAStateFolderWithoutThePoolsDevicesDrawsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		known int // to the copy
		over  bool
	}{"open": {20, false}, "open, and the copy has too few for any pool": {19, false}, "over": {20, true}} {
		over := c.over
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			quick(s)
			s.start()
			s.opened = s.announcement()
			s.register(0, c.known)
			older := s.backup()
			s.register(c.known, 22)
			s.open(panelled(s.announcement()))
			s.pooled()
			if over {
				s.reveal(s.Analyzer)
				s.drawn()
				s.reportAs(s.slots(22), 0)
				s.manifest(1, 0)
				s.finished()
			}
			newer := s.backup()
			s.restore(older)
			s.lost()
			s.restore(newer)
			if !over {
				s.reveal(s.Analyzer)
				s.drawn()
				s.slots(22)
				return
			}
			s.open(panelled(s.next()))
			s.reveal(s.Analyzer)
			s.drawn()
			s.slots(22)
		})
	}
}

// A broker from before the pool: the shuffler says the same pool again, and the panel that was drawn stays.
func TestAnOlderBrokerGetsTheSamePool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	quick(s)
	s.start()
	s.opened = s.announcement()
	s.register(0, 19)
	s.open(panelled(s.announcement()))
	older := s.Backup()
	s.register(19, 20)
	before, first := s.pooled()
	for epoch := range uint64(9) { // entries that the older broker does not have
		s.reveal(s.Analyzer, func(d *wire.Draw) { d.Epoch = 7 + epoch })
	}
	time.Sleep(quiet) // they are read
	s.Restore(older)
	after, again := s.pooled()
	if first != again || !bytes.Equal(before.Contribution, after.Contribution) {
		t.Error("another pool after the broker was set back")
	}
	s.reveal(s.Analyzer)
	s.drawn()
	slots := s.slots(20)
	s.Restore(older)
	if _, digest := s.pooled(); digest != first {
		t.Error("another pool after the broker was set back")
	}
	for device, slot := range slots {
		if r := s.ask(device); !r.Enrolled || r.Slot != slot {
			t.Fatalf("device %d: %v", device, r)
		}
	}
}

// Another pool of this shuffler's is in the audit log before its own, as of a second process with a copy of the
// state folder: nothing is drawn from either.
func TestASecondPoolIsNotDrawnFrom(t *testing.T) {
	t.Parallel()
	other := func(s *scene, a *plan.Announcement) {
		_, digest := s.Sign(a, s.Analyzer)
		signed, _ := s.Sign(&wire.Pool{
			Deployment: testbed.Deployment, Epoch: 1, Announcement: digest[:], Registered: 20,
			Root:         testbed.Contribution(8),
			Contribution: testbed.Contribution(9),
		}, s.Shuffler)
		s.must(s.broker.Audit.AppendAudit(s.Context(), wire.KindPool, signed))
	}
	for name, f := range map[string]func(*scene, *plan.Announcement){
		"before the announcement": func(s *scene, a *plan.Announcement) {
			s.register(0, 20)
			other(s, a)
			s.open(a)
		},
		"while devices register": func(s *scene, a *plan.Announcement) {
			s.register(0, 19)
			s.open(a)
			s.eventually("waiting", func() bool { return s.shuffler.Snapshot().Panel.Waits != "" })
			other(s, a)
			s.register(19, 20)
		},
		"after the own one was fixed, before it was said": func(s *scene, a *plan.Announcement) {
			s.must(s.stop())
			s.wrap = func(c Broker) Broker { return panelBroker{c, stepPool, s} }
			s.start()
			s.register(0, 20)
			s.open(a)
			s.eventually("crashed", s.crashed)
			if err := s.stop(); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			other(s, a)
			// The shuffler's log has its own pool first, so that the audit log shows it as forked, too.
			s.must(os.Remove(filepath.Join(s.config.StateDir, "log")))
			s.wrap = nil
			s.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			quick(s)
			s.start()
			a := panelled(s.announcement())
			s.opened = a
			f(s, a)
			s.lost()
			s.must(s.stop())
			if trouble, err := s.idle().history.recall(s.Context()); trouble == nil || err != nil {
				t.Errorf("held against the audit log again: %v, %v", trouble, err)
			}
		})
	}
}

// Contributions of the analyzer that are not those of this draw, or a second one beside it: readiness names the reason,
// and nothing is drawn.
func TestNothingIsDrawnByAFalseContribution(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		why    error
		change []func(*wire.Draw)
	}{
		"another pool": {cohort.OtherPool,
			[]func(*wire.Draw){func(d *wire.Draw) { d.Pool = testbed.Contribution(7) }}},
		"another announcement": {cohort.OtherAnnouncement,
			[]func(*wire.Draw){func(d *wire.Draw) { d.Announcement = testbed.Contribution(7) }}},
		"not committed": {cohort.NotCommitted,
			[]func(*wire.Draw){func(d *wire.Draw) { d.Contribution = testbed.Contribution(7) }}},
		"a second one": {cohort.SecondDraw, []func(*wire.Draw){
			func(*wire.Draw) {}, func(d *wire.Draw) { d.Pool = testbed.Contribution(7) },
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := registered(t)
			s.open(panelled(s.announcement()))
			s.pooled()
			s.must(s.stop()) // both are there before the shuffler looks
			for _, change := range c.change {
				s.reveal(s.Analyzer, change)
			}
			s.start()
			s.eventually("refused", func() bool { return strings.Contains(s.why(panelCondition), c.why.Error()) })
			time.Sleep(quiet)
			if p := s.shuffler.Snapshot().Panel; p.Drawn {
				t.Error("drawn")
			}
			if r := s.ask(0); r.Refusal != wire.RefusalWrongEpoch {
				t.Errorf("a device asks: %v", r)
			}
		})
	}
}

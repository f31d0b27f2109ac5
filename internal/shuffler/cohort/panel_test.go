package cohort

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// panelled is an announcement of a panel of that size.
func panelled(epoch uint64, size, minimum uint32, p plan.Panel, records, period uint32) *plan.Announcement {
	a := announcement(epoch, 0, size, minimum, 1)
	a.Plan.Panel, a.Plan.Decisions, a.Plan.Records, a.Plan.Period = &p, 1, records, period
	c := panel.Commit(testbed.Contribution(epoch))
	a.Commitment = c[:]
	return a
}

func (s *script) register(id DeviceID) (held bool, err error) {
	held, ev, err := s.state.Register(id, nil)
	s.apply(ev)
	return held, err
}

// registers enters devices first to last-1 of a host.
func (s *script) registers(host byte, first, last int) {
	s.t.Helper()
	for n := first; n < last; n++ {
		if held, err := s.register(DeviceID{[32]byte{host}, uint32(n)}); held || err != nil {
			s.t.Fatalf("device %d of host %d: held %v, %v", n, host, held, err)
		}
	}
}

// pool fixes the pool of the open epoch, under a digest of its own.
func (s *script) pool() (devices int, fixed bool) {
	s.t.Helper()
	p := s.state.Pool()
	if p == nil || p.Devices < p.Needed {
		return 0, false
	}
	d := sha256.Sum256(fmt.Append(nil, "pool", p.Epoch))
	s.apply(&Event{Pooled: &Pooled{
		At: s.now.UnixMilli(), Registered: uint32(p.Devices), Quota: uint32(p.Quota), Statement: []byte("pool"),
		Digest: d[:],
	}})
	return p.Devices, true
}

// said is the analyzer's draw for the open epoch.
func (s *script) said() *wire.Draw {
	e := s.state.epoch
	d := sha256.Sum256(fmt.Append(nil, "pool", e.number))
	return &wire.Draw{
		Epoch: e.number, Announcement: e.rounds[0].digest[:], Pool: d[:], Contribution: testbed.Contribution(e.number),
	}
}

// draw draws the panel of the open epoch.
func (s *script) draw() {
	s.t.Helper()
	if _, fixed := s.pool(); !fixed {
		s.t.Fatalf("no pool: %+v", s.state.Pool())
	}
	ev, err := s.state.Draw(s.said(), []byte("draw"), s.now)
	s.must(err)
	if ev == nil {
		s.t.Fatal("nothing is drawn")
	}
	s.apply(ev)
}

// asks is the refusal that a device gets, and its slot if it gets none.
func (s *script) asks(id DeviceID, epoch uint64, d Digest) (slot uint32, at time.Time, why wire.Refusal) {
	s.t.Helper()
	slot, at, ev, err := s.state.Enrol(id, nil, epoch, d, s.now)
	if ev != nil {
		s.t.Fatalf("asking is an event: %s", ev.Encode())
	}
	var no *Refused
	if errors.As(err, &no) {
		return 0, time.Time{}, no.Reason
	}
	s.must(err)
	return slot, at, wire.NoRefusal
}

// reportAll has all devices of the open panel report, and puts the epoch behind.
func (s *script) reportAll(epoch uint64, d Digest) {
	s.t.Helper()
	for i, device := range s.members() {
		ev, err := s.state.Admit(device, epoch, 0, uint32(i), d, digest(byte(i), 1), uint64(len(s.journal)))
		s.must(err)
		s.apply(ev)
	}
	if c := s.commit(); c == nil || c.Outcome != wire.Released {
		s.t.Fatalf("complete panel: %+v", c)
	}
	s.finish(0)
}

// members are the devices of the open panel, by slot.
func (s *script) members() (all []DeviceID) {
	for i := range s.state.epoch.slots.len() {
		all = append(all, s.state.idOf(s.state.epoch, s.state.epoch.slots.at(i).device))
	}
	return all
}

// The life of an epoch with a panel: what every device is told before and after the draw, when its report is due, and
// that the panel is the one that follows from the seed. The journal replayed at any point says the same.
func TestTheLifeOfAPanel(t *testing.T) {
	s := newScript(t, 2)
	s.registers(1, 0, 10)
	if held, err := s.register(device(3)); !held || err != nil {
		t.Fatalf("registered twice: held %v, %v", held, err)
	}
	d := digest(1)
	s.must(s.open(panelled(1, 5, 2, plan.Panel{Registered: 12}, 1, 0), d))
	if _, fixed := s.pool(); fixed {
		t.Fatal("drawn from 10 devices of 12")
	}
	for _, id := range []DeviceID{device(0), device(11)} {
		if _, _, why := s.asks(id, 1, d); why != wire.RefusalWrongEpoch {
			t.Fatalf("before the draw: %v", why)
		}
	}
	s.registers(1, 10, 12) // during the epoch, before its pool
	s.reopened()
	if n, fixed := s.pool(); !fixed || n != 12 {
		t.Fatalf("pool of %d: %v", n, fixed)
	}
	s.registers(1, 12, 20) // too late for this pool
	s.now = s.now.Add(time.Hour)
	s.reopened()
	ev, err := s.state.Draw(s.said(), []byte("draw"), s.now)
	s.must(err)
	s.apply(ev)
	s.reopened()
	var all []panel.Device
	for n := range 12 {
		all = append(all, panel.Device(device(n)))
	}
	want := panel.NewSeed(sha256.Sum256([]byte("pool1")), testbed.Contribution(1)).Panel(all, 5)
	drawn := map[DeviceID]bool{}
	for i, w := range want {
		slot, at, why := s.asks(DeviceID(w), 1, d)
		if why != wire.NoRefusal || slot != uint32(i) {
			t.Fatalf("the device of rank %d: slot %d, %v", i, slot, why)
		}
		if after := at.Sub(s.now); after < time.Second || after > 1200*time.Millisecond {
			t.Fatalf("slot %d: report %v after the draw, outside window and jitter", i, after)
		}
		drawn[DeviceID(w)] = true
	}
	for n := range 20 {
		_, _, why := s.asks(device(n), 1, d)
		switch {
		case n >= 12 && why != wire.RefusalNotRegistered, n < 12 && !drawn[device(n)] && why != wire.RefusalNotDrawn:
			t.Errorf("device %d: %v", n, why)
		}
	}
	if _, _, why := s.asks(DeviceID(want[0]), 1, digest(2)); why != wire.RefusalWrongAnnouncement {
		t.Errorf("another announcement: %v", why)
	}
	for n := range 12 { // a report of a device that is not drawn
		if !drawn[device(n)] {
			_, err := s.state.Admit(device(n), 1, 0, 0, d, digest(9), 1)
			s.refused(err, wire.RefusalNotEnrolled)
		}
	}
	// The window is over, the deadline is not: the device is told to report now.
	drawnAt := s.now
	s.now = drawnAt.Add(1200*time.Millisecond + 499*time.Millisecond)
	if _, at, why := s.asks(DeviceID(want[4]), 1, d); why != wire.NoRefusal || at.After(s.now) {
		t.Errorf("before the deadline: %v, report %v from now", why, at.Sub(s.now))
	}
	for i := range uint32(3) {
		ev, err := s.state.Admit(DeviceID(want[i]), 1, 0, i, d, digest(byte(i)), uint64(i+1))
		s.must(err)
		s.apply(ev)
	}
	if s.commit() != nil {
		t.Fatal("committed before the deadline")
	}
	s.now = s.now.Add(time.Millisecond)
	if c := s.commit(); c == nil || c.Outcome != wire.Released {
		t.Fatalf("at the deadline: %+v", c)
	}
	r, _ := s.state.Unfinished()
	if r.Enrolled != 5 || len(r.Members) != 3 {
		t.Errorf("a panel of 5 of which 3 reported: %+v", r)
	}
	if _, _, why := s.asks(DeviceID(want[4]), 1, d); why != wire.RefusalEnrolmentClosed {
		t.Errorf("a drawn device after the end: %v", why)
	}
	s.reopened()
}

// A panel is drawn from no fewer devices than it has slots, whatever is announced.
func TestAPanelIsFull(t *testing.T) {
	s := newScript(t, 2)
	s.registers(1, 0, 7)
	s.must(s.open(panelled(1, 8, 2, plan.Panel{Registered: 5}, 1, 0), digest(1)))
	if _, fixed := s.pool(); fixed {
		t.Fatal("a panel of 8 is drawn from 7 devices")
	}
	s.registers(1, 7, 8)
	s.draw()
	if f, _ := s.state.Filling(); f.Enrolled != 8 {
		t.Errorf("%+v", f)
	}
}

// Events that no decision can have made are refused: of a journal that was tampered with.
func TestForeignEventsOfPanelsAreRefused(t *testing.T) {
	s := newScript(t, 2)
	s.registers(1, 0, 12)
	s.must(s.open(panelled(1, 5, 2, plan.Panel{Registered: 12}, 1, 0), digest(1)))
	no := func(what string, ev *Event) {
		t.Helper()
		if s.state.Apply(ev) == nil {
			t.Errorf("accepted: %s", what)
		}
	}
	key := make([]byte, 32)
	no("a draw without a pool", &Event{Drawn: &Drawn{Contribution: key}})
	no("a pool of other devices", &Event{Pooled: &Pooled{Registered: 11, Digest: key}})
	no("a pool whose digest is cut short", &Event{Pooled: &Pooled{Registered: 12, Digest: key[:31]}})
	no("a device that is registered", &Event{Registered: &Registered{Host: append([]byte{1}, key[1:]...), Device: 3}})
	no("a host key that is cut short", &Event{Registered: &Registered{Host: key[:31], Device: 3}})
	no("an enrolment", &Event{Enrolled: &Enrolled{Host: key, Device: 3}})
	s.draw()
	no("an enrolment after the draw", &Event{Enrolled: &Enrolled{Host: key, Device: 3}})
	other := newScript(t, 2)
	other.must(other.open(announcement(1, 0, 5, 2, 1), digest(1)))
	s = other
	no("a pool where there are no panels", &Event{Pooled: &Pooled{Digest: key}})
	no("a draw where there are no panels", &Event{Drawn: &Drawn{Contribution: key}})
}

// Contributions that are not those of this draw are refused, each for its reason, and nothing is drawn. After the draw
// another one changes nothing.
func TestOtherDrawsAreRefused(t *testing.T) {
	s := newScript(t, 2)
	s.registers(1, 0, 12)
	s.must(s.open(panelled(1, 5, 2, plan.Panel{Registered: 12}, 1, 0), digest(1)))
	if ev, err := s.state.Draw(s.said(), nil, s.now); ev != nil || err != nil {
		t.Fatalf("a draw before the pool: %v, %v", ev, err)
	}
	s.pool()
	if s.state.Apply(&Event{Pooled: &s.state.epoch.drawing.pool.Pooled}) == nil {
		t.Error("the journal fixes two pools for one epoch")
	}
	for why, change := range map[error]func(*wire.Draw){
		OtherAnnouncement: func(d *wire.Draw) { d.Announcement = testbed.Contribution(7) },
		OtherPool:         func(d *wire.Draw) { d.Pool = testbed.Contribution(7) },
		NotCommitted:      func(d *wire.Draw) { d.Contribution = testbed.Contribution(7) },
	} {
		d := s.said()
		change(d)
		if ev, err := s.state.Draw(d, nil, s.now); ev != nil || !errors.Is(err, why) {
			t.Errorf("%v: %v, %v", why, ev, err)
		}
	}
	ev, err := s.state.Draw(s.said(), []byte("draw"), s.now)
	s.must(err)
	s.apply(ev)
	if ev, err := s.state.Draw(s.said(), nil, s.now); ev != nil || err != nil {
		t.Errorf("drawn twice: %v, %v", ev, err)
	}
	if err := s.state.Apply(ev); ev != nil && err == nil {
		t.Error("the journal draws twice")
	}
}

// A device is in at most so many panels, ever or in so many epochs that follow each other, and reporting has no part in
// it. Whoever was is told so; the rest is still drawn from.
func TestADeviceIsInNoMorePanelsThanPlanned(t *testing.T) {
	for _, c := range []struct{ records, period uint32 }{{1, 0}, {2, 0}, {3, 0}, {1, 2}, {1, 3}, {2, 3}, {2, 5},
		{3, 3}} {
		t.Run(fmt.Sprint(c.records, " in ", c.period), func(t *testing.T) {
			s := newScript(t, 2)
			const devices, size, needed = 12, 4, 4
			s.registers(1, 0, devices)
			var panels [][]DeviceID
			served := func(id DeviceID, epoch int) (n uint32) { // by what was drawn
				for i, p := range panels {
					if c.period > 0 && i+1 <= epoch-int(c.period) {
						continue
					}
					for _, m := range p {
						if m == id {
							n++
						}
					}
				}
				return n
			}
			for epoch := 1; epoch <= 12; epoch++ {
				d := digest(byte(epoch))
				s.must(s.open(panelled(uint64(epoch), size, 2, plan.Panel{Registered: needed}, c.records, c.period), d))
				want := 0
				for n := range devices {
					if served(device(n), epoch) < c.records {
						want++
					}
				}
				n, fixed := s.pool()
				if fixed != (want >= needed) || fixed && n != want {
					t.Fatalf("epoch %d: pool of %d, fixed %v; %d devices may be in another panel", epoch, n, fixed,
						want)
				}
				if !fixed {
					return
				}
				ev, err := s.state.Draw(s.said(), []byte("draw"), s.now)
				s.must(err)
				s.apply(ev)
				members := s.members()
				for _, id := range members {
					if served(id, epoch) >= c.records {
						t.Fatalf("epoch %d: a device is drawn that was in %d panels", epoch, c.records)
					}
				}
				for n := range devices {
					if _, _, why := s.asks(device(n), uint64(epoch), d); served(device(n), epoch) >= c.records &&
						why != wire.RefusalAlreadyEnrolled {
						t.Fatalf("epoch %d: a device that was in %d panels is told %v", epoch, c.records, why)
					}
				}
				panels = append(panels, members)
				s.reopened()
				if epoch%2 == 0 { // a destroyed cohort counts as well
					s.now = s.now.Add(time.Hour)
					if r := s.commit(); r == nil || r.Outcome != wire.Destroyed {
						t.Fatalf("%+v", r)
					}
					s.finish(0)
				} else {
					s.reportAll(uint64(epoch), d)
				}
				s.reopened()
			}
			if c.period == 0 {
				t.Errorf("%d devices filled 12 panels of %d, %d times each at most", devices, size, c.records)
			}
		})
	}
}

package cohort

import (
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Devices that are away for three epochs neither block a panel nor change what the others are told: each is released at
// its deadline, and a device that comes back is told of the open epoch only.
func TestDevicesThatAreAwayBlockNothing(t *testing.T) {
	s := newScript(t, 2)
	s.registers(1, 0, 30)
	for epoch := uint64(1); epoch <= 4; epoch++ {
		d := digest(byte(epoch))
		s.must(s.open(panelled(epoch, 10, 4, plan.Panel{Registered: 20}, 4, 0), d))
		s.draw()
		reports := 0
		for i, id := range s.members() {
			if away := id.Number%3 == 0; away && epoch < 4 {
				continue
			}
			ev, err := s.state.Admit(id, epoch, 0, uint32(i), d, digest(byte(i), 1), uint64(len(s.journal)))
			s.must(err)
			s.apply(ev)
			reports++
		}
		s.now = s.now.Add(1200*time.Millisecond + 500*time.Millisecond)
		if c := s.commit(); c == nil || c.Outcome != wire.Released {
			t.Fatalf("epoch %d, %d reports: %+v", epoch, reports, c)
		}
		if r, _ := s.state.Unfinished(); len(r.Members) != reports || r.Enrolled != 10 {
			t.Errorf("epoch %d: %+v", epoch, r)
		}
		s.finish(0)
		if _, _, why := s.asks(device(0), epoch-1, digest(byte(epoch-1))); epoch > 1 && why != wire.RefusalWrongEpoch {
			t.Errorf("a device that asks for an epoch that is over: %v", why)
		}
		_, err := s.state.Admit(device(0), epoch-1, 0, 0, digest(byte(epoch-1)), digest(7), 1)
		if epoch > 1 {
			s.refused(err, wire.RefusalLate)
		}
		s.reopened()
	}
}

// What plans say of panels is the same in all epochs, and a deployment has panels from its beginning or never.
func TestTheTermsOfPanelsDoNotChange(t *testing.T) {
	with := func(registered, records, period uint32) *plan.Announcement {
		return panelled(2, 5, 2, plan.Panel{Registered: registered}, records, period)
	}
	s := newScript(t, 2)
	s.registers(1, 0, 12)
	s.must(s.open(panelled(1, 5, 2, plan.Panel{Registered: 8}, 2, 4), digest(1)))
	s.draw()
	s.reportAll(1, digest(1))
	for _, a := range []*plan.Announcement{with(7, 2, 4), with(8, 3, 4), with(8, 2, 0), announcement(2, 0, 5, 2, 1)} {
		s.refused(s.open(a, digest(2)), wire.RefusalWeakPlan)
	}
	s.must(s.open(with(8, 2, 4), digest(2)))

	s = newScript(t, 2)
	s.must(s.open(announcement(1, 0, 2, 2, 1), digest(1)))
	if _, err := s.register(device(1)); err == nil {
		t.Error("a device registered where there are no panels")
	}
	for n := range 2 {
		slot, _, err := s.enrol(n, 1, digest(1))
		s.must(err)
		s.must(s.report(n, 1, 0, slot, digest(1), byte(n)))
	}
	s.commit()
	s.finish(0)
	s.refused(s.open(with(8, 2, 4), digest(2)), wire.RefusalWeakPlan)
}

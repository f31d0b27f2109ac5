package cohort

import (
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A pool that was described is not fixed once another device registered: it would not be in it, and be told that it is
// registered.
func TestAPoolIsNotFixedOnceAnotherDeviceRegistered(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1)
	s.registers(1, 0, 6)
	s.must(s.open(panelled(1, 3, 1, plan.Panel{Registered: 5}, 1, 0), digest(1)))
	p := s.state.Pooling()
	if !p.Still(s.state) {
		t.Fatal("nothing happened, and the pool is another")
	}
	s.registers(1, 6, 7)
	if p.Still(s.state) {
		t.Error("a device registered, and the pool is still the same")
	}
	p = s.state.Pooling()
	s.pool()
	if p.Still(s.state) {
		t.Error("the pool is fixed, and another may be")
	}
}

// A panel that was drawn beforehand is taken for no other draw: what is replayed is drawn from the event's own pool and
// contribution.
func TestAPanelDrawnBeforehandIsOfItsOwnDraw(t *testing.T) {
	t.Parallel()
	pooled := func(devices int) *script {
		s := newScript(t, 1)
		s.registers(1, 0, devices)
		s.must(s.open(panelled(1, 3, 1, plan.Panel{Registered: 5}, 1, 0), digest(1)))
		if _, fixed := s.pool(); !fixed {
			t.Fatal("no pool")
		}
		return s
	}
	drawn := func(s *script) *Event {
		ev, err := s.state.Draw(s.said(), []byte("draw"), s.now)
		s.must(err)
		return ev
	}
	own, ahead := pooled(40), drawn(pooled(30))
	ahead.Drawn.Prepare()
	ev := drawn(own)
	ev.Drawn.Take(ahead.Drawn)
	own.apply(ev)
	own.reopened()
	again := drawn(pooled(40))
	again.Drawn.Contribution = testbed.Contribution(2)
	again.Drawn.Prepare()
	third := pooled(40)
	ev = drawn(third)
	again.Drawn.pool = ev.Drawn.pool // of the same pool, by another contribution
	ev.Drawn.Take(again.Drawn)
	third.apply(ev)
	if !slices.Equal(own.members(), third.members()) {
		t.Errorf("one draw gave %v and %v", own.members(), third.members())
	}
}

// A request has a nonce where devices enrol as they arrive, and is of one device where panels are drawn.
func TestAWishThatCannotBeToldFromAnotherIsRefused(t *testing.T) {
	t.Parallel()
	s := newScript(t, 1)
	s.must(s.open(announcement(1, 0, 3, 1, 1), digest(1)))
	w := Request{Device: device(1), Epoch: 1, Announcement: digest(1), Together: 1}
	_, ev, err := s.state.Grant(w, s.now)
	if ev != nil {
		t.Errorf("granted without a nonce: %s", ev.Encode())
	}
	s.refused(err, wire.RefusalMalformed)
	s = newScript(t, 1)
	s.registers(1, 0, 5)
	s.must(s.open(panelled(1, 3, 1, plan.Panel{Registered: 5}, 1, 0), digest(1)))
	s.draw()
	w.Together = 2
	_, _, err = s.state.Grant(w, s.now)
	s.refused(err, wire.RefusalMalformed)
}

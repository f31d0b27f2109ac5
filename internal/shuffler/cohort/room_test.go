package cohort

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Whoever registers may be drawn: no more devices of a host register than the broker keeps reports of one host, where
// the panel could hold more of them. An epoch whose panel could is not opened.
func TestPanelsFitIntoTheBroker(t *testing.T) {
	s := newScript(t, 1)
	s.state.stores = Room{PerHost: 5}
	s.must(s.open(panelled(1, 4, 4, plan.Panel{Registered: 7, Tail: 1e-9}, 9, 0), digest(1)))
	s.registers(1, 0, 7) // no more than 4 of them are in the panel
	s.state.stores.PerHost = 3
	_, err := s.register(DeviceID{[32]byte{1}, 8})
	s.refused(err, wire.RefusalSponsorShare)
	s.registers(2, 0, 3)
	_, err = s.register(DeviceID{[32]byte{2}, 3})
	s.refused(err, wire.RefusalSponsorShare)
	next := panelled(2, 4, 4, plan.Panel{Registered: 7, Tail: 1e-9}, 9, 0)
	s.refused(s.state.fits(next, channel.Layout{Messages: 9}), wire.RefusalCapacity)
	s.state.stores.PerHost = 4
	s.must(s.state.fits(next, channel.Layout{Messages: 9}))
}

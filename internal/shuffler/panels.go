package shuffler

import (
	"fmt"
	"math"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// This file is the part of State that is about panels: cohorts that are drawn from the devices that registered before.
// drawing.go has the steps that the running role takes.

// PanelTerms is what plans of panels say that the shuffler's memory rests on. It is the same in all epochs.
type PanelTerms struct {
	Registered uint32 `json:"registered"`       // fewest devices to draw from
	Records    uint32 `json:"records"`          // most panels that a device may be in, at least 1
	Period     uint32 `json:"period,omitempty"` // out of so many epochs that follow each other; 0: out of all
}

// termsOf are the terms of a plan; nil where devices enrol as they arrive.
func termsOf(p plan.Plan) *PanelTerms {
	if p.Panel == nil {
		return nil
	}
	return &PanelTerms{Registered: p.Panel.Registered, Records: p.Records, Period: p.Period}
}

// String is for people.
func (t *PanelTerms) String() string {
	switch {
	case t == nil:
		return "no panels"
	case t.Period == 0:
		return fmt.Sprintf("panels from %d devices or more, %d for each", t.Registered, t.Records)
	}
	return fmt.Sprintf("panels from %d devices or more, %d for each in %d epochs", t.Registered, t.Records, t.Period)
}

// needed is the fewest devices that a panel of this size is drawn from.
func (t *PanelTerms) needed(size uint32) int { return int(max(t.Registered, size)) }

// same compares terms; nil are those of a deployment without panels.
func (t *PanelTerms) same(u *PanelTerms) bool {
	if t == nil || u == nil {
		return t == u
	}
	return *t == *u
}

// drawing is how the panel of an epoch comes about.
type drawing struct {
	commitment []byte // of the analyzer, to its contribution
	pool       *pool  // nil until it is fixed
	draw       []byte // the analyzer's signed contribution; nil until the panel is drawn
}

// pool is whom a panel is drawn from.
type pool struct {
	Pooled
	devices devices
	held    map[[32]byte]int // by host; nil where there is no quota
}

// history remembers which devices were in how many panels, whether or not they reported.
type history struct {
	// Without a period: times[k] are the devices that were in more than k panels.
	times []devices
	// With a period: the panels that can be in one period with the latest epoch or a later one, oldest first.
	recent []panelOf
}

type panelOf struct {
	epoch   uint64
	devices devices
}

// served tells whether a device was in as many panels as it may be before an epoch.
func (h *history) served(id DeviceID, epoch uint64, t *PanelTerms) bool {
	if t.Period == 0 {
		return len(h.times) >= int(t.Records) && h.times[t.Records-1].has(id)
	}
	n := uint32(0)
	for _, p := range h.recent {
		if p.epoch < epoch && epoch-p.epoch < uint64(t.Period) && p.devices.has(id) {
			if n++; n >= t.Records {
				return true
			}
		}
	}
	return false
}

// add enters the panel of an epoch, and forgets those that neither it nor a later epoch can be in one period with.
func (h *history) add(epoch uint64, drawn []panel.Device, t *PanelTerms) {
	if t.Period == 0 {
		for _, d := range drawn {
			k := 0
			for k < len(h.times) && h.times[k].has(DeviceID(d)) {
				k++
			}
			if k == len(h.times) {
				h.times = append(h.times, devices{})
			}
			h.times[k].add(DeviceID(d))
		}
		return
	}
	of := panelOf{epoch, devices{}}
	for _, d := range drawn {
		of.devices.add(DeviceID(d))
	}
	var kept []panelOf
	for _, p := range append(h.recent, of) {
		if epoch-p.epoch < uint64(t.Period) {
			kept = append(kept, p)
		}
	}
	h.recent = kept
}

// Register decides on a device's wish to be among those that panels are drawn from. A device that is among them is told
// so again, with no event: held. A deployment whose devices enrol as they arrive registers none.
func (s *State) Register(id DeviceID) (held bool, ev *Event, err error) {
	switch {
	case s.begun && s.terms == nil:
		return false, nil, refuse(wire.RefusalWrongEpoch, "this deployment has no panels: its devices do not register")
	case s.registered.has(id):
		return true, nil, nil
	case s.count >= s.capacity:
		return false, nil, refuse(wire.RefusalCapacity, atCapacity, s.capacity)
	case s.share < 1 && s.of[id.Host] >= s.registrations():
		return false, nil, refuse(wire.RefusalHostShare, "the host has %d registered devices, as many as one host may",
			s.of[id.Host])
	case s.epoch != nil && !s.epoch.final && s.crowded(s.of[id.Host]):
		return false, nil, refuse(wire.RefusalHostShare, "the host has %d registered devices, and the broker keeps no more "+
			"reports of one host", s.of[id.Host])
	}
	return false, &Event{Registered: &Registered{Host: id.Host[:], Device: id.Number}}, nil
}

// registrations is how many devices of one host may be registered: its share of those that are remembered at most, so
// that no host can take the room of all others for good.
func (s *State) registrations() int {
	return channel.HostQuota(s.share, uint32(min(s.capacity, math.MaxUint32)))
}

// enlist enters a device among those that panels are drawn from.
func (s *State) enlist(id DeviceID) {
	s.registered.add(id)
	s.count++
	s.of[id.Host]++
}

// Pooling is what a shuffler says of a pool, before it contributes to the seed.
type Pooling struct {
	Epoch        uint64
	Announcement Digest
	Devices      int      // that can be drawn now
	Needed       int      // fewest that the panel is drawn from
	Quota        int      // devices of one host at most; 0: no limit
	Root         [32]byte // panel.Root of them; zero while they are too few

	all   []panel.Device
	count int // registered devices by then
}

// Pool describes whom the panel of the open epoch would be drawn from now; nil where no pool is to be fixed. Each
// registered device counts that was in fewer panels than the plan allows. Of a host only so many count as its share of
// the pool allows (Admission.HostShare), those with the lowest numbers.
func (s *State) Pool() *Pooling {
	p := s.pooling()
	if p != nil {
		p.root()
	}
	return p
}

// pooling is Pool without the root, which takes long to compute and needs no state.
func (s *State) pooling() *Pooling {
	e := s.epoch
	if e == nil || e.final || e.drawing == nil || e.drawing.pool != nil {
		return nil
	}
	p := &Pooling{
		Epoch: e.number, Announcement: e.rounds[0].digest, Needed: s.terms.needed(e.size), count: s.count,
	}
	p.all = s.drawable(0)
	if p.Quota = s.poolQuota(p.all); p.Quota > 0 {
		p.all = within(p.all, p.Quota)
	}
	p.Devices = len(p.all)
	return p
}

// root computes the root, if the devices are enough.
func (p *Pooling) root() {
	if p.Devices >= p.Needed {
		p.Root = panel.Root(p.all)
	}
}

// still tells whether nothing that the pool rests on has changed since it was described.
func (p *Pooling) still(s *State) bool {
	e := s.epoch
	return e != nil && !e.final && e.number == p.Epoch && e.drawing != nil && e.drawing.pool == nil && s.count == p.count
}

// poolOf is a pool of these devices.
func poolOf(all []panel.Device, quota int) *pool {
	out := &pool{devices: devices{}}
	if quota > 0 {
		out.held = map[[32]byte]int{}
	}
	for _, d := range all {
		out.devices.add(DeviceID(d))
		if quota > 0 {
			out.held[d.Host]++
		}
	}
	return out
}

// drawable are the devices that a panel of the open epoch can be drawn from, with at most quota of one host; 0: all.
func (s *State) drawable(quota int) []panel.Device {
	all := make([]panel.Device, 0, s.count)
	s.registered.each(func(id DeviceID) {
		if !s.history.served(id, s.epoch.number, s.terms) {
			all = append(all, panel.Device(id))
		}
	})
	if quota > 0 {
		return within(all, quota)
	}
	return all
}

// within keeps the first devices of each host, as many as the quota. Those of a host stand together.
func within(all []panel.Device, quota int) []panel.Device {
	kept, held := all[:0], 0
	host := [32]byte{}
	for _, d := range all {
		if d.Host != host {
			host, held = d.Host, 0
		}
		if held < quota {
			held++
			kept = append(kept, d)
		}
	}
	return kept
}

// poolQuota is the largest number of devices of one host that is within the host's share of a pool of these devices in
// which no host has more; 0 where there is no limit.
func (s *State) poolQuota(all []panel.Device) int {
	if s.share >= 1 {
		return 0
	}
	var held []int // by host; those of a host stand together
	for i, d := range all {
		if i == 0 || d.Host != all[i-1].Host {
			held = append(held, 0)
		}
		held[len(held)-1]++
	}
	for quota, n := len(all), len(all); ; {
		next := channel.HostQuota(s.share, uint32(n))
		if next >= quota {
			return quota
		}
		quota, n = next, 0
		for _, h := range held {
			n += min(h, quota)
		}
	}
}

// Reasons for which the shuffler refuses what the analyzer says of a draw, and draws nothing.
const (
	// SecondDraw: the analyzer signed two contributions for one epoch.
	SecondDraw outcome.Reason = "second_draw"
	// OtherAnnouncement: the contribution is for another announcement than the one that was opened.
	OtherAnnouncement outcome.Reason = "draw_of_another_announcement"
	// OtherPool: the contribution is for another pool than the one that this shuffler fixed.
	OtherPool outcome.Reason = "draw_of_another_pool"
	// NotCommitted: the contribution is not the one to which the analyzer committed itself in the announcement.
	NotCommitted outcome.Reason = "draw_not_committed"
)

// Draw decides on the analyzer's contribution to the seed of the open epoch's panel; signed is its statement, verified.
// A refusal is one of the reasons above. It gives no event and no error where no draw is awaited.
func (s *State) Draw(d *wire.Draw, signed []byte, now time.Time) (*Event, error) {
	e := s.epoch
	if e == nil || e.drawing == nil || e.drawing.pool == nil || e.drawing.draw != nil || d.Epoch != e.number {
		return nil, nil
	}
	switch {
	case Digest(d.Announcement) != e.rounds[0].digest:
		return nil, OtherAnnouncement
	case Digest(d.Pool) != Digest(e.drawing.pool.Digest):
		return nil, OtherPool
	case !panel.Opens(e.drawing.commitment, d.Contribution):
		return nil, NotCommitted
	}
	return &Event{Drawn: &Drawn{At: now.UnixMilli(), Contribution: d.Contribution, Statement: signed}}, nil
}

// member tells a device its place in the panel of the open epoch, or why it has none.
func (s *State) member(id DeviceID) (slot uint32, reportAt time.Time, err error) {
	e := s.epoch
	no := func(reason wire.Refusal, format string, a ...any) (uint32, time.Time, error) {
		return 0, time.Time{}, refuse(reason, format, a...)
	}
	if e.drawing.draw == nil {
		return no(wire.RefusalWrongEpoch, "the panel of epoch %d is not drawn yet", e.number)
	}
	slot, drawn := s.slotOf(id)
	p := e.drawing.pool
	switch {
	case drawn && e.rounds[0].outcome != wire.Undecided && !e.reported(slot):
		return no(wire.RefusalEnrolmentClosed, "the time of the panel of epoch %d is over", e.number)
	case drawn:
		return slot, e.dueAt(slot), nil
	case p.devices.has(id):
		return no(wire.RefusalNotDrawn, "the device is not in the panel of epoch %d", e.number)
	case !s.registered.has(id):
	case s.history.served(id, e.number, s.terms):
		return no(wire.RefusalAlreadyEnrolled, "the device was in as many panels as it may be, %d", s.terms.Records)
	case p.held != nil && p.held[id.Host] >= int(p.Quota):
		return no(wire.RefusalHostShare, "the host has %d devices in the pool of epoch %d, as many as one host may",
			p.Quota, e.number)
	}
	return no(wire.RefusalNotRegistered, "the device was not registered when the pool of epoch %d was fixed", e.number)
}

// reported tells whether the report of a slot is admitted.
func (e *epoch) reported(slot uint32) bool {
	return e.rounds[0].reports.get(slot) != nil
}

// awaiting tells whether the epoch's panel is still to be drawn.
func (e *epoch) awaiting() bool { return e.drawing != nil && e.drawing.draw == nil }

// draws tells whether the open epoch's cohort is a panel.
func (s *State) draws() bool { return s.epoch != nil && s.epoch.drawing != nil }

// statements are the signed pool and draw of the open epoch's panel; nil until it is drawn.
func (s *State) statements() (pool, draw []byte) {
	if e := s.epoch; e != nil && e.drawing != nil && e.drawing.draw != nil {
		return e.drawing.pool.Statement, e.drawing.draw
	}
	return nil, nil
}

package cohort

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
//

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

// served reports whether a device was in as many panels as it may be before an epoch.
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
				h.times = append(h.times, newDevices())
			}
			h.times[k].add(DeviceID(d))
		}
		return
	}
	of := panelOf{epoch, newDevices()}
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

// Register decides on a device's request to be among those that panels are drawn from; by is as for Enrol. A device
// that is among them is told so again, with no event: held. A deployment whose devices enrol as they arrive registers
// none.
func (s *State) Register(id DeviceID, by *wire.IssuerCertificate) (held bool, ev *Event, err error) {
	of := s.of[sponsorOf(id.Host, by)]
	switch {
	case s.begun && s.terms == nil:
		return false, nil, Refuse(wire.RefusalWrongEpoch, "this deployment has no panels: its devices do not register")
	case s.Holds(id):
		return true, nil, nil
	case s.count >= s.capacity:
		return false, nil, Refuse(wire.RefusalCapacity, atCapacity, s.capacity)
	case s.share < 1 && of >= s.registrations():
		return false, nil, Refuse(wire.RefusalSponsorShare, "the sponsor has %d registered devices, as many as one may",
			of)
	case s.epoch != nil && !s.epoch.final && s.crowded(of):
		return false, nil, Refuse(wire.RefusalSponsorShare, "the sponsor has %d registered devices, and the broker "+
			"keeps no more reports of one host", of)
	case s.issuers.exhausted(by):
		return false, nil, Refuse(wire.RefusalIssuerFull, exhausted, by.Installations)
	}
	return false, &Event{Registered: &Registered{Host: id.Host[:], Device: id.Number, Issuer: issuerKey(by)}}, nil
}

// registrations is how many devices of one sponsor may be registered: its share of those that are remembered at most,
// so that none can take the room of all others for good.
func (s *State) registrations() int {
	return channel.SponsorQuota(s.share, uint32(min(s.capacity, math.MaxUint32)))
}

// enlist enters a device among those that panels are drawn from.
func (s *registry) enlist(id DeviceID) {
	s.registered.add(id)
	s.count++
	s.of[sponsor(id.Host)]++
}

// enlistIssued enters an installation among those that panels are drawn from.
func (s *registry) enlistIssued(by sponsor, host [32]byte) {
	s.issuers.find(by).pooled.add(host[:])
	s.count++
	s.of[by]++
}

// sponsor is who answers for a registered device, and whether it is an issuer.
func (s *registry) sponsor(id DeviceID) (by sponsor, issued bool) {
	if !s.registered.has(id) {
		if i := s.issuers.registeredBy(id.Host); i != nil {
			return i.key, true
		}
	}
	return sponsor(id.Host), false
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
	return &Event{Drawn: &Drawn{
		At: now.UnixMilli(), Contribution: d.Contribution, Statement: signed, pool: e.drawing.pool, size: int(e.size),
	}}, nil
}

// member tells a device its place in the panel of the open epoch, or why it has none.
func (s *State) member(id DeviceID) (slot uint32, reportAt time.Time, err error) {
	e := s.epoch
	no := func(reason wire.Refusal, format string, a ...any) (uint32, time.Time, error) {
		return 0, time.Time{}, Refuse(reason, format, a...)
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
	case !s.Holds(id):
	case s.Served(id, e.number):
		return no(wire.RefusalAlreadyEnrolled, "the device was in as many panels as it may be, %d", s.terms.Records)
	case p.quotaHas(s, id):
		return no(wire.RefusalSponsorShare, "the sponsor has %d devices in the pool of epoch %d, as many as one may",
			p.Quota, e.number)
	}
	return no(wire.RefusalNotRegistered, "the device was not registered when the pool of epoch %d was fixed", e.number)
}

// Panel is how far the drawing of an epoch's panel has come.
type Panel struct {
	Epoch        uint64
	Announcement Digest
	Needed       int     // fewest devices that it is drawn from
	Pooled       *Pooled // nil until the pool is fixed
	Drawn        bool
	Awaited      bool // it is not drawn, and the epoch is not over without it
}

// Panel is that of the latest epoch; nil where there are no panels.
func (s *State) Panel() *Panel {
	e := s.epoch
	if e == nil || e.drawing == nil {
		return nil
	}
	p := &Panel{
		Epoch: e.number, Announcement: e.rounds[0].digest, Needed: s.terms.needed(e.size), Drawn: !e.awaiting(),
		Awaited: e.awaiting() && !e.closing() && !e.over(),
	}
	if e.drawing.pool != nil {
		p.Pooled = &e.drawing.pool.Pooled
	}
	return p
}

// statements are the signed pool and draw of the open epoch's panel; nil until it is drawn.
func (s *latest) statements() (pool, draw []byte) {
	if e := s.epoch; e != nil && e.drawing != nil && e.drawing.draw != nil {
		return e.drawing.pool.Statement, e.drawing.draw
	}
	return nil, nil
}

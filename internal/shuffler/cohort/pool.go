package cohort

import (
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/panel"
)

// panel is the panel of a pool under the analyzer's contribution.
func (p *pool) panel(contribution []byte, size int) []panel.Device {
	all := make([]panel.Device, 0, p.Registered)
	p.devices.each(func(id DeviceID) { all = append(all, panel.Device(id)) })
	return panel.NewSeed(Digest(p.Digest), contribution).Panel(all, size)
}

// Waits says what a pool of too few devices waits for.
func (p *Pooling) Waits() string {
	return fmt.Sprintf("Epoch %d waits for registrations: its panel is drawn from at least %d devices, and %d can be "+
		"drawn now.", p.Epoch, p.Needed, p.Devices)
}

// pool is whom a panel is drawn from.
type pool struct {
	Pooled
	devices devices
	held    map[sponsor]int // by who answers for them; nil where there is no quota
}

// quotaHas reports whether a device is not in the pool because others of its sponsor fill the quota.
func (p *pool) quotaHas(s *State, id DeviceID) bool {
	by, _ := s.sponsor(id)
	return p.held != nil && p.held[by] >= int(p.Quota)
}

// Pooling is what a shuffler says of a pool, before it contributes to the seed.
type Pooling struct {
	Epoch        uint64
	Announcement Digest
	Devices      int      // that can be drawn now
	Needed       int      // fewest that the panel is drawn from
	Quota        int      // devices of one sponsor at most; 0: no limit
	Root         [32]byte // panel.Root of them; zero while they are too few

	Registered int // devices by then

	all   []panel.Device // nil while they are too few
	by    []sponsor      // of all, where there is a quota
	ready *pool          // nil before Prepare
}

// Pool describes whom the panel of the open epoch would be drawn from now; nil where no pool is to be fixed. Each
// registered device counts that was in fewer panels than the plan allows. Of a sponsor only so many count as its share
// of the pool allows (Admission.SponsorShare): of a host those with the lowest numbers, of an issuer with the lowest
// keys.
func (s *State) Pool() *Pooling {
	p := s.Pooling()
	if p != nil {
		p.root()
	}
	return p
}

// Pooling is Pool without the root, which takes long to compute and needs no state: Prepare computes it.
func (s *State) Pooling() *Pooling {
	e := s.epoch
	if e == nil || e.final || e.drawing == nil || e.drawing.pool != nil {
		return nil
	}
	p := &Pooling{
		Epoch: e.number, Announcement: e.rounds[0].digest, Needed: s.terms.needed(e.size), Registered: s.count,
	}
	p.all = s.drawable(e.number)
	if s.share < 1 {
		p.by = s.sponsors(p.all)
		p.Quota = poolQuota(p.by, s.share)
		p.all, p.by = within(p.all, p.by, p.Quota)
	}
	if p.Devices = len(p.all); p.Devices < p.Needed {
		p.all = nil // it may be long until there are enough
	}
	return p
}

// root computes the root, if the devices are enough.
func (p *Pooling) root() {
	if p.Devices >= p.Needed {
		p.Root = panel.Root(p.all)
	}
}

// Still reports whether nothing that the pool rests on has changed since it was described.
func (p *Pooling) Still(s *State) bool {
	e := s.epoch
	return e != nil && !e.final && e.number == p.Epoch && e.drawing != nil && e.drawing.pool == nil &&
		s.count == p.Registered
}

// Prepare computes the root and what the event of the pool brings about, which takes long and needs no state.
func (p *Pooling) Prepare() {
	p.root()
	p.ready = poolOf(p.all, p.by)
}

// Fix is the event that fixes the pool now; signed is its statement, with its digest.
func (p *Pooling) Fix(now time.Time, signed []byte, digest Digest) *Event {
	return &Event{Pooled: &Pooled{
		At: now.UnixMilli(), Registered: uint32(p.Devices), Quota: uint32(p.Quota), Statement: signed,
		Digest: digest[:],
		ready:  p.ready,
	}}
}

// poolOf is a pool of these devices; by is who answers for each, nil where there is no quota.
func poolOf(all []panel.Device, by []sponsor) *pool {
	out := &pool{devices: newDevices()}
	for _, d := range all {
		out.devices.add(DeviceID(d))
	}
	if by != nil {
		out.held = held(by)
	}
	return out
}

// held counts devices by who answers for them.
func held(by []sponsor) map[sponsor]int {
	of := map[sponsor]int{}
	for _, b := range by {
		of[b]++
	}
	return of
}

// drawable are the devices that a panel of an epoch can be drawn from.
func (s *registry) drawable(epoch uint64) []panel.Device {
	all := make([]panel.Device, 0, s.count)
	add := func(id DeviceID) {
		if !s.Served(id, epoch) {
			all = append(all, panel.Device(id))
		}
	}
	s.registered.each(add)
	for i := range s.issuers.all {
		s.issuers.all[i].pooled.each(func(key []byte) { add(DeviceID{Host: [32]byte(key)}) })
	}
	return all
}

// sponsors are who answers for each of these devices.
func (s *registry) sponsors(all []panel.Device) []sponsor {
	by := make([]sponsor, len(all))
	for i, d := range all {
		by[i], _ = s.sponsor(DeviceID(d))
	}
	return by
}

// within keeps the first devices of each sponsor, as many as the quota.
func within(all []panel.Device, by []sponsor, quota int) ([]panel.Device, []sponsor) {
	kept, of, has := all[:0], by[:0], map[sponsor]int{}
	for i, d := range all {
		if b := by[i]; has[b] < quota {
			has[b]++
			kept, of = append(kept, d), append(of, b)
		}
	}
	return kept, of
}

// poolQuota is the largest number of devices of one sponsor that is within its share, below 1, of a pool of these
// devices in which no sponsor has more.
func poolQuota(by []sponsor, share float64) int {
	of := held(by)
	for quota, n := len(by), len(by); ; {
		next := channel.SponsorQuota(share, uint32(n))
		if next >= quota {
			return quota
		}
		quota, n = next, 0
		for _, h := range of {
			n += min(h, quota)
		}
	}
}

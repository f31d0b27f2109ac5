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
	held    map[[32]byte]int // by host; nil where there is no quota
}

// Pooling is what a shuffler says of a pool, before it contributes to the seed.
type Pooling struct {
	Epoch        uint64
	Announcement Digest
	Devices      int      // that can be drawn now
	Needed       int      // fewest that the panel is drawn from
	Quota        int      // devices of one host at most; 0: no limit
	Root         [32]byte // panel.Root of them; zero while they are too few

	Registered int // devices by then

	all   []panel.Device // nil while they are too few
	ready *pool          // nil before Prepare
}

// Pool describes whom the panel of the open epoch would be drawn from now; nil where no pool is to be fixed. Each
// registered device counts that was in fewer panels than the plan allows. Of a host only so many count as its share of
// the pool allows (Admission.HostShare), those with the lowest numbers.
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
	p.all = s.drawable(e.number, 0)
	if p.Quota = poolQuota(p.all, s.share); p.Quota > 0 {
		p.all = within(p.all, p.Quota)
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
	p.ready = poolOf(p.all, p.Quota)
}

// Fix is the event that fixes the pool now; signed is its statement, with its digest.
func (p *Pooling) Fix(now time.Time, signed []byte, digest Digest) *Event {
	return &Event{Pooled: &Pooled{
		At: now.UnixMilli(), Registered: uint32(p.Devices), Quota: uint32(p.Quota), Statement: signed,
		Digest: digest[:],
		ready:  p.ready,
	}}
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

// drawable are the devices that a panel of an epoch can be drawn from, with at most quota of one host; 0: all.
func (s *registry) drawable(epoch uint64, quota int) []panel.Device {
	all := make([]panel.Device, 0, s.count)
	s.registered.each(func(id DeviceID) {
		if !s.Served(id, epoch) {
			all = append(all, panel.Device(id))
		}
	})
	if quota > 0 {
		return within(all, quota)
	}
	return all
}

// within keeps the first devices of each host, as many as the quota. Those of a host are together.
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
func poolQuota(all []panel.Device, share float64) int {
	if share >= 1 {
		return 0
	}
	var held []int // by host; those of a host are together
	for i, d := range all {
		if i == 0 || d.Host != all[i-1].Host {
			held = append(held, 0)
		}
		held[len(held)-1]++
	}
	for quota, n := len(all), len(all); ; {
		next := channel.HostQuota(share, uint32(n))
		if next >= quota {
			return quota
		}
		quota, n = next, 0
		for _, h := range held {
			n += min(h, quota)
		}
	}
}

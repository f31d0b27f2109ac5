package shuffler

import (
	mathbits "math/bits"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// The registrar can only raise how many devices a host's credential covers, so that number says which of two
// credentials is the later one. Whoever saw a later one refuses the earlier: a host that works from an old copy of its
// keys is told.

// covered is the most devices that a credential of each host covered, by its first key, as far as requests showed it or
// devices that are known prove it.
type covered map[[32]byte]uint32

// sees notes what a credential covers.
func (c covered) sees(host [32]byte, devices uint32) { c[host] = max(c[host], devices) }

// coveredBy is what the devices in a state prove.
func coveredBy(s *State) covered {
	c := covered{}
	for key, word := range s.devices {
		c.sees(*s.hosts.keys.at(int(key.host)), key.number*wordBits+uint32(mathbits.Len32(word)))
	}
	s.registered.each(func(id DeviceID) { c.sees(id.Host, id.Number+1) })
	if s.epoch != nil && s.epoch.drawing == nil {
		for i := range s.epoch.slots.len() {
			id := s.hosts.id(s.epoch.slots.at(i).device)
			c.sees(id.Host, id.Number+1)
		}
	}
	return c
}

// superseded refuses a request under a credential that is not the host's latest one.
func (s *Shuffler) superseded(e wire.Enrolment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := s.covered[e.HostKey]; e.Covers < most {
		return refuse(wire.RefusalNoCredential, "the host's credential covers %d devices, and it has a later one that "+
			"covers %d or more", e.Covers, most)
	}
	s.covered.sees(e.HostKey, e.Covers)
	return nil
}

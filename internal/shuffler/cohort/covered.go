package cohort

import (
	mathbits "math/bits"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// The registrar can only raise how many devices a host's credential covers, so that number says which of two
// credentials is the later one. Whoever saw a later one refuses the earlier: a host that works from an old copy of its
// keys is told.

// Covered is the most devices that a registrar's credential of each host covered, by its first key, as far as requests
// showed it or devices that are known prove it.
type Covered map[[32]byte]uint32

// sees notes what a credential covers.
func (c Covered) sees(host [32]byte, devices uint32) { c[host] = max(c[host], devices) }

// CoveredBy is what the devices in a state prove.
func CoveredBy(s *State) Covered {
	c := Covered{}
	for key, word := range s.devices {
		c.sees(*s.hosts.keys.at(int(key.host)), key.number*wordBits+uint32(mathbits.Len32(word)))
	}
	s.registered.each(func(id DeviceID) { c.sees(id.Host, id.Number+1) })
	if s.epoch != nil && s.epoch.drawing == nil {
		for i := range s.epoch.slots.len() {
			if key := s.epoch.slots.at(i).device; key.host&visiting == 0 || key.number > 0 {
				c.sees(s.idOf(s.epoch, key).Host, key.number+1)
			}
		}
	}
	return c
}

// Refuse refuses a request under a credential that is not the host's latest one.
func (c Covered) Refuse(e wire.Enrolment) error {
	if e.Issuer != nil { // every credential of an issuer covers one device
		return nil
	}
	if most := c[e.HostKey]; e.Covers < most {
		return Refuse(wire.RefusalNoCredential, "the host's credential covers %d devices, and it has a later one that "+
			"covers %d or more", e.Covers, most)
	}
	c.sees(e.HostKey, e.Covers)
	return nil
}

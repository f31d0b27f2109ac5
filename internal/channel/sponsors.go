package channel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
)

var (
	// ErrSponsorShare says that as many devices of the sponsor are counted in the round as one may have.
	ErrSponsorShare = errors.New("channel: as many devices of the sponsor are counted as one may have")
	// ErrIssuerFull says that as many installations of the issuer were counted, over all epochs, as its certificate
	// says.
	ErrIssuerFull = errors.New("channel: as many installations of the issuer were counted as its certificate says")
)

type sponsor = [seal.IdentitySize]byte

// Sponsors holds the devices of a round to their sponsor's share, and installations to their issuer's certificate: each
// is counted once, over all epochs, for the issuer by which it was first counted. It is not safe for concurrent use.
type Sponsors struct {
	before *Participants // may be nil: then issuers are held to their number in each round by itself
	epoch  uint64
	most   int

	held  map[sponsor]int // devices in the round
	fresh map[sponsor]int // of them, installations that were not counted in an earlier epoch
}

// NewSponsors begins a round in which a sponsor may have a share of the cohort (Round.SponsorQuota).
func NewSponsors(r *Round, share float64, before *Participants) *Sponsors {
	return &Sponsors{
		before: before, epoch: r.Epoch, most: r.SponsorQuota(share), held: map[sponsor]int{}, fresh: map[sponsor]int{},
	}
}

// Check reports whether one more device may be counted: ErrSponsorShare, ErrIssuerFull or nil.
func (s *Sponsors) Check(p channel.Present) error {
	switch by := p.Sponsor(); {
	case s.held[by] >= s.most:
		return ErrSponsorShare
	case s.isFresh(p) && s.fresh[by]+s.before.admitted(s.epoch, by) >= int(p.Installations):
		return ErrIssuerFull
	}
	return nil
}

// Enter notes that a device is counted.
func (s *Sponsors) Enter(p channel.Present) {
	s.held[p.Sponsor()]++
	if s.isFresh(p) {
		s.fresh[p.Issuer]++
	}
}

func (s *Sponsors) isFresh(p channel.Present) bool {
	return p.Installations > 0 && !s.before.known(s.epoch, markOf(p.Participant))
}

// known reports whether a device was counted in an epoch before this one.
func (p *Participants) known(epoch uint64, m mark) bool {
	if p == nil {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.earlier(epoch, m)
}

// earlier is known for who holds the lock.
func (p *Participants) earlier(epoch uint64, m mark) bool {
	for other, marks := range p.epochs {
		if other >= epoch {
			continue
		}
		if _, in := slices.BinarySearchFunc(marks, m, compareMarks); in {
			return true
		}
	}
	return false
}

// admitted is how many installations were first counted by an issuer in epochs before this one.
func (p *Participants) admitted(epoch uint64, issuer sponsor) (n int) {
	if p == nil {
		return 0
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for other, all := range p.issuers {
		if other < epoch {
			n += int(all[issuer])
		}
	}
	return n
}

// firstCounted are how many of these devices were not counted in an epoch before this one, by issuer. The lock is held.
func (p *Participants) firstCounted(epoch uint64, who []channel.Present) map[sponsor]uint32 {
	all := map[sponsor]uint32{}
	for _, one := range who {
		if one.Installations > 0 && !p.earlier(epoch, markOf(one.Participant)) {
			all[one.Issuer]++
		}
	}
	return all
}

const issuerTallySize = seal.IdentitySize + 4

// appendIssuers appends how many installations each issuer let in, in ascending order of their keys.
func appendIssuers(b []byte, all map[sponsor]uint32) []byte {
	keys := slices.SortedFunc(maps.Keys(all), func(a, b sponsor) int { return bytes.Compare(a[:], b[:]) })
	for _, key := range keys {
		b = binary.BigEndian.AppendUint32(append(b, key[:]...), all[key])
	}
	return b
}

// parseIssuers reads what appendIssuers wrote; ok is false of anything else.
func parseIssuers(b []byte) (all map[sponsor]uint32, ok bool) {
	all = map[sponsor]uint32{}
	if len(b)%issuerTallySize != 0 {
		return nil, false
	}
	for one := range slices.Chunk(b, issuerTallySize) {
		all[sponsor(one)] = binary.BigEndian.Uint32(one[seal.IdentitySize:])
	}
	return all, bytes.Equal(appendIssuers(nil, all), b)
}

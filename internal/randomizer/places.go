package randomizer

import (
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/pkg/device"
)

// A host's credential covers so many devices, by their numbers. A device has a place, which is one of the numbers, once
// the shuffler is to be asked for it, and keeps it for as long as its ledger has an entry or it takes part in panels:
// what it spent, promised, or may have been given must never be forgotten. Who is not sampled takes none. Nobody is
// asked for under the final policy, of a full cohort or under a plan that the limits rule out, and the host keeps
// nothing of them; whoever was asked for and was given no slot leaves the place vacant. It stays theirs until all
// numbers are given: then the next device that needs one has it.
//
// Whether a device has a place depends on who came before it and on what the shuffler said, never on a body, which
// nobody has read by then. However many names an app makes up, the host knows no more of them than it has numbers.

// known is a device's seat; nil where it has no place.
func (h *Host) known(name string) *seat {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.devices[name]
}

// seat finds a device's seat or gives it one; fresh tells that it was given. why says that there is none left. Whoever
// takes a place says so with occupy, because a vacant one may go to another device before.
func (h *Host) seat(name string) (s *seat, fresh bool, why, err error) {
	for {
		s, leaving, fresh := h.sit(name)
		switch {
		case s == nil && leaving != nil: // its own place goes to another device: then it comes as a new one
			<-leaving.gone
			continue
		case s == nil:
			return nil, false, because(HostFull, "this host's credential covers %d devices, and all places are taken; "+
				"riffle keygen raise-host makes it cover more", h.c.Devices), nil
		case leaving != nil:
			err = h.replace(s, leaving)
		}
		return s, fresh, nil, err
	}
}

// sit finds a device's seat, or makes one of the next number or, where there is none, of a vacant place; leaving is
// whose place it was, and the new seat is locked. A device that is leaving itself has no seat.
func (h *Host) sit(name string) (s, leaving *seat, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s = h.devices[name]; s != nil && s.gone != nil {
		return nil, s, false
	} else if s != nil {
		return s, nil, false
	}
	number, ok := h.numbers.next(false)
	if !ok {
		if leaving = h.firstVacant(); leaving != nil {
			number = leaving.state.Number
		} else if number, ok = h.numbers.next(true); !ok {
			return nil, nil, false
		}
	}
	s = &seat{name: name, state: h.core.NewState(number)}
	if leaving != nil {
		// The number's next wish is judged as the one before it would be: the shuffler may have heard of that one.
		s.state.Wish.Unsure = leaving.state.Wish.Unsure
		s.mu.Lock() // nobody else knows of it
		leaving.vacant, leaving.gone = false, make(chan struct{})
		h.vacancies--
	}
	h.devices[name] = s
	return s, leaving, true
}

// replace makes durable that a new seat has another's place, whose name is forgotten, and unlocks the seat.
func (h *Host) replace(s, leaving *seat) error {
	defer s.mu.Unlock()
	err := h.store.Replace(leaving.name, store.Device{Name: s.name, State: s.state})
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.devices, leaving.name)
	close(leaving.gone)
	if err != nil { // the number is nobody's until the store is read again
		delete(h.devices, s.name)
		return fmt.Errorf("randomizer: whose place a device has cannot be kept: %w", err)
	}
	s.stored = true
	return nil
}

// occupy keeps a seat's place from other devices; false tells that another has it already.
func (h *Host) occupy(s *seat) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.devices[s.name] != s || s.gone != nil {
		return false
	}
	if s.vacant {
		s.vacant = false
		h.vacancies--
	}
	return true
}

// vacate leaves a seat's place to whoever needs it, unless its device must keep it. The seat's lock is held, or the
// host does not run yet.
func (h *Host) vacate(s *seat) {
	if s.spent || keeps(s.state) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.vacant || s.gone != nil {
		return
	}
	s.vacant = true
	h.vacancies++
	if !s.listed {
		s.listed = true
		heap.Push(&h.vacant, s.ranked(h.numbers.order))
	}
}

// vacateAll leaves the places of all devices that need none: those of an earlier process, and of devices that were
// named before it was known whether they register.
func (h *Host) vacateAll() {
	for _, s := range h.seats() {
		s.mu.Lock()
		h.vacate(s)
		s.mu.Unlock()
	}
}

// keeps reports whether a device keeps its place: something of it must not be forgotten.
func keeps(s device.State) bool { return len(s.Ledger.Entries) > 0 || s.Registration != nil }

// vacancy is the place of a seat that was vacant when it was entered. Their order is one that only the host knows, and
// the same in every process: so a state that was set back gives the numbers again that it gave before (see numbers).
type vacancy struct {
	rank uint64
	seat *seat
}

func (v vacancy) before(w vacancy) bool { return v.rank < w.rank }

func (s *seat) ranked(order [32]byte) vacancy {
	d := sha256.Sum256(binary.BigEndian.AppendUint32(append(order[:], "vacant"...), s.state.Number))
	return vacancy{binary.BigEndian.Uint64(d[:]), s}
}

// firstVacant takes out the first seat that is still vacant; nil where there is none. The host's lock is held.
func (h *Host) firstVacant() *seat {
	for len(h.vacant) > 0 {
		s := heap.Pop(&h.vacant).(vacancy).seat
		if s.listed = false; s.vacant {
			return s
		}
	}
	return nil
}

package randomizer

import (
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
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

// places gives the devices of a host their places. Safe for concurrent use.
type places struct {
	store    store.Store
	newState func(number uint32) device.State
	capacity int // devices that the credential covers

	outing    sync.Mutex // of optOut; before mu
	mu        sync.Mutex
	devices   map[string]*localDevice // by the store's key of their names
	out       map[string]bool         // who opted out, in the same way
	vacant    agenda[vacancy]         // devices that were vacant when they were entered
	vacancies int                     // devices that are vacant
	numbers   *numbers
}

// get is a device of the host; nil where it has no place.
func (p *places) get(name string) *localDevice {
	key := p.store.Key(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.devices[key]
}

// find finds a device or gives it a place; fresh tells that it was given. why says that there is none left. Whoever
// takes a place says so with occupy, because a vacant one may go to another device before.
func (p *places) find(name string) (dev *localDevice, fresh bool, why, err error) {
	for key := p.store.Key(name); ; {
		dev, leaving, fresh := p.sit(key)
		switch {
		case dev == nil && leaving != nil: // its own place goes to another device: then it comes as a new one
			<-leaving.gone
			continue
		case dev == nil:
			return nil, false, because(HostFull, "this host's credential covers %d devices, and all places are taken; "+
				"riffle keygen raise-host makes it cover more", p.capacity), nil
		case leaving != nil:
			err = p.replace(dev, leaving)
		}
		return dev, fresh, nil, err
	}
}

// sit finds a device, or makes one with the next number or, where there is none, of a vacant place; leaving is
// whose place it was, and the new device is locked. One that is leaving itself has no place.
func (p *places) sit(key string) (dev, leaving *localDevice, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dev = p.devices[key]; dev != nil && dev.gone != nil {
		return nil, dev, false
	} else if dev != nil {
		return dev, nil, false
	}
	number, ok := p.numbers.next(false)
	if !ok {
		if leaving = p.popVacant(); leaving != nil {
			number = leaving.state.Number
		} else if number, ok = p.numbers.next(true); !ok {
			return nil, nil, false
		}
	}
	dev = &localDevice{name: key, state: p.newState(number)}
	if leaving != nil {
		// The number's next request is judged as the one before it would be: the shuffler may have heard of that one.
		dev.state.Request.Unsure = leaving.state.Request.Unsure
		dev.mu.Lock() // nobody else knows of it
		leaving.vacant, leaving.gone = false, make(chan struct{})
		p.vacancies--
	}
	p.devices[key] = dev
	return dev, leaving, true
}

// replace makes durable that a new device has another's place, whose name is forgotten, and unlocks the device.
func (p *places) replace(dev, leaving *localDevice) error {
	defer dev.mu.Unlock()
	err := p.store.Replace(leaving.name, store.Device{Name: dev.name, State: dev.state})
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.devices, leaving.name)
	close(leaving.gone)
	if err != nil { // the number is nobody's until the store is read again
		delete(p.devices, dev.name)
		return fmt.Errorf("randomizer: whose place a device has cannot be kept: %w", err)
	}
	dev.stored = true
	return nil
}

// occupy keeps a device's place from other devices; false tells that another has it already.
func (p *places) occupy(dev *localDevice) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.devices[dev.name] != dev || dev.gone != nil {
		return false
	}
	if dev.vacant {
		dev.vacant = false
		p.vacancies--
	}
	return true
}

// vacate leaves a device's place to whoever needs it, unless the device must keep it. The device's lock is held, or the
// host does not run yet.
func (p *places) vacate(dev *localDevice) {
	if dev.spent || keeps(dev.state) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if dev.vacant || dev.gone != nil {
		return
	}
	dev.vacant = true
	p.vacancies++
	if !dev.listed {
		dev.listed = true
		heap.Push(&p.vacant, dev.vacancy(p.numbers.order))
	}
}

// vacateAll leaves the places of all devices that need none: those of an earlier process, and of devices that were
// named before it was known whether they register.
func (p *places) vacateAll() {
	for _, dev := range p.all() {
		dev.mu.Lock()
		p.vacate(dev)
		dev.mu.Unlock()
	}
}

// keeps reports whether a device keeps its place: something of it must not be forgotten.
func keeps(s device.State) bool { return len(s.Ledger.Entries) > 0 || s.Registration != nil }

// vacancy is the place of a device that was vacant when it was entered. Their order is one that only the host knows,
// and the same in every process: so a state that was set back gives the numbers again that it gave before (see
// numbers).
type vacancy struct {
	rank uint64
	dev  *localDevice
}

func (v vacancy) before(w vacancy) bool { return v.rank < w.rank }

func (dev *localDevice) vacancy(order [32]byte) vacancy {
	d := sha256.Sum256(binary.BigEndian.AppendUint32(append(order[:], "vacant"...), dev.state.Number))
	return vacancy{binary.BigEndian.Uint64(d[:]), dev}
}

// popVacant takes out the first device that is still vacant; nil where there is none. The lock is held.
func (p *places) popVacant() *localDevice {
	for len(p.vacant) > 0 {
		dev := heap.Pop(&p.vacant).(vacancy).dev
		if dev.listed = false; dev.vacant {
			return dev
		}
	}
	return nil
}

// mostOut bounds those who opted out and whom the host keeps, some 100 bytes each: an app may make up names.
const mostOut = 1 << 20

// optOut keeps that a device opted out, or that it did not. It has a part from the moment when it is asked for.
func (p *places) optOut(key string, out bool) error {
	p.outing.Lock()
	defer p.outing.Unlock()
	p.mu.Lock()
	before, n := p.out[key], len(p.out)
	if out && !before && n < mostOut {
		p.out[key] = true
	}
	p.mu.Unlock()
	switch {
	case before == out:
		return nil
	case out && n >= mostOut:
		return api.ErrFull
	}
	err := p.store.OptOut(key, out)
	p.mu.Lock()
	defer p.mu.Unlock()
	if out == (err != nil) { // nothing was kept of it, or it was lifted
		delete(p.out, key)
	}
	if err != nil {
		return fmt.Errorf("randomizer: whether a device opted out cannot be kept: %w", err)
	}
	return nil
}

// isOut reports whether a device opted out.
func (p *places) isOut(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out[key]
}

// depart has nobody know any more that a device was here, of which nothing must be kept. Its number stays on the host,
// as a vacant place under a name that no device has. The device's lock is held. It reports false where the device must
// stay.
func (p *places) depart(dev *localDevice) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if keeps(dev.state) || dev.question != nil || dev.task != nil || dev.gone != nil || p.devices[dev.name] != dev {
		return false, nil
	}
	next := &localDevice{
		name: fmt.Sprintf("%s%d", departed, dev.state.Number), state: p.newState(dev.state.Number), spent: dev.spent,
		stored: dev.stored,
	}
	next.state.Request = dev.state.Request
	if dev.stored {
		if err := p.store.Replace(dev.name, store.Device{Name: next.name, State: next.state}); err != nil {
			return false, err
		}
	}
	delete(p.devices, dev.name)
	p.devices[next.name] = next
	if dev.vacant {
		dev.vacant = false
		p.vacancies--
	}
	dev.gone = make(chan struct{})
	close(dev.gone)
	if !next.spent {
		next.vacant, next.listed = true, true
		p.vacancies++
		heap.Push(&p.vacant, next.vacancy(p.numbers.order))
	}
	return true, nil
}

// departed begins the name of a place that nobody has any more. No key begins with it.
const departed = "departed "

// all are the devices known so far.
func (p *places) all() []*localDevice {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.devices))
}

// count is how many devices are known, with those that left their places vacant.
func (p *places) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.devices)
}

// countTaken is how many places are taken.
func (p *places) countTaken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.devices) - p.vacancies
}

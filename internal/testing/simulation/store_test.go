package simulation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	hoststore "github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/pkg/device"
)

// place names a sealed report in a host's store.
type place struct {
	epoch  uint64
	round  uint32
	number uint32
}

func placeOf(o hoststore.Outgoing) place { return place{o.Epoch, o.Round, o.Number} }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.epoch, q.epoch), cmp.Compare(p.round, q.round), cmp.Compare(p.number, q.number))
}

// stored is what a host keeps, as the file of hoststore.Open holds it.
type stored struct {
	devices map[string][]byte // JSON of a hoststore.Device, by name
	outbox  map[place][]byte
	chain   map[hoststore.Round][32]byte
	notes   map[hoststore.Note][]byte
}

func newStored() stored {
	return stored{map[string][]byte{}, map[place][]byte{}, map[hoststore.Round][32]byte{},
		map[hoststore.Note][]byte{}}
}

func (s stored) clone() stored {
	return stored{maps.Clone(s.devices), maps.Clone(s.outbox), maps.Clone(s.chain), maps.Clone(s.notes)}
}

// store is a hoststore.Store in memory. A host writes while it holds locks, so a write takes no turn of the schedule:
// it is durable at once, or the process is killed.
type store struct{ i *incarnation }

var _ hoststore.Store = store{}

func (s store) read(f func(stored)) {
	s.i.disk.mu.Lock()
	defer s.i.disk.mu.Unlock()
	f(s.i.disk.store)
}

// Key implements hoststore.Store. The simulation's names are nobody's.
func (s store) Key(name string) string { return name }

// OptOut implements hoststore.Store. Nobody opts out in the simulation.
func (s store) OptOut(string, bool) error { return nil }

// OptedOut implements hoststore.Store.
func (s store) OptedOut(func(string)) error { return nil }

// Scrub implements hoststore.Store.
func (s store) Scrub() error { return nil }

// Load implements hoststore.Store.
func (s store) Load(f func(hoststore.Device) error) (err error) {
	s.read(func(all stored) {
		for _, name := range slices.Sorted(maps.Keys(all.devices)) {
			var d hoststore.Device
			if err = json.Unmarshal(all.devices[name], &d); err == nil {
				err = f(d)
			}
			if err != nil {
				return
			}
		}
	})
	return err
}

// Put implements hoststore.Store.
func (s store) Put(d hoststore.Device) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.i.persist("put", func(all *disk) { all.store.devices[d.Name] = b })
}

// Replace implements hoststore.Store.
func (s store) Replace(name string, d hoststore.Device) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.i.persist("replace", func(all *disk) {
		delete(all.store.devices, name)
		all.store.devices[d.Name] = b
	})
}

// Seal implements hoststore.Store.
func (s store) Seal(d hoststore.Device, o hoststore.Outgoing) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	envelope := bytes.Clone(o.Envelope)
	return s.i.persist("seal", func(all *disk) {
		all.store.devices[d.Name] = b
		all.store.outbox[placeOf(o)] = envelope
	})
}

// Unsent implements hoststore.Store.
func (s store) Unsent(f func(hoststore.Outgoing)) error {
	s.read(func(all stored) {
		for _, p := range slices.SortedFunc(maps.Keys(all.outbox), place.compare) {
			f(hoststore.Outgoing{Epoch: p.epoch, Round: p.round, Number: p.number,
				Envelope: bytes.Clone(all.outbox[p])})
		}
	})
	return nil
}

// Sent implements hoststore.Store.
func (s store) Sent(o hoststore.Outgoing) error {
	return s.i.persist("sent", func(all *disk) { delete(all.store.outbox, placeOf(o)) })
}

// Follow implements hoststore.Store.
func (s store) Follow(epoch uint64, round uint32, digest [32]byte) error {
	at := hoststore.Round{Epoch: epoch, Round: round}
	var seen [32]byte
	var known bool
	s.read(func(all stored) { seen, known = all.chain[at] })
	switch {
	case !known:
		return s.i.persist("follow", func(all *disk) { all.store.chain[at] = digest })
	case seen != digest:
		return fmt.Errorf("%w: round %d of epoch %d", device.ErrRewound, round, epoch)
	}
	return nil
}

// Latest implements hoststore.Store.
func (s store) Latest() (latest hoststore.Round, err error) {
	s.read(func(all stored) {
		for at := range all.chain {
			if at.Epoch > latest.Epoch || at.Epoch == latest.Epoch && at.Round > latest.Round {
				latest = at
			}
		}
	})
	return latest, nil
}

// PutNote implements hoststore.Store.
func (s store) PutNote(n hoststore.Note, text []byte) error {
	b := bytes.Clone(text)
	return s.i.persist("note", func(all *disk) { all.store.notes[n] = b })
}

// Note implements hoststore.Store.
func (s store) Note(n hoststore.Note) (text []byte, err error) {
	s.read(func(all stored) { text = bytes.Clone(all.notes[n]) })
	return text, nil
}

// Close implements hoststore.Store.
func (s store) Close() error { return nil }

package simulation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/pkg/device"
)

// place names a sealed report in a host's store.
type place struct {
	epoch  uint64
	round  uint32
	number uint32
}

func placeOf(o randomizer.Outgoing) place { return place{o.Epoch, o.Round, o.Number} }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.epoch, q.epoch), cmp.Compare(p.round, q.round), cmp.Compare(p.number, q.number))
}

// stored is what a host keeps, as the file of randomizer.OpenStore holds it.
type stored struct {
	devices map[string][]byte // JSON of a randomizer.Device, by name
	outbox  map[place][]byte
	chain   map[randomizer.RoundID][32]byte
	notes   map[string][]byte
}

func newStored() stored {
	return stored{map[string][]byte{}, map[place][]byte{}, map[randomizer.RoundID][32]byte{}, map[string][]byte{}}
}

func (s stored) clone() stored {
	return stored{maps.Clone(s.devices), maps.Clone(s.outbox), maps.Clone(s.chain), maps.Clone(s.notes)}
}

// store is a randomizer.Store in memory. A host writes while it holds locks, so a write takes no turn of the schedule:
// it is durable at once, or the process is killed.
type store struct{ i *incarnation }

var _ randomizer.Store = store{}

func (s store) read(f func(stored)) {
	s.i.disk.mu.Lock()
	defer s.i.disk.mu.Unlock()
	f(s.i.disk.store)
}

// Load implements randomizer.Store.
func (s store) Load(f func(randomizer.Device) error) (err error) {
	s.read(func(all stored) {
		for _, name := range slices.Sorted(maps.Keys(all.devices)) {
			var d randomizer.Device
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

// Put implements randomizer.Store.
func (s store) Put(d randomizer.Device) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.i.persist("put", func(all *disk) { all.store.devices[d.Name] = b })
}

// Replace implements randomizer.Store.
func (s store) Replace(name string, d randomizer.Device) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.i.persist("replace", func(all *disk) {
		delete(all.store.devices, name)
		all.store.devices[d.Name] = b
	})
}

// Seal implements randomizer.Store.
func (s store) Seal(d randomizer.Device, o randomizer.Outgoing) error {
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

// Unsent implements randomizer.Store.
func (s store) Unsent(f func(randomizer.Outgoing)) error {
	s.read(func(all stored) {
		for _, p := range slices.SortedFunc(maps.Keys(all.outbox), place.compare) {
			f(randomizer.Outgoing{Epoch: p.epoch, Round: p.round, Number: p.number,
				Envelope: bytes.Clone(all.outbox[p])})
		}
	})
	return nil
}

// Sent implements randomizer.Store.
func (s store) Sent(o randomizer.Outgoing) error {
	return s.i.persist("sent", func(all *disk) { delete(all.store.outbox, placeOf(o)) })
}

// Follow implements randomizer.Store.
func (s store) Follow(epoch uint64, round uint32, digest [32]byte) error {
	at := randomizer.RoundID{Epoch: epoch, Round: round}
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

// Latest implements randomizer.Store.
func (s store) Latest() (latest randomizer.RoundID, err error) {
	s.read(func(all stored) {
		for at := range all.chain {
			if at.Epoch > latest.Epoch || at.Epoch == latest.Epoch && at.Round > latest.Round {
				latest = at
			}
		}
	})
	return latest, nil
}

// PutNote implements randomizer.Store.
func (s store) PutNote(name, text []byte) error {
	b := bytes.Clone(text)
	return s.i.persist("note", func(all *disk) { all.store.notes[string(name)] = b })
}

// Note implements randomizer.Store.
func (s store) Note(name []byte) (text []byte, err error) {
	s.read(func(all stored) { text = bytes.Clone(all.notes[string(name)]) })
	return text, nil
}

// Close implements randomizer.Store.
func (s store) Close() error { return nil }

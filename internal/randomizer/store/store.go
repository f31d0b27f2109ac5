// Package store keeps what is durable of a host's devices: which device has which number, what each has promised and
// spent, and sealed reports until the broker has them. No record is ever in it.
package store

import (
	"encoding/binary"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/device"
)

// Store keeps what must survive a crash of the randomizer: which device has which number, what each has promised and
// spent, and sealed reports until the broker has them. What a method stores is durable when it returns. A store never
// holds a record: a record lives in memory only, and a device that lost its record to a crash reports the null record
// at the time it promised. Safe for concurrent use.
//
// Devices are named by Key, here and in all other methods: a keyed hash, which tells nobody their names.
type Store interface {
	// Key is what the store calls a device that apps call by a name.
	Key(name string) string
	// Load calls f with every device.
	Load(f func(Device) error) error
	// Put keeps a device's state.
	Put(d Device) error
	// Replace keeps a device's state and forgets another device, whose number it has.
	Replace(name string, d Device) error
	// Seal keeps a device's state and its sealed report together: from then on the same bytes are sent until they
	// arrive.
	Seal(d Device, o Outgoing) error
	// Unsent calls f with every sealed report that may not have arrived.
	Unsent(f func(Outgoing)) error
	// Sent forgets a sealed report.
	Sent(o Outgoing) error
	// OptOut keeps that a device opted out, or forgets it.
	OptOut(name string, out bool) error
	// OptedOut calls f with every device that opted out.
	OptedOut(f func(name string)) error
	// Scrub overwrites what the store has forgotten and replaced: nothing of it is left in its files.
	Scrub() error
	// Follow keeps the digest of a round's announcement; device.ErrRewound if the round had another one before.
	Follow(epoch uint64, round uint32, digest [32]byte) error
	// Latest is the last round that Follow kept; zero before the first.
	Latest() (Round, error)
	// PutNote keeps what holds for the whole store, under a name.
	PutNote(n Note, text []byte) error
	// Note is what PutNote kept; empty where there is nothing.
	Note(n Note) (text []byte, err error)
	Close() error
}

// Round names one round of one epoch.
type Round struct {
	Epoch uint64
	Round uint32
}

// Device is one person's device on this host.
type Device struct {
	Name string `json:"name"` // Key of what the app calls it
	device.State
}

// Note names what holds for the whole store.
type Note string

const (
	// Keys is the latest set of the shuffler's keys that was seen, signed.
	Keys Note = "shuffler's keys"
	// RolledBack is in a store that was proved older than what its host has done; its value says how.
	RolledBack Note = "rolled back"
	// Covered is how many devices each credential covered that the host ran with: ascending, 4 bytes each.
	Covered Note = "covered"
	// Evidence is in a store whose host was told by the shuffler what cannot be true: the first time, as JSON.
	Evidence Note = "evidence"
)

// Outgoing is a sealed report on its way to the broker.
type Outgoing struct {
	Epoch    uint64
	Round    uint32
	Number   uint32 // the device's
	Envelope []byte
}

func (o Outgoing) key() []byte {
	k := binary.BigEndian.AppendUint64(nil, o.Epoch)
	k = binary.BigEndian.AppendUint32(k, o.Round)
	return binary.BigEndian.AppendUint32(k, o.Number)
}

func parseKey(k []byte) (Outgoing, error) {
	if len(k) != 16 {
		return Outgoing{}, fmt.Errorf("outbox key of %d bytes", len(k))
	}
	return Outgoing{
		Epoch: binary.BigEndian.Uint64(k), Round: binary.BigEndian.Uint32(k[8:]),
		Number: binary.BigEndian.Uint32(k[12:]),
	}, nil
}

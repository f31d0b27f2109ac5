package randomizer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"go.etcd.io/bbolt"

	"github.com/riffle-dp/riffle/internal/journal/group"
	"github.com/riffle-dp/riffle/internal/journal/wal"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// Store keeps what must survive a crash of the randomizer: which device has which number, what each has promised and
// spent, and sealed reports until the broker has them. What a method stores is durable when it returns. A store never
// holds a record: a record lives in memory only, and a device that lost its record to a crash reports the null record
// at the time it promised. Safe for concurrent use.
type Store interface {
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
	// Follow keeps the digest of a round's announcement; device.ErrRewound if the round had another one before.
	Follow(epoch uint64, round uint32, digest [32]byte) error
	// Latest is the last round that Follow kept; zero before the first.
	Latest() (RoundID, error)
	// PutNote keeps what holds for the whole store, under a name.
	PutNote(name, text []byte) error
	// Note is what PutNote kept; empty where there is nothing.
	Note(name []byte) (text []byte, err error)
	Close() error
}

// RoundID names one round of one epoch.
type RoundID struct {
	Epoch uint64
	Round uint32
}

// Device is one person's device on this host.
type Device struct {
	Name string `json:"name"` // as the app calls it; never leaves the host
	device.State
}

// fileStore is a Store in one file with its log.
type fileStore struct {
	db     *wal.DB
	writes *group.Group[[]wal.Change] // what was changed at the same time shares a write to the disk

	following sync.Mutex // of Follow
}

var (
	bucketDevices = []byte("devices") // name -> device
	bucketOutbox  = []byte("outbox")  // epoch, round, number -> sealed report
	bucketChain   = []byte("chain")   // epoch, round -> digest of the announcement seen
	bucketMarks   = []byte("marks")   // name -> what holds for the whole store
)

// noteKeys is the latest set of the shuffler's keys that was seen, signed.
var noteKeys = []byte("shuffler's keys")

// noteRolledBack is in a store that was proved older than what its host has done; its value says how.
var noteRolledBack = []byte("rolled back")

// OpenStore opens the file of a Store, or begins it. One process can have it open.
func OpenStore(path string) (Store, error) { return openStore(path, false) }

// OpenUnsyncedStore is OpenStore for simulated devices: what it keeps survives the end of the process, and need not
// survive a power cut. Never use it for people: a ledger that a power cut sets back forgets what was spent.
func OpenUnsyncedStore(path string) (Store, error) { return openStore(path, true) }

func openStore(path string, unsynced bool) (Store, error) {
	db, err := wal.Open(path, wal.Options{
		Buckets: [][]byte{bucketDevices, bucketOutbox, bucketChain, bucketMarks}, NoSync: unsynced, Fill: 0.8,
	})
	if errors.Is(err, wal.ErrLocked) {
		return nil, fmt.Errorf("state file %s: another process has it open; give each randomizer a state folder of "+
			"its own", path)
	}
	if err != nil {
		return nil, fmt.Errorf("state file %s: %w", path, err)
	}
	writes := group.New(func(all [][]wal.Change) error { return db.Commit(slices.Concat(all...)) })
	return &fileStore{db: db, writes: writes}, nil
}

func (s *fileStore) Close() error {
	s.writes.Close()
	return s.db.Close()
}

func (s *fileStore) Load(f func(Device) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketDevices).ForEach(func(k, v []byte) error {
			var d Device
			if err := strict.Kept(v, &d); err != nil {
				return fmt.Errorf("state of a device: %w", err)
			}
			if d.Name != string(k) { // two entries would be one device, which could report twice
				return errors.New("state of a device: it stands under another device's name")
			}
			return f(d)
		})
	})
}

func (s *fileStore) Put(d Device) error {
	device, err := written(d)
	if err != nil {
		return err
	}
	return s.writes.Add([]wal.Change{device})()
}

func (s *fileStore) Replace(name string, d Device) error {
	device, err := written(d)
	if err != nil {
		return err
	}
	return s.writes.Add([]wal.Change{{Bucket: bucketDevices, Key: []byte(name)}, device})()
}

func (s *fileStore) Seal(d Device, o Outgoing) error {
	device, err := written(d)
	if err != nil {
		return err
	}
	return s.writes.Add([]wal.Change{device, {Bucket: bucketOutbox, Key: o.key(), Value: o.Envelope}})()
}

func (s *fileStore) Sent(o Outgoing) error {
	return s.writes.Add([]wal.Change{{Bucket: bucketOutbox, Key: o.key()}})()
}

func (s *fileStore) Unsent(f func(Outgoing)) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketOutbox).ForEach(func(k, v []byte) error {
			o, err := parseKey(k)
			if err != nil {
				return err
			}
			o.Envelope = append([]byte(nil), v...)
			f(o)
			return nil
		})
	})
}

func (s *fileStore) Follow(epoch uint64, round uint32, digest [32]byte) error {
	key := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, epoch), round)
	s.following.Lock()
	defer s.following.Unlock()
	seen, err := s.db.Get(bucketChain, key)
	switch {
	case err != nil:
		return err
	case seen == nil:
		return s.writes.Add([]wal.Change{{Bucket: bucketChain, Key: key, Value: digest[:]}})()
	case !bytes.Equal(seen, digest[:]):
		return fmt.Errorf("%w: round %d of epoch %d had digest %x, now it has %x", device.ErrRewound, round, epoch,
			seen[:min(8, len(seen))], digest[:8])
	}
	return nil
}

func (s *fileStore) Latest() (p RoundID, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket(bucketChain).Cursor().Last()
		if k == nil {
			return nil
		}
		if len(k) != 12 {
			return fmt.Errorf("announcement key of %d bytes", len(k))
		}
		p = RoundID{binary.BigEndian.Uint64(k), binary.BigEndian.Uint32(k[8:])}
		return nil
	})
	return p, err
}

func (s *fileStore) PutNote(name, text []byte) error {
	return s.writes.Add([]wal.Change{{Bucket: bucketMarks, Key: name, Value: append([]byte{}, text...)}})()
}

func (s *fileStore) Note(name []byte) (text []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		text = bytes.Clone(tx.Bucket(bucketMarks).Get(name))
		return nil
	})
	return text, err
}

// written is a device as the file keeps it. What the file cannot hold is refused here, so that it fails alone.
func written(d Device) (c wal.Change, err error) {
	// Bytes that are no UTF-8 would come back as others.
	if n := len(d.Name); n == 0 || n > bbolt.MaxKeySize || !utf8.ValidString(d.Name) {
		return c, fmt.Errorf("a device's name has 1 to %d bytes of UTF-8, this one has %d", bbolt.MaxKeySize, n)
	}
	b, err := json.Marshal(d)
	return wal.Change{Bucket: bucketDevices, Key: []byte(d.Name), Value: b}, err
}

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

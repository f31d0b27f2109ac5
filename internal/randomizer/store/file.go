package store

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

// file is a Store in one file with its log.
type file struct {
	names
	db     *wal.DB
	writes *group.Group[[]wal.Change] // what was changed at the same time shares a write to the disk

	following sync.Mutex // of Follow
}

var (
	bucketDevices = []byte("devices") // keyed hash of the name -> device
	bucketOut     = []byte("out")     // keyed hashes of those who opted out
	bucketOutbox  = []byte("outbox")  // epoch, round, number -> sealed report
	bucketChain   = []byte("chain")   // epoch, round -> digest of the announcement seen
	bucketMarks   = []byte("marks")   // name -> what holds for the whole store

	markNames = []byte("names") // tells the key of the names
)

// Open opens the file of a Store, or begins it, and the key of its names beside it. One process can have it open. What
// was forgotten before is overwritten.
func Open(path string) (Store, error) { return open(path, false) }

// OpenUnsynced is Open for simulated devices: what it keeps survives the end of the process, and need not survive a
// power cut. Never use it for people: a ledger that a power cut sets back forgets what was spent.
func OpenUnsynced(path string) (Store, error) { return open(path, true) }

func open(path string, unsynced bool) (Store, error) {
	db, err := wal.Open(path, wal.Options{
		Buckets: [][]byte{bucketDevices, bucketOut, bucketOutbox, bucketChain, bucketMarks}, NoSync: unsynced,
		Fill: 0.8,
	})
	if errors.Is(err, wal.ErrLocked) {
		return nil, fmt.Errorf("state file %s: another process has it open; give each randomizer a state folder of "+
			"its own", path)
	}
	if err != nil {
		return nil, fmt.Errorf("state file %s: %w", path, err)
	}
	names, err := openNames(db, path+".key")
	if err == nil && !unsynced {
		err = db.Scrub()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state file %s: %w", path, err), db.Close())
	}
	writes := group.New(func(all [][]wal.Change) error { return db.Commit(slices.Concat(all...)) })
	return &file{names: names, db: db, writes: writes}, nil
}

func (s *file) Close() error {
	s.writes.Close()
	return s.db.Close()
}

func (s *file) Key(name string) string { return s.of(name) }

func (s *file) OptOut(name string, out bool) error {
	c := wal.Change{Bucket: bucketOut, Key: []byte(name)}
	if out {
		c.Value = []byte{1}
	}
	return s.writes.Add([]wal.Change{c})()
}

func (s *file) OptedOut(f func(name string)) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketOut).ForEach(func(k, _ []byte) error {
			f(string(k))
			return nil
		})
	})
}

func (s *file) Scrub() error { return s.db.Scrub() }

func (s *file) Load(f func(Device) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketDevices).ForEach(func(k, v []byte) error {
			var d Device
			if err := strict.Kept(v, &d); err != nil {
				return fmt.Errorf("state of a device: %w", err)
			}
			if d.Name != string(k) { // two entries would be one device, which could report twice
				return errors.New("state of a device: it is under another device's name")
			}
			return f(d)
		})
	})
}

func (s *file) Put(d Device) error {
	device, err := encode(d)
	if err != nil {
		return err
	}
	return s.writes.Add([]wal.Change{device})()
}

func (s *file) Replace(name string, d Device) error {
	device, err := encode(d)
	if err != nil {
		return err
	}
	return s.writes.Add([]wal.Change{{Bucket: bucketDevices, Key: []byte(name)}, device})()
}

func (s *file) Seal(d Device, o Outgoing) error {
	device, err := encode(d)
	if err != nil {
		return err
	}
	return s.writes.Add([]wal.Change{device, {Bucket: bucketOutbox, Key: o.key(), Value: o.Envelope}})()
}

func (s *file) Sent(o Outgoing) error {
	return s.writes.Add([]wal.Change{{Bucket: bucketOutbox, Key: o.key()}})()
}

func (s *file) Unsent(f func(Outgoing)) error {
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

func (s *file) Follow(epoch uint64, round uint32, digest [32]byte) error {
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

func (s *file) Latest() (r Round, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket(bucketChain).Cursor().Last()
		if k == nil {
			return nil
		}
		if len(k) != 12 {
			return fmt.Errorf("announcement key of %d bytes", len(k))
		}
		r = Round{binary.BigEndian.Uint64(k), binary.BigEndian.Uint32(k[8:])}
		return nil
	})
	return r, err
}

func (s *file) PutNote(n Note, text []byte) error {
	return s.writes.Add([]wal.Change{{Bucket: bucketMarks, Key: []byte(n), Value: append([]byte{}, text...)}})()
}

func (s *file) Note(n Note) (text []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		text = bytes.Clone(tx.Bucket(bucketMarks).Get([]byte(n)))
		return nil
	})
	return text, err
}

// encode is a device as the file keeps it. What the file cannot hold is refused here, so that it fails alone.
func encode(d Device) (c wal.Change, err error) {
	// Bytes that are no UTF-8 would come back as others.
	if n := len(d.Name); n == 0 || n > bbolt.MaxKeySize || !utf8.ValidString(d.Name) {
		return c, fmt.Errorf("a device's name has 1 to %d bytes of UTF-8, this one has %d", bbolt.MaxKeySize, n)
	}
	b, err := json.Marshal(d)
	return wal.Change{Bucket: bucketDevices, Key: []byte(d.Name), Value: b}, err
}

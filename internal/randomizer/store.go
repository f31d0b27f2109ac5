package randomizer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// store keeps what must survive a crash of the randomizer: which device has which number, what each has promised and spent, and
// sealed reports until the broker has them. It never holds a record: a record lives in memory only, and a device that lost its
// record to a crash reports the null record at the time it promised.
type store struct{ db *bbolt.DB }

// device is one person's device on this host.
type device struct {
	Name   string         `json:"name"` // as the app calls it; never leaves the host
	Number uint32         `json:"number"`
	Ledger privacy.Ledger `json:"ledger"`
	// Enrolment is the place in the latest cohort that the device took.
	Enrolment *enrolment `json:"enrolment,omitempty"`
}

// enrolment is a device's promise to report.
type enrolment struct {
	Epoch    uint64    `json:"epoch"`
	Slot     uint32    `json:"slot"`
	ReportAt time.Time `json:"report_at"`
	Reported int       `json:"reported"` // rounds whose report was sealed
}

var (
	bucketDevices = []byte("devices") // name -> device
	bucketOutbox  = []byte("outbox")  // epoch, round, number -> sealed report
	bucketChain   = []byte("chain")   // epoch, round -> digest of the announcement seen
	bucketMarks   = []byte("marks")   // what holds for the whole store
)

// markKeys is the latest set of the shuffler's keys that was seen, signed.
var markKeys = []byte("shuffler's keys")

// markRolledBack is the mark of a store that was proved older than what its host has done; its value says how.
var markRolledBack = []byte("rolled back")

// storeLock is how long opening waits for another process to let go of the file.
const storeLock = 3 * time.Second

func openStore(path string) (*store, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: storeLock})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("state file %s: another process has it open; give each randomizer a state folder of its own", path)
	}
	if err != nil {
		return nil, fmt.Errorf("state file %s: %w", path, err)
	}
	// Concurrent updates share a write to the disk; they need not wait long for company.
	db.MaxBatchDelay = 2 * time.Millisecond
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, b := range [][]byte{bucketDevices, bucketOutbox, bucketChain, bucketMarks} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state file %s: %w", path, err), db.Close())
	}
	return &store{db}, nil
}

func (s *store) close() error { return s.db.Close() }

// load calls f with every device.
func (s *store) load(f func(device) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketDevices).ForEach(func(k, v []byte) error {
			var d device
			if err := json.Unmarshal(v, &d); err != nil {
				return fmt.Errorf("state of a device: %w", err)
			}
			return f(d)
		})
	})
}

// put makes the device's state durable.
func (s *store) put(d device) error {
	return s.db.Batch(func(tx *bbolt.Tx) error { return putDevice(tx, d) })
}

// seal makes the device's state and its sealed report durable together: from then on the same bytes are sent until they arrive.
func (s *store) seal(d device, o outgoing) error {
	return s.db.Batch(func(tx *bbolt.Tx) error {
		return errors.Join(putDevice(tx, d), tx.Bucket(bucketOutbox).Put(o.key(), o.envelope))
	})
}

// sent forgets a report that the broker has.
func (s *store) sent(o outgoing) error {
	return s.db.Batch(func(tx *bbolt.Tx) error { return tx.Bucket(bucketOutbox).Delete(o.key()) })
}

// unsent calls f with every sealed report that may not have arrived.
func (s *store) unsent(f func(outgoing)) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketOutbox).ForEach(func(k, v []byte) error {
			o, err := parseKey(k)
			if err != nil {
				return err
			}
			o.envelope = append([]byte(nil), v...)
			f(o)
			return nil
		})
	})
}

// follow remembers the announcement of a round; ErrRewound if another one was seen for it before, by this process or an earlier one.
func (s *store) follow(epoch uint64, round uint32, digest [32]byte) error {
	key := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, epoch), round)
	return s.db.Update(func(tx *bbolt.Tx) error {
		chain := tx.Bucket(bucketChain)
		if seen := chain.Get(key); seen != nil {
			if !bytes.Equal(seen, digest[:]) {
				return fmt.Errorf("%w: round %d of epoch %d had digest %x, now it has %x", ErrRewound, round, epoch, short(seen), digest[:8])
			}
			return nil
		}
		return chain.Put(key, digest[:])
	})
}

// latest is the last round whose announcement was seen; zero before the first.
func (s *store) latest() (r round, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket(bucketChain).Cursor().Last()
		if k == nil {
			return nil
		}
		if len(k) != 12 {
			return fmt.Errorf("announcement key of %d bytes", len(k))
		}
		r = round{binary.BigEndian.Uint64(k), binary.BigEndian.Uint32(k[8:])}
		return nil
	})
	return r, err
}

// mark makes the proof durable that this store is older than what its host has done.
func (s *store) mark(proof string) error {
	return s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMarks).Put(markRolledBack, []byte(proof)) })
}

// marked is the proof that this store is older than what its host has done; nil where there is none.
func (s *store) marked() (proof, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		if text := tx.Bucket(bucketMarks).Get(markRolledBack); text != nil {
			proof = fmt.Errorf("%w: %s", ErrRolledBack, text)
		}
		return nil
	})
	return proof, err
}

// putKeys makes the latest set of the shuffler's keys durable, signed.
func (s *store) putKeys(signed []byte) error {
	return s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMarks).Put(markKeys, signed) })
}

// keys is the latest set of the shuffler's keys, signed; empty before the first.
func (s *store) keys() (signed []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		signed = bytes.Clone(tx.Bucket(bucketMarks).Get(markKeys))
		return nil
	})
	return signed, err
}

func putDevice(tx *bbolt.Tx, d device) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return tx.Bucket(bucketDevices).Put([]byte(d.Name), b)
}

// outgoing is a sealed report on its way to the broker.
type outgoing struct {
	epoch    uint64
	round    uint32
	number   uint32
	envelope []byte
}

func (o outgoing) key() []byte {
	k := binary.BigEndian.AppendUint64(nil, o.epoch)
	k = binary.BigEndian.AppendUint32(k, o.round)
	return binary.BigEndian.AppendUint32(k, o.number)
}

func parseKey(k []byte) (outgoing, error) {
	if len(k) != 16 {
		return outgoing{}, fmt.Errorf("outbox key of %d bytes", len(k))
	}
	return outgoing{epoch: binary.BigEndian.Uint64(k), round: binary.BigEndian.Uint32(k[8:]), number: binary.BigEndian.Uint32(k[12:])}, nil
}

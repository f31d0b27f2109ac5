// Package journal keeps what a role must not forget: an ordered, durable list of entries in one file.
//
// A role decides in memory, appends what it decided, and answers only when the append is durable. After a crash it
// replays the journal and stands where it stood, except for decisions that it had not answered yet. Entries appended at
// the same time share one write to the disk. No entry is ever changed; the file belongs to one process at a time.
//
// The journal promises order and durability of whole entries. It does not promise secrecy: what must not be on disk
// must not be appended.
package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// ErrClosed is the answer to an append after Close. Nothing was written.
var ErrClosed = errors.New("journal: closed")

// lockTimeout is how long Open waits for another process to let go of the file.
const lockTimeout = 3 * time.Second

// maxBatch bounds the entries of one write, so that a burst does not grow one transaction without end.
const maxBatch = 4096

var bucket = []byte("entries")

// Journal is an open journal. Its methods may be called from many goroutines.
type Journal struct {
	db      *bbolt.DB
	pending chan *entry
	done    chan struct{}

	mu     sync.RWMutex
	closed bool
}

// entry is an appended entry on its way to the disk.
type entry struct {
	bytes []byte
	done  chan struct{}
	err   error
}

func (e *entry) settle(err error) {
	e.err = err
	close(e.done)
}

// Open opens or creates the journal in the file path. It fails if another process has it open.
func Open(path string) (*Journal, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("journal %s: another process has it open; "+
			"stop that process or give this one a state folder of its own", path)
	}
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("journal %s: %w", path, err), db.Close())
	}
	j := &Journal{db: db, pending: make(chan *entry, maxBatch), done: make(chan struct{})}
	go j.write()
	return j, nil
}

// Replay calls f with every entry in the order of appending and stops at the first error, which it returns.
// The slice is valid only during the call.
func (j *Journal) Replay(f func(entry []byte) error) error {
	return j.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(k, v []byte) error {
			if err := f(v); err != nil {
				return fmt.Errorf("journal entry %d: %w", binary.BigEndian.Uint64(k), err)
			}
			return nil
		})
	})
}

// Entry returns a copy of one entry; the first has number 0. An entry that was never appended, or is not durable yet,
// is an error.
func (j *Journal) Entry(number uint64) (entry []byte, err error) {
	err = j.db.View(func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucket).Get(binary.BigEndian.AppendUint64(nil, number+1)) // the bucket counts from 1
		if v == nil {
			return fmt.Errorf("journal %s: no entry %d", j.db.Path(), number)
		}
		entry = bytes.Clone(v)
		return nil
	})
	return entry, err
}

// Append adds an entry behind all entries whose Append began before. durable waits until the entry, and every one
// before it, is durable. It may be called from many goroutines, or not at all. After an error of it the entry may or
// may not be there, no further entry is added, and the caller must stop: its memory may be ahead of the disk. The error
// is ErrClosed after Close.
func (j *Journal) Append(b []byte) (durable func() error) {
	e := &entry{bytes: b, done: make(chan struct{})}
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.closed {
		e.settle(ErrClosed)
	} else {
		j.pending <- e
	}
	return func() error {
		<-e.done
		return e.err
	}
}

// Close writes what is pending and lets go of the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	close(j.pending)
	j.mu.Unlock()
	<-j.done
	return j.db.Close()
}

func (j *Journal) write() {
	defer close(j.done)
	var err error
	for first := range j.pending {
		batch := []*entry{first}
	collect:
		for len(batch) < maxBatch {
			select {
			case next, ok := <-j.pending:
				if !ok {
					break collect
				}
				batch = append(batch, next)
			default:
				break collect
			}
		}
		if err == nil { // what comes after a failed write could be there without it
			err = j.put(batch)
		}
		for _, e := range batch {
			e.settle(err)
		}
	}
}

func (j *Journal) put(batch []*entry) error {
	err := j.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		b.FillPercent = 1 // keys only grow
		for _, e := range batch {
			n, err := b.NextSequence()
			if err != nil {
				return err
			}
			if err := b.Put(binary.BigEndian.AppendUint64(nil, n), e.bytes); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("journal %s: %w", j.db.Path(), err)
	}
	return nil
}

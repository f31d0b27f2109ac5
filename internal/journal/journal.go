// Package journal keeps what a role must not forget: an ordered, durable list of entries in one file.
//
// A role decides in memory, appends what it decided, and answers only when the append is durable. After a crash it
// replays the journal and is where it was, except for decisions that it had not answered yet. Entries appended at
// the same time share one write to the disk. No entry is ever changed; the file belongs to one process at a time. What
// a role needs no more it can replace by fewer entries, all at once (Replace).
//
// The journal promises order and durability of whole entries. It does not promise secrecy: what must not be on disk
// must not be appended.
package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/riffle-dp/riffle/internal/journal/group"
	"github.com/riffle-dp/riffle/internal/journal/wal"
)

// ErrClosed is the answer to an append after Close. Nothing was written.
var ErrClosed = group.ErrClosed

var bucket = []byte("entries")

// key is where the entry of a number is kept. The first has number 1 there.
func key(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// Journal is an open journal. Its methods may be called from many goroutines.
type Journal struct {
	path    string
	db      *wal.DB
	last    uint64 // number of the last entry; the writer's alone
	pending *group.Group[addition]
}

// addition is what one call adds.
type addition struct {
	entries [][]byte
	instead bool // of everything before
}

// Open opens or creates the journal in the file path. It fails if another process has it open.
func Open(path string) (*Journal, error) {
	db, err := wal.Open(path, wal.Options{Buckets: [][]byte{bucket}, Fill: 1})
	if errors.Is(err, wal.ErrLocked) {
		return nil, fmt.Errorf("journal %s: another process has it open; stop that process or give this one a state "+
			"folder of its own", path)
	}
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	j := &Journal{path: path, db: db}
	err = db.View(func(tx *bbolt.Tx) error {
		if k, _ := tx.Bucket(bucket).Cursor().Last(); len(k) == 8 {
			j.last = binary.BigEndian.Uint64(k)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("journal %s: %w", path, err), db.Close())
	}
	j.pending = group.New(j.put)
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
	if entry, err = j.db.Get(bucket, key(number+1)); err == nil && entry == nil {
		return nil, fmt.Errorf("journal %s: no entry %d", j.path, number)
	}
	return entry, err
}

// Append adds an entry behind all entries whose Append began before. durable waits until the entry, and every one
// before it, is durable. It may be called from many goroutines, or not at all. After an error of it the entry may or
// may not be there, no further entry is added, and the caller must stop: its memory may be ahead of the disk. The error
// is ErrClosed after Close.
func (j *Journal) Append(b []byte) (durable func() error) {
	return j.pending.Add(addition{entries: [][]byte{b}})
}

// Replace puts entries in the place of everything that was appended before, in one step: whenever the process or the
// power fails, the journal has all of the old entries or all of the new ones. The numbers of entries go on. What
// durable returns, and what is appended behind, is as for Append. The file keeps its size, and gives the room to later
// entries.
func (j *Journal) Replace(entries ...[]byte) (durable func() error) {
	return j.pending.Add(addition{entries: entries, instead: true})
}

// Close writes what is pending and lets go of the file.
func (j *Journal) Close() error {
	j.pending.Close()
	return j.db.Close()
}

func (j *Journal) put(all []addition) error {
	last := j.last
	var changes []wal.Change
	for _, a := range all {
		if a.instead {
			changes = append(changes, wal.Change{Bucket: bucket, Key: key(last + 1), Below: true})
		}
		for _, e := range a.entries {
			if e == nil {
				e = []byte{} // nil would forget the key
			}
			last++
			changes = append(changes, wal.Change{Bucket: bucket, Key: key(last), Value: e})
		}
	}
	if err := j.db.Commit(changes); err != nil {
		return fmt.Errorf("journal %w", err)
	}
	j.last = last
	return nil
}

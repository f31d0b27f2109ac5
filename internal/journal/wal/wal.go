// Package wal puts a write-ahead log in front of a bbolt file.
//
// A commit is one append to the log and one sync, however many places of the file it changes; bbolt would write each
// page that it touches, and sync twice. What was committed goes into the bbolt file later, many commits at a time, and
// the log is removed. After a crash the logs that are left are taken in when the file is opened.
//
// No library for logs was found that tells a torn last write from damage and does not bring a database of its own.
package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// ErrLocked says that another process has the file open.
var ErrLocked = errors.New("another process has it open")

const (
	// lockTime is how long Open waits for another process to let go of the file.
	lockTime = 3 * time.Second
	// forgetAtATime is how many keys are held in memory while a range of them is forgotten.
	forgetAtATime = 4096
	// logSize is how many bytes a log gets before it is taken in and another one is begun.
	logSize = 4 << 20
)

// own is the bucket that this package keeps for itself.
var own = []byte("log")

// keyApplied holds the number of the last log that is in the file.
var keyApplied = []byte("applied")

// Change is one key of one bucket with its new value. A nil value forgets the key; with Below it forgets every smaller
// key of the bucket in its place, and the key itself stays as it is.
type Change struct {
	Bucket, Key, Value []byte
	Below              bool
}

// forgets reports whether the change forgets the key of another one that was made before it.
func (c *Change) forgets(bucket, key []byte) bool {
	return c.Below && bytes.Equal(c.Bucket, bucket) && bytes.Compare(key, c.Key) < 0
}

// Options say how a file is opened.
type Options struct {
	Buckets [][]byte // that Open begins where they are not there
	// NoSync: what was committed survives the end of the process, and need not survive a power cut.
	NoSync  bool
	LogSize int64   // bytes of one log; 0: 4 MiB
	Fill    float64 // how full the file's pages become, in (0, 1]: 1 where keys only grow. 0: 0.5
}

// DB is an open file. Its methods may be called from many goroutines.
type DB struct {
	db   *bbolt.DB
	path string
	o    Options

	wake chan struct{} // a log is full
	done chan struct{} // closed when nothing is taken in any more

	session uint64 // number of what is written from Open to Close

	applying sync.Mutex   // of whoever takes logs in; before mu
	reading  sync.RWMutex // of whoever reads the file; Scrub lets nobody; after applying

	mu     sync.Mutex
	active *log     // nil when nothing is written any more
	fresh  []Change // that it holds
	full   []*closed
	next   uint64 // number of the next log
	failed error  // nothing is written any more
	ended  bool
}

// closed is a log that waits to be taken in.
type closed struct {
	path    string
	number  uint64
	changes []Change
}

// Open opens or begins a file, and takes in the logs that a crash left. It fails with ErrLocked if another process has
// the file open, and with ErrDamaged where a log is not what was written, or belongs to a newer copy of the file.
func Open(path string, o Options) (*DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTime, NoSync: o.NoSync, NoFreelistSync: o.NoSync})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	if o.LogSize == 0 {
		o.LogSize = logSize
	}
	d := &DB{db: db, path: path, o: o, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if err := d.recover(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	go d.run()
	return d, nil
}

// Commit makes changes durable, all of them or none. The slices must not change afterwards. After an error nothing more
// is written, and the changes may be there or not.
func (d *DB) Commit(changes []Change) error {
	d.mu.Lock()
	err := d.commit(changes)
	behind := d.active != nil && len(d.full) > 0 && d.active.size > 4*d.o.LogSize
	d.mu.Unlock()
	if err == nil && behind { // the file does not keep up with the log
		err = d.Flush()
	}
	return err
}

// commit is Commit with the lock held.
func (d *DB) commit(changes []Change) error {
	switch {
	case d.failed != nil:
		return d.failed
	case d.ended:
		return os.ErrClosed
	}
	if err := d.active.append(changes); err != nil {
		d.failed = fmt.Errorf("%s: %w", d.path, err)
		return d.failed
	}
	d.fresh = append(d.fresh, changes...)
	if d.active.size < d.o.LogSize || len(d.full) > 0 {
		return nil
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
	return d.turn()
}

// turn closes the active log, so that it is taken in, and begins another. After a failure it begins none. The lock is
// held.
func (d *DB) turn() error {
	if d.active == nil {
		return nil
	}
	if err := d.active.file.Close(); err != nil && d.failed == nil {
		d.failed = fmt.Errorf("%s: %w", d.path, err)
		return d.failed
	}
	before := d.active.frames
	d.full = append(d.full, &closed{d.active.path, d.active.name.number, d.fresh})
	d.active, d.fresh = nil, nil
	if d.failed != nil || d.ended {
		return nil
	}
	if err := d.begin(before); err != nil {
		d.failed = fmt.Errorf("%s: %w", d.path, err)
		return d.failed
	}
	return nil
}

// run takes in logs that are full.
func (d *DB) run() {
	defer close(d.done)
	for range d.wake {
		if err := d.takeFull(); err != nil {
			d.mu.Lock()
			d.failed = err
			d.mu.Unlock()
		}
	}
}

// takeFull takes in the logs that are closed.
func (d *DB) takeFull() error {
	d.applying.Lock()
	defer d.applying.Unlock()
	for {
		d.mu.Lock()
		var first *closed
		if len(d.full) > 0 {
			first = d.full[0]
		}
		last := len(d.full) == 1 && d.active == nil
		d.mu.Unlock()
		if first == nil {
			return nil
		}
		err := d.take(first, func(tx *bbolt.Tx) error {
			if !last {
				return nil
			}
			return tx.Bucket(own).Delete(keySession) // no log comes behind it
		})
		if err != nil {
			return err
		}
		d.mu.Lock()
		d.full = d.full[1:]
		d.mu.Unlock()
	}
}

// take writes the changes of a log into the file, and what else belongs to them, and removes the log.
func (d *DB) take(c *closed, also func(tx *bbolt.Tx) error) error {
	// By key, so that each page of the file is written once; the last change of a key is the one that holds.
	sorted, below := effective(c.changes)
	slices.SortStableFunc(sorted, func(a, b Change) int {
		if by := bytes.Compare(a.Bucket, b.Bucket); by != 0 {
			return by
		}
		return bytes.Compare(a.Key, b.Key)
	})
	err := d.db.Update(func(tx *bbolt.Tx) error {
		for _, c := range below {
			if err := forgetBelow(tx, c); err != nil {
				return err
			}
		}
		for i, c := range sorted {
			if i+1 < len(sorted) && bytes.Equal(c.Key, sorted[i+1].Key) && bytes.Equal(c.Bucket, sorted[i+1].Bucket) {
				continue
			}
			b := tx.Bucket(c.Bucket)
			if b == nil {
				return fmt.Errorf("%w: a change of the bucket %q, which is not there", ErrDamaged, c.Bucket)
			}
			if d.o.Fill > 0 {
				b.FillPercent = d.o.Fill
			}
			var err error
			if c.Value == nil {
				err = b.Delete(c.Key)
			} else {
				err = b.Put(c.Key, c.Value)
			}
			if err != nil {
				return err
			}
		}
		if err := also(tx); err != nil {
			return err
		}
		return tx.Bucket(own).Put(keyApplied, binary.BigEndian.AppendUint64(nil, c.number))
	})
	if err == nil {
		err = os.Remove(c.path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	return nil
}

// effective splits a log's changes: into those of single keys that still hold at its end, and those that forget what
// the file had before the log.
func effective(all []Change) (single, below []Change) {
	for i := len(all) - 1; i >= 0; i-- {
		switch c := all[i]; {
		case c.Below:
			below = append(below, c)
		case !slices.ContainsFunc(below, func(later Change) bool { return later.forgets(c.Bucket, c.Key) }):
			single = append(single, c)
		}
	}
	slices.Reverse(single)
	return single, below
}

// forgetBelow takes a change that forgets all smaller keys into the file.
func forgetBelow(tx *bbolt.Tx, c Change) error {
	b := tx.Bucket(c.Bucket)
	if b == nil {
		return fmt.Errorf("%w: a change of the bucket %q, which is not there", ErrDamaged, c.Bucket)
	}
	var from []byte // so that the pages that are empty by now are not looked through again
	for {
		var keys [][]byte
		cursor := b.Cursor()
		for k, _ := cursor.Seek(from); k != nil && len(keys) < forgetAtATime; k, _ = cursor.Next() {
			if bytes.Compare(k, c.Key) >= 0 {
				break
			}
			keys = append(keys, bytes.Clone(k))
		}
		if len(keys) == 0 {
			return nil
		}
		for _, k := range keys {
			if err := b.Delete(k); err != nil {
				return err
			}
		}
		from = keys[len(keys)-1]
	}
}

// Flush takes everything that was committed into the file. It does so after a failed commit, too, whose changes are
// then gone if the log has them.
func (d *DB) Flush() error {
	d.mu.Lock()
	var err error
	if d.active != nil && (len(d.fresh) > 0 || d.failed != nil || d.ended) {
		err = d.turn()
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	return d.takeFull()
}

// Get returns a copy of a key's value, nil where there is none. It takes nothing into the file: one value is quickest
// read where it is.
func (d *DB) Get(bucket, key []byte) (value []byte, err error) {
	if c := d.latest(bucket, key); c != nil {
		return bytes.Clone(c.Value), nil
	}
	d.reading.RLock()
	defer d.reading.RUnlock()
	err = d.db.View(func(tx *bbolt.Tx) error { // what left the logs meanwhile is here
		value = bytes.Clone(tx.Bucket(bucket).Get(key))
		return nil
	})
	return value, err
}

// latest is the last change of a key that is not in the file; nil where there is none.
func (d *DB) latest(bucket, key []byte) *Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	logs := [][]Change{d.fresh}
	for _, c := range d.full {
		logs = slices.Insert(logs, 1, c.changes)
	}
	for _, changes := range logs {
		for i := len(changes) - 1; i >= 0; i-- {
			c := &changes[i]
			if !c.Below && bytes.Equal(c.Key, key) && bytes.Equal(c.Bucket, bucket) || c.forgets(bucket, key) {
				return c
			}
		}
	}
	return nil
}

// View reads the file with everything that was committed before.
func (d *DB) View(f func(tx *bbolt.Tx) error) error {
	if err := d.Flush(); err != nil {
		return err
	}
	d.reading.RLock()
	defer d.reading.RUnlock()
	return d.db.View(f)
}

// Close takes everything into the file and lets go of it. What it cannot take in stays in the logs for the next Open.
func (d *DB) Close() error {
	d.mu.Lock()
	if d.ended {
		d.mu.Unlock()
		return nil
	}
	d.ended = true
	d.mu.Unlock()
	close(d.wake)
	<-d.done
	return errors.Join(d.Flush(), d.db.Close())
}

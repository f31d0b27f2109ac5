package wal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/bbolt"
)

// The file and its logs say of each other that they belong together, so that a part of them that was lost, or restored
// from another copy, is noticed:
//
//   - A log has the number of the session that wrote it, which is drawn when the file is opened, and its own number.
//   - From Open to Close the file holds the session's number. While it does, the log behind the last one that was taken
//     in is there: it is durable before the file says so.
//   - A log is begun only when all of the one before it is durable, and says how many commits that holds. So only the
//     last log may be torn, or shorter than it was.
//
// Nothing here can tell the last log of an older copy, with fewer commits, from one that a crash left.

// keySession holds the number of the session that the logs behind the file belong to. It is there from Open to Close.
var keySession = []byte("session")

// recover takes in the logs that are left, and begins the first log of this session.
func (d *DB) recover() error {
	var applied uint64
	var before []byte // the session of the logs that are left; nil after Close
	err := d.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range append([][]byte{own}, d.o.Buckets...) {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		if v := tx.Bucket(own).Get(keyApplied); len(v) == 8 {
			applied = binary.BigEndian.Uint64(v)
		}
		before = slices.Clone(tx.Bucket(own).Get(keySession))
		return nil
	})
	if err != nil {
		return err
	}
	left, err := d.leftLogs(applied, before)
	if err != nil {
		return err
	}
	d.next = applied + uint64(len(left)) + 1
	var drawn [8]byte
	_, _ = rand.Read(drawn[:]) // it never fails
	d.session = binary.BigEndian.Uint64(drawn[:])
	if err := d.begin(0); err != nil {
		return err
	}
	name := func(tx *bbolt.Tx) error { return tx.Bucket(own).Put(keySession, d.sessionBytes()) }
	if len(left) == 0 {
		err = d.db.Update(name)
	}
	for i, c := range left {
		also := name
		if i < len(left)-1 {
			also = func(*bbolt.Tx) error { return nil }
		}
		if err = d.take(c, also); err != nil {
			break
		}
	}
	if err != nil {
		return errors.Join(err, d.active.file.Close())
	}
	return nil
}

func (d *DB) sessionBytes() []byte { return binary.BigEndian.AppendUint64(nil, d.session) }

// leftLogs reads the logs that a crash left and that are not in the file, in order. It removes the others.
func (d *DB) leftLogs(applied uint64, before []byte) (left []*closed, err error) {
	numbers, err := d.logs()
	if err != nil {
		return nil, err
	}
	for len(numbers) > 0 && numbers[0] <= applied { // the crash came between taking it in and removing it
		if err := os.Remove(d.log(numbers[0])); err != nil {
			return nil, err
		}
		numbers = numbers[1:]
	}
	var session uint64
	if len(before) == 8 {
		session = binary.BigEndian.Uint64(before)
	}
	if n := len(numbers); n > 0 { // the crash came before the last log was in use
		unused, err := isUnused(d.log(numbers[n-1]), name{session, numbers[n-1]}, before != nil)
		if err == nil && unused {
			numbers, err = numbers[:n-1], os.Remove(d.log(numbers[n-1]))
		}
		if err != nil {
			return nil, err
		}
	}
	base := filepath.Base(d.path)
	const advice = "restore all files of the folder from one copy, the newest"
	switch {
	case before == nil && len(numbers) > 0:
		return nil, fmt.Errorf("%s: %w: it does not belong to this copy of %s; %s", d.log(numbers[0]), ErrDamaged, base,
			advice)
	case before != nil && len(numbers) == 0:
		return nil, fmt.Errorf("%s: %w: it is not there, and %s cannot be complete without it; %s", d.log(applied+1),
			ErrDamaged, base, advice)
	}
	var frames uint32
	for i, number := range numbers {
		if want := applied + uint64(i) + 1; number != want {
			return nil, fmt.Errorf("%s: %w: it is not there, but %s is; %s", d.log(want), ErrDamaged,
				filepath.Base(d.log(number)), advice)
		}
		c, err := read(d.log(number), name{session, number})
		if err != nil {
			return nil, err
		}
		if i > 0 && c.before != frames {
			return nil, fmt.Errorf("%s: %w: it has %d whole commits, and had %d when the next log was begun; %s",
				d.log(number-1), ErrDamaged, frames, c.before, advice)
		}
		frames = c.frames
		left = append(left, &closed{d.log(number), number, c.changes})
	}
	return left, nil
}

// isUnused reports whether a log holds no frame and the file does not count on it.
func isUnused(path string, n name, counts bool) (bool, error) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) > fileHeader {
		return false, err
	}
	return !counts || len(b) < fileHeader || !bytes.HasPrefix(b, n.header()), nil
}

func (d *DB) log(number uint64) string { return d.path + ".log" + strconv.FormatUint(number, 10) }

// logs are the numbers of the logs in the folder, in order.
func (d *DB) logs() (numbers []uint64, err error) {
	names, err := os.ReadDir(filepath.Dir(d.path))
	if err != nil {
		return nil, err
	}
	for _, f := range names {
		rest, ok := strings.CutPrefix(f.Name(), filepath.Base(d.path)+".log")
		if n, err := strconv.ParseUint(rest, 10, 64); ok && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// begin begins the log behind one of so many frames. It is durable when begin returns. The lock is held, or nobody else
// has the file yet.
func (d *DB) begin(before uint32) (err error) {
	if d.active, err = create(d.log(d.next), name{d.session, d.next}, before, d.o.NoSync); err == nil {
		d.next++
	}
	return err
}

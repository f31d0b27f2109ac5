package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// Scrub takes everything into the file and overwrites the pages that hold nothing any more: of what was forgotten or
// replaced before, nothing is left in the file, and its logs are gone. What a disk keeps of a file that was removed, or
// a copy of it, is not reached. After a crash in the middle the file is as it was, and to be scrubbed again.
func (d *DB) Scrub() error {
	if err := d.Flush(); err != nil {
		return err
	}
	d.applying.Lock()
	defer d.applying.Unlock()
	d.reading.Lock() // a reader may yet need a page that is free
	defer d.reading.Unlock()
	if err := d.overwriteFree(); err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	return nil
}

// overwriteFree puts zeros into each free page. Only an earlier state of the file, to which nothing goes back once a
// later one is durable, refers to them.
func (d *DB) overwriteFree() (err error) {
	tx, err := d.db.Begin(true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }() // nothing was changed in it
	f, err := os.OpenFile(d.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size := d.db.Info().PageSize
	zeros, page := make([]byte, size), make([]byte, size)
	for id := 0; ; id++ {
		info, err := tx.Page(id)
		if err != nil {
			return err
		}
		if info == nil {
			break
		}
		if info.Type != "free" {
			continue
		}
		at := int64(id) * int64(size)
		if _, err := f.ReadAt(page, at); err != nil {
			return err
		}
		if bytes.Equal(page, zeros) {
			continue
		}
		if _, err := f.WriteAt(zeros, at); err != nil {
			return err
		}
	}
	if d.o.NoSync {
		return nil
	}
	return f.Sync()
}

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/riffle-dp/riffle/internal/evaluate/fit"
	"github.com/riffle-dp/riffle/internal/journal/wal"
)

// readLedger reads a ledger that has begun.
func readLedger(path string) (*fit.Ledger, error) {
	text, err := lockedfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no ledger %s: name the one of these people, or begin it with --budget EPSILON",
			path)
	}
	if err != nil {
		return nil, err
	}
	l, whole, err := fit.DecodeLedger(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case whole == 0:
		return nil, fmt.Errorf("the ledger %s has not begun: begin it with --budget EPSILON", path)
	}
	return &l, nil
}

// chargeLedger counts a fit in the ledger's file, and returns when that is on the disk: nothing of the fit may be drawn
// before. The file is locked meanwhile, so that two fits at a time do not count as one. A new ledger begins here, with
// the first fit that is not refused.
func chargeLedger(path string, begin fit.Ledger, isNew bool, s fit.Spent, header []string) (l fit.Ledger, err error) {
	flag := os.O_RDWR
	if isNew {
		flag |= os.O_CREATE
	}
	file, err := lockedfile.OpenFile(path, flag, 0o600)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(file)
	if err != nil {
		return l, err
	}
	l, whole, err := fit.DecodeLedger(text)
	if err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	var lines []byte
	switch {
	case isNew && whole > 0:
		return l, fmt.Errorf("--budget: the ledger %s has begun, with epsilon %g at delta %g: leave --budget out", path,
			l.Epsilon, l.Delta)
	case !isNew && whole == 0:
		return l, fmt.Errorf("the ledger %s is empty now, and was not before: give it back what it had", path)
	case isNew:
		l = begin
		if lines, err = l.Head(); err != nil {
			return l, err
		}
	}
	if err := l.Knows(s.Rows, header); err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	if l, err = l.Add(s); err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	line, err := s.Line()
	if err != nil {
		return l, err
	}
	if err := file.Truncate(int64(whole)); err != nil { // what a crash left
		return l, err
	}
	if _, err := file.WriteAt(append(lines, line...), int64(whole)); err != nil {
		return l, fmt.Errorf("the fit could not be counted, and nothing was drawn: %w", err)
	}
	return l, errors.Join(file.Sync(), wal.SyncFolder(filepath.Dir(path)))
}

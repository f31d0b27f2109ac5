package simulation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/journal"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/translog"
)

// disk is what a machine keeps when its process is killed. Only what is durable is in it.
type disk struct {
	mu       sync.Mutex
	journals map[string][][]byte
	files    map[string][]byte
	store    stored // a host's
}

func newDisk() *disk {
	return &disk{journals: map[string][][]byte{}, files: map[string][]byte{}, store: newStored()}
}

// clone is a copy, as a backup makes one.
func (d *disk) clone() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &disk{journals: map[string][][]byte{}, files: maps.Clone(d.files), store: d.store.clone()}
	for name, entries := range d.journals {
		c.journals[name] = slices.Clone(entries)
	}
	return c
}

// Names in contents: of a host's store, and of the shuffler's journal.
const (
	storeFile   = "store"
	journalFile = "journal"
)

// contents hands over everything on the disk.
func (d *disk) contents(f func(where string, b []byte)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, entries := range d.journals {
		for _, e := range entries {
			f(name, e)
		}
	}
	for name, b := range d.files {
		f(name, b)
	}
	for _, b := range d.store.devices {
		f(storeFile, b)
	}
}

var (
	// errKilled is what a process hears whose end has come: nothing that it does is seen any more.
	errKilled = errors.New("simulation: the process was killed")
	// errFull is a disk without room.
	errFull = fmt.Errorf("simulation: %w", syscall.ENOSPC)
)

// ledger is a journal in memory: shuffler.Journal and translog.Journal. A write takes a turn of the schedule, so that
// other things happen between an append and the moment from which it is durable.
type ledger struct {
	i    *incarnation
	name string

	mu      sync.Mutex
	pending []*line
	syncing bool
	failed  error
	closed  bool
	idle    *sync.Cond
}

// line is one entry on its way to the disk.
type line struct {
	b    []byte
	all  [][]byte // in place of all entries before it and of b; nil: b is added
	done chan struct{}
	err  error
}

var (
	_ shuffler.Journal = (*ledger)(nil)
	_ translog.Journal = (*ledger)(nil)
)

func newLedger(i *incarnation, name string) *ledger {
	l := &ledger{i: i, name: name}
	l.idle = sync.NewCond(&l.mu)
	return l
}

func (l *ledger) entries() [][]byte {
	d := l.i.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.journals[l.name])
}

// Replay implements Journal.
func (l *ledger) Replay(f func([]byte) error) error {
	for n, e := range l.entries() {
		if err := f(e); err != nil {
			return fmt.Errorf("journal entry %d: %w", n+1, err)
		}
	}
	return nil
}

// Entry implements translog.Journal.
func (l *ledger) Entry(number uint64) ([]byte, error) {
	all := l.entries()
	if number >= uint64(len(all)) {
		return nil, fmt.Errorf("journal %s: no entry %d", l.name, number)
	}
	return bytes.Clone(all[number]), nil
}

// Replace implements shuffler.Journal.
func (l *ledger) Replace(entries ...[]byte) func() error {
	return l.add(&line{all: slices.Clone(entries), done: make(chan struct{})})
}

// Append implements Journal.
func (l *ledger) Append(b []byte) func() error {
	return l.add(&line{b: bytes.Clone(b), done: make(chan struct{})})
}

func (l *ledger) add(e *line) func() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failed != nil, l.closed:
		if e.err = l.failed; e.err == nil {
			e.err = journal.ErrClosed
		}
		close(e.done)
	default:
		l.pending = append(l.pending, e)
		if !l.syncing {
			l.syncing = true
			go l.sync()
		}
	}
	return func() error {
		<-e.done
		return e.err
	}
}

// sync writes until nothing waits.
func (l *ledger) sync() {
	for {
		l.i.w.gate.turn(l.i, l.name)
		l.mu.Lock()
		lines := l.pending
		l.pending = nil
		err := l.failed
		if err == nil {
			l.i.w.oracle.replaced(l.i, l.name, lines)
			err = l.i.persist("sync "+l.name, func(d *disk) {
				for _, e := range lines {
					if e.all != nil {
						d.journals[l.name] = e.all
						continue
					}
					d.journals[l.name] = append(d.journals[l.name], e.b)
				}
			})
			l.failed = err
			if err == nil {
				l.i.w.oracle.wrote(l.i, l.name, lines)
			}
		}
		for _, e := range lines {
			e.err = err
			close(e.done)
		}
		if len(l.pending) == 0 {
			l.syncing = false
			l.idle.Broadcast()
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// Close implements Journal.
func (l *ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.syncing {
		l.idle.Wait()
	}
	return nil
}

// folder is a channel.Disk in memory.
type folder struct{ i *incarnation }

var _ channel.Disk = folder{}

// Store implements channel.Disk.
func (f folder) Store(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return f.i.persist("store "+name, func(d *disk) { d.files[name] = b.Bytes() })
}

// Open implements channel.Disk.
func (f folder) Open(name string) (io.ReadCloser, error) {
	f.i.disk.mu.Lock()
	defer f.i.disk.mu.Unlock()
	b, ok := f.i.disk.files[name]
	if !ok {
		return nil, fmt.Errorf("simulation: %s: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// Remove implements channel.Disk.
func (f folder) Remove(name string) error {
	f.i.disk.mu.Lock()
	_, there := f.i.disk.files[name]
	f.i.disk.mu.Unlock()
	if !there {
		return nil
	}
	return f.i.persist("remove "+name, func(d *disk) { delete(d.files, name) })
}

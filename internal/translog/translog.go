// Package translog writes a role's transparency log: the role's signed statements in the audit stream, in one order
// that the role vouches for with a signed checkpoint after each (package transparency is the format).
//
// A statement is durable on the role's own disk before it is published, where the role has a state folder: a broker
// whose data was set back gets what it lacks again, byte for byte, and a role that crashed repeats what it was about to
// say. A role without a state folder takes its log from the stream.
//
// The log is one list for ever. What the stream shows under the role's signature and the role's disk must agree as far
// as both go, and with every checkpoint. Where they do not, the log has forked, and nothing more is signed: a second
// list under the same key is what the log is there to expose.
package translog

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/journal"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Broker is what a log needs of its broker. *bus.AuditStream is one, and documents the methods.
type Broker interface {
	SaidSince(ctx context.Context, role bus.Role, from uint64, handler func(bus.Statement) error) error
	AppendAuditAfter(ctx context.Context, kind string, payload []byte, last uint64) (sequence uint64, err error)
}

// Config is what a log needs.
type Config struct {
	Deployment string
	Role       bus.Role
	Identity   *seal.Identity // signs the checkpoints; its statements are the entries
	Broker     Broker
	// Path is the file that keeps the log. It belongs to one process. Empty: the stream alone keeps the log.
	Path string
	// Journal keeps the log in place of a file at Path; nil: the file does. The log closes it.
	Journal Journal
	Log     zerolog.Logger
}

// Journal keeps the entries of a log in order. *journal.Journal is one, and documents each method.
type Journal interface {
	Replay(f func(entry []byte) error) error
	Entry(number uint64) (entry []byte, err error)
	Append(entry []byte) (durable func() error)
	Close() error
}

var (
	// ErrForked: the stream shows another log under this role's signature than the role has, or a checkpoint that is
	// not of this log. Nothing was signed. Somebody must look: see the error's text.
	ErrForked = errors.New("translog: the log in the audit stream is not the one that this role wrote")

	// ErrRewound: the stream lacks entries that this role signed a checkpoint over, and the role cannot supply them.
	// Nothing was signed. Restore the broker's newer data.
	ErrRewound = errors.New("translog: the audit stream lacks entries that this role's checkpoints count")

	// ErrDisk: the log's file cannot be written or read. Stop, and start again when the disk is well: what was being
	// appended may be on it or not.
	ErrDisk = errors.New("translog: the log on the role's own disk cannot be used")

	// ErrStatement: bytes that are no statement of this role's under their kind. Nothing was stored.
	ErrStatement = errors.New("translog: not a statement of this role's")
)

// Log is a role's log. Its methods may be called from many goroutines.
type Log struct {
	c       Config
	origin  string
	own     wire.Party
	journal Journal // nil where the stream alone keeps the log

	turn   chan struct{} // holds a token while a method works on what follows
	leaves []transparency.Hash
	places map[transparency.Hash]int
	shown  view
	taken  []entry // leaves of the stream that are not in the journal yet
}

// New opens the log on disk and does not ask the broker: Sync or the first AppendAudit does.
func New(c Config) (*Log, error) {
	l := &Log{
		c: c, origin: transparency.Origin(c.Deployment, string(c.Role)),
		own:  wire.Party{Deployment: c.Deployment, Key: c.Identity.Public()},
		turn: make(chan struct{}, 1), places: map[transparency.Hash]int{},
	}
	switch {
	case c.Journal != nil:
		l.journal = c.Journal
	case c.Path == "":
		return l, nil
	default:
		file, err := journal.Open(c.Path)
		if err != nil {
			return nil, err
		}
		l.journal = file
	}
	err := l.journal.Replay(func(b []byte) error {
		e, err := decode(b)
		if err == nil && !wire.Leaf(e.kind, e.signed, l.own) {
			err = ErrStatement
		}
		if err != nil {
			return fmt.Errorf("%w: the file is damaged, or of another deployment or role: restore the state folder",
				err)
		}
		l.add(transparency.LeafHash(e.signed))
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("translog: %s: %w", c.Path, err), l.journal.Close())
	}
	return l, nil
}

// Open is New and Sync. Call Close on what it returns.
func Open(ctx context.Context, c Config) (*Log, error) {
	l, err := New(c)
	if err != nil {
		return nil, err
	}
	if err := l.Sync(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close lets go of the file.
func (l *Log) Close() error {
	if l.journal == nil {
		return nil
	}
	return l.journal.Close()
}

// Sync holds the log against the stream: it takes in what the role's disk lacks, publishes what the stream lacks, and
// signs a checkpoint where none covers the newest entry.
//
// Errors: ErrForked, ErrRewound, ErrDisk, those of SaidSince and AppendAudit of bus.AuditStream. After any but ErrDisk
// it may be called again, and begins where it must.
func (l *Log) Sync(ctx context.Context) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	if err := l.read(ctx); err != nil {
		return err
	}
	return l.publish(ctx, nil)
}

// AppendAudit appends a statement of this role to its log, and returns when the statement, everything before it and a
// checkpoint over it are in the stream. The same statement again is no second entry. kind is as in
// bus.AuditStream.AppendAudit, and must be the statement's (wire.Leaf).
//
// Errors: ErrStatement; those of Sync. After one of the broker's the statement may be in the stream or not: repeat
// it. With a path it is on disk then, and is in the log before every later one.
func (l *Log) AppendAudit(ctx context.Context, kind string, signed []byte) error {
	if !wire.Leaf(kind, signed, l.own) {
		return fmt.Errorf("%w: kind %q of the %s", ErrStatement, kind, l.c.Role)
	}
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	if err := l.read(ctx); err != nil {
		return err
	}
	e, hash := entry{kind, signed}, transparency.LeafHash(signed)
	if _, known := l.places[hash]; known {
		return l.publish(ctx, nil)
	}
	if l.journal == nil {
		return l.publish(ctx, &e)
	}
	if err := l.keep(e); err != nil {
		return err
	}
	l.add(hash)
	return l.publish(ctx, nil)
}

// Size is the number of entries that the log has, whether or not the stream shows them all.
func (l *Log) Size() uint64 {
	l.turn <- struct{}{}
	defer l.give()
	return uint64(len(l.leaves))
}

func (l *Log) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", bus.ErrUnknown, context.Cause(ctx))
	}
}

func (l *Log) give() { <-l.turn }

// add makes a leaf the log's last entry.
func (l *Log) add(leaf transparency.Hash) {
	l.places[leaf] = len(l.leaves)
	l.leaves = append(l.leaves, leaf)
}

// keep makes entries durable.
func (l *Log) keep(all ...entry) error {
	var durable func() error
	for _, e := range all {
		durable = l.journal.Append(e.encode())
	}
	if durable != nil {
		if err := durable(); err != nil {
			return fmt.Errorf("%w: %w", ErrDisk, err)
		}
	}
	return nil
}

// entry is a statement and the kind under which it is appended.
type entry struct {
	kind   string
	signed []byte
}

// encode is the entry as it is on disk: one byte for the length of the kind, the kind, the statement.
func (e entry) encode() []byte {
	return append(append([]byte{byte(len(e.kind))}, e.kind...), e.signed...)
}

func decode(b []byte) (entry, error) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return entry{}, errors.New("an entry is cut off")
	}
	n := 1 + int(b[0])
	return entry{string(b[1:n]), append([]byte(nil), b[n:]...)}, nil
}

package translog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// view is what the stream shows of the log. It is a function of what was read so far.
type view struct {
	last   uint64 // sequence of the newest entry of the role, whoever signed it; 0: none
	digest [sha256.Size]byte
	tree   transparency.Tree
	signed uint64              // size that the newest checkpoint states
	roots  []transparency.Hash // of the sizes from signed+1 to the tree's
}

// errSetBack: the stream no longer shows what it showed.
var errSetBack = errors.New("translog: the stream was set back")

// read takes in what the stream shows beyond what was read before: all of it, if the stream was set back meanwhile.
func (l *Log) read(ctx context.Context) error {
	err := l.readOn(ctx)
	if errors.Is(err, errSetBack) {
		l.c.Log.Warn().Int("entries", len(l.leaves)).
			Msg("the audit stream shows less than it did: the broker's data was set back; it is read again")
		l.reset()
		err = l.readOn(ctx)
	}
	if err != nil {
		return err // what was read before is kept, and the next call goes on after it
	}
	return l.finish()
}

// reset forgets what the stream showed.
func (l *Log) reset() {
	l.shown = view{}
	l.leaves = l.leaves[:len(l.leaves)-len(l.taken)]
	for _, e := range l.taken {
		delete(l.places, transparency.LeafHash(e.signed))
	}
	l.taken = nil
}

func (l *Log) readOn(ctx context.Context) error {
	met := l.shown.last == 0
	err := l.c.Broker.SaidSince(ctx, l.c.Role, l.shown.last, func(s bus.Statement) error {
		if met {
			return l.see(s)
		}
		if met = s.Sequence == l.shown.last && name(s) == l.shown.digest; !met {
			return errSetBack
		}
		return nil
	})
	if err == nil && !met {
		return errSetBack
	}
	return err
}

// name is what tells an entry of the stream from all others of the role.
func name(s bus.Statement) [sha256.Size]byte {
	return sha256.Sum256(entry{s.Kind, s.Payload}.encode())
}

// see takes in the next entry of the stream. What the role did not sign, or did not append, is skipped.
func (l *Log) see(s bus.Statement) error {
	if err := l.judge(s); err != nil {
		return err
	}
	l.shown.last, l.shown.digest = s.Sequence, name(s)
	return nil
}

func (l *Log) judge(s bus.Statement) error {
	switch {
	case s.Misnamed:
		return nil // the role did not append it, but may have signed it: it is where it was appended, too
	case s.Kind == wire.KindCheckpoint:
		c, err := transparency.Open(s.Payload, l.origin, l.own.Key)
		if err != nil {
			return nil // not the role's
		}
		return l.checkpoint(c, s.Sequence)
	case wire.Leaf(s.Kind, s.Payload, l.own):
		return l.leaf(entry{s.Kind, s.Payload}, s.Sequence)
	}
	return nil
}

// leaf takes in a statement: the one that the log has there, or a new one behind the log's end.
func (l *Log) leaf(e entry, sequence uint64) error {
	hash, place := transparency.LeafHash(e.signed), int(l.shown.tree.Size())
	known, there := l.places[hash]
	switch {
	case there && known < place:
		return fmt.Errorf("%w: entry %d is there a second time (sequence %d): the broker's data was tampered "+
			"with; restore it from a good copy", ErrForked, known, sequence)
	case place < len(l.leaves) && l.leaves[place] != hash:
		return fmt.Errorf("%w: at the place of entry %d the stream has another statement, of the kind %s (sequence "+
			"%d). Two processes ran with this role's key, or the broker's data or the state folder were changed. "+
			"Stop the other process, and restore the broker's data and the state folder that belong "+
			"together", ErrForked, place,
			e.kind,
			sequence)
	case place == len(l.leaves):
		l.add(hash)
		if l.journal != nil {
			l.taken = append(l.taken, e)
		}
	}
	l.shown.tree.AppendHash(hash)
	l.shown.roots = append(l.shown.roots, l.shown.tree.Root())
	return nil
}

// checkpoint holds a checkpoint of the role's against the entries before it.
func (l *Log) checkpoint(c transparency.Checkpoint, sequence uint64) error {
	v := &l.shown
	switch {
	case c.Size > v.tree.Size():
		return fmt.Errorf("%w: the checkpoint at sequence %d counts %d entries, and there are %d before it: "+
			"restore the broker's newer data", ErrRewound, sequence, c.Size, v.tree.Size())
	case c.Size <= v.signed, v.roots[c.Size-v.signed-1] != c.Root:
		return fmt.Errorf("%w: the checkpoint of %d entries at sequence %d does not extend the one of %d before it, "+
			"or is of other entries. Two processes ran with this role's key, or the broker's data were changed. Stop "+
			"the other process, and restore the broker's data", ErrForked, c.Size, sequence, v.signed)
	}
	v.roots = v.roots[c.Size-v.signed:]
	v.signed = c.Size
	if len(l.taken) < flushAt {
		return nil
	}
	return l.flush()
}

// flushAt is how many entries are taken in from the stream before they are made durable together: one at a time, a log
// of thousands would take as many writes and lines of the role's own log.
const flushAt = 256

// flush makes durable what was taken in from the stream.
func (l *Log) flush() error {
	if len(l.taken) == 0 {
		return nil
	}
	if err := l.keep(l.taken...); err != nil {
		return err
	}
	l.c.Log.Warn().Int("entries", len(l.taken)).
		Msg("entries of the transparency log that the state folder lacks are taken from the audit stream")
	l.taken = nil
	return nil
}

// finish ends a reading of all that there is.
func (l *Log) finish() error {
	if there := int(l.shown.tree.Size()); l.journal == nil && there < len(l.leaves) {
		return fmt.Errorf("%w: it shows %d, and this process has logged %d: restore the broker's newer data",
			ErrRewound, there, len(l.leaves))
	}
	return l.flush()
}

// publish has the stream show the whole log, then next, if it is not nil, and a checkpoint after each entry. Each is
// stored only behind the newest entry that is known here, so that nobody's entry comes in between unseen.
func (l *Log) publish(ctx context.Context, next *entry) error {
	for {
		e, err := l.due(next)
		if err != nil || e == nil {
			return err
		}
		before := l.shown.last
		sequence, err := l.c.Broker.AppendAuditAfter(ctx, e.kind, e.signed, before)
		switch {
		case err == nil:
			err = l.see(bus.Statement{Role: l.c.Role, Kind: e.kind, Sequence: sequence, Payload: e.signed})
		case errors.Is(err, bus.ErrMoved):
			if err = l.read(ctx); err == nil && l.shown.last == before {
				err = fmt.Errorf("%w: it does not take an entry of the kind %s, as if something else were under its "+
					"name: the role's broker credential was stolen, or the broker's data were "+
					"changed", ErrForked, e.kind)
			}
		}
		if err != nil {
			return err
		}
		if err := l.flush(); err != nil {
			return err
		}
	}
}

// due is what the stream must show next; nil where it shows all.
func (l *Log) due(next *entry) (*entry, error) {
	v := &l.shown
	if size := v.tree.Size(); size > v.signed {
		signed, err := transparency.Sign(transparency.Checkpoint{Origin: l.origin, Size: size, Root: v.tree.Root()},
			l.c.Identity)
		return &entry{wire.KindCheckpoint, signed}, err
	} else if size < uint64(len(l.leaves)) {
		b, err := l.journal.Entry(size)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDisk, err)
		}
		e, err := decode(b)
		return &e, err
	}
	if next != nil {
		if _, there := l.places[transparency.LeafHash(next.signed)]; !there {
			return next, nil
		}
	}
	return nil, nil
}

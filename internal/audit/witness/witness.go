// Package witness co-signs the checkpoints of transparency logs: it says of each that it extends all that the witness
// saw before. A role that shows its log differently to two people, or takes something back, needs the signatures of all
// witnesses for both, and no honest witness gives them.
package witness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
)

// ErrRefused: what is shown contradicts what the witness saw, or is not whole. Nothing was signed. The text names the
// two checkpoints.
var ErrRefused = errors.New("witness: refused")

// Witness looks at logs and co-signs.
type Witness struct {
	Name  string // transparency.CheckName
	Key   *seal.Identity
	State channel.Disk // what the witness saw last, durable before it signs; it belongs to one witness
	Out   string       // folder of the co-signed checkpoints
}

// Log is one role's log and whose it is.
type Log struct {
	Deployment string
	Role       bus.Role
	Key        []byte // Ed25519 public key of the role
}

// Seen is what a look came to.
type Seen struct {
	Size   uint64 // entries of the log
	Before uint64 // entries when the witness last looked; 0: there was no earlier look
	First  bool   // the witness remembers nothing of this log: it vouches for what comes, not for what was
	Empty  bool   // there is no checkpoint yet, and nothing was signed
}

// Look reads a role's log from a source, and co-signs its newest checkpoint if it extends the one that the witness saw
// before: the file <role>.<name>.checkpoint in Out then holds it, with the time at. What was seen is durable before.
//
// Errors: ErrRefused; transparency.ErrUnsigned and ErrCheckpoint for a checkpoint that is not the role's; those of the
// source and the disk. Nothing was signed after any of them, but for a disk that failed last.
func (w *Witness) Look(ctx context.Context, src audit.Source, log Log, at time.Time) (*Seen, error) {
	origin := transparency.Origin(log.Deployment, string(log.Role))
	before, known, err := w.recall(log, origin)
	if err != nil {
		return nil, err
	}
	signed, err := src.Checkpoint(ctx, log.Role)
	if err != nil {
		return nil, err
	}
	if signed == nil {
		if known {
			return nil, fmt.Errorf("%w: the log of the %s shows no checkpoint any more, and this witness saw %s: it "+
				"was rewound", ErrRefused, log.Role, describe(before))
		}
		return &Seen{Empty: true, First: true}, nil
	}
	c, err := transparency.Open(signed, origin, log.Key)
	if err != nil {
		return nil, fmt.Errorf("witness: the checkpoint of the %s: %w", log.Role, err)
	}
	if err := w.extends(ctx, src, log.Role, before, c); err != nil {
		return nil, err
	}
	if err := channel.StoreFile(w.State, stateFile(log.Role), signed); err != nil {
		return nil, err
	}
	cosigned, err := transparency.Cosign(signed, w.Name, w.Key, at)
	if err != nil {
		return nil, err
	}
	if err := w.publish(log.Role, cosigned); err != nil {
		return nil, err
	}
	return &Seen{Size: c.Size, Before: before.Size, First: !known}, nil
}

// extends checks that the leaves which are shown are those that c is of, and begin with those that before is of. A
// checkpoint of no leaves is what a witness that saw nothing goes by.
func (w *Witness) extends(
	ctx context.Context, src audit.Source, role bus.Role, before, c transparency.Checkpoint,
) error {
	refused := func(why string) error {
		return fmt.Errorf("%w: the log of the %s shows %s, and this witness saw %s: %s", ErrRefused, role, describe(c),
			describe(before), why)
	}
	switch {
	case c.Size < before.Size:
		return refused("it was rewound, or this is an older copy of it")
	case c.Size == before.Size && c.Root != before.Root:
		return refused("two logs of one length under one key")
	}
	var tree transparency.Tree
	rootBefore := tree.Root()
	err := src.Log(ctx, role, func(e audit.Entry) error {
		if tree.Size() == c.Size {
			return errEnough
		}
		tree.Append(e.Signed)
		if tree.Size() == before.Size {
			rootBefore = tree.Root()
		}
		if tree.Size() == c.Size { // what comes behind is not vouched for, and not read
			return errEnough
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return err
	case tree.Size() < c.Size:
		return fmt.Errorf("%w: the log of the %s shows %s, and only %d entries: the others were taken out, or are "+
			"not in this copy", ErrRefused, role, describe(c), tree.Size())
	case tree.Root() != c.Root:
		return fmt.Errorf("%w: the entries that the log of the %s shows are not those of its checkpoint %s: their "+
			"root is %x", ErrRefused, role, describe(c), tree.Root())
	case rootBefore != before.Root:
		return refused("the second does not begin with the entries of the first, so there are two logs under one key")
	}
	return nil
}

// errEnough ends a reading.
var errEnough = errors.New("enough")

// describe names a checkpoint.
func describe(c transparency.Checkpoint) string {
	return fmt.Sprintf("the checkpoint of %d entries with the root %x", c.Size, c.Root)
}

// recall is the checkpoint that the witness saw last, with the larger of those that its state and its own signature
// in Out tell of; where there is none, known is false and the checkpoint is that of a log without entries.
func (w *Witness) recall(log Log, origin string) (c transparency.Checkpoint, known bool, err error) {
	c.Root = transparency.EmptyRoot()
	note, err := channel.ReadFile(w.State, stateFile(log.Role))
	if err != nil {
		return c, false, err
	}
	if note != nil {
		if c, err = transparency.Open(note, origin, log.Key); err != nil {
			return c, false, fmt.Errorf("witness: the state folder is damaged, or of another deployment: restore it, "+
				"or give this deployment one of its own: %w", err)
		}
		known = true
	}
	published, err := os.ReadFile(filepath.Clean(w.path(log.Role)))
	if errors.Is(err, os.ErrNotExist) {
		return c, known, nil
	}
	if err != nil {
		return c, false, err
	}
	own, _, err := transparency.OpenCosigned(published, origin, log.Key, w.Name, w.Key.Public())
	if err == nil && (!known || own.Size > c.Size) { // what does not open is not this witness's word
		return own, true, nil
	}
	return c, known, nil
}

// publish puts a co-signed checkpoint into Out, whole, for everybody to read.
func (w *Witness) publish(role bus.Role, cosigned []byte) error {
	if err := channel.StoreFile(channel.Folder(w.Out), filepath.Base(w.path(role)), cosigned); err != nil {
		return err
	}
	return os.Chmod(w.path(role), 0o644)
}

func (w *Witness) path(role bus.Role) string {
	return filepath.Join(w.Out, string(role)+"."+w.Name+".checkpoint")
}

func stateFile(role bus.Role) string { return string(role) + ".checkpoint" }

package witness

import (
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrNoAnnouncement means that no epoch began in the part of a log that a checkpoint is of.
var ErrNoAnnouncement = errors.New("witness: the log has no announcement of a cohort")

// Prove makes what a device begins with that comes late (device.Device.Begin): the latest announcement of an epoch's
// first round in the analyzer's log, and the proof that it is there, under the checkpoint that the witnesses co-signed.
// Several co-signed checkpoints of one size become one. It verifies no cosignature: devices do.
//
// Errors: ErrNoAnnouncement; ErrRefused where the source's entries are not the checkpoint's; transparency.ErrCheckpoint
// and ErrUnsigned; the source's.
func Prove(ctx context.Context, src audit.Source, log Log, cosigned ...[]byte) (proof, announcement []byte, err error) {
	merged, err := transparency.Merge(cosigned...)
	if err != nil {
		return nil, nil, err
	}
	c, err := transparency.Open(merged, transparency.Origin(log.Deployment, string(log.Role)), log.Key)
	if err != nil {
		return nil, nil, err
	}
	var tree transparency.Tree
	var leaves []transparency.Hash
	p := transparency.Proof{Checkpoint: merged}
	err = src.Log(ctx, log.Role, func(e audit.Entry) error {
		if tree.Size() == c.Size {
			return errEnough
		}
		a, _, err := wire.Open[plan.Announcement](e.Signed, wire.Party{Deployment: log.Deployment, Key: log.Key})
		if err == nil && a.Round == 0 && !a.Final {
			p.Index, announcement = tree.Size(), e.Signed
		}
		tree.Append(e.Signed)
		leaves = append(leaves, transparency.LeafHash(e.Signed))
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return nil, nil, err
	case tree.Size() < c.Size || tree.Root() != c.Root:
		return nil, nil, fmt.Errorf("%w: the entries that are shown, %d of them, are not those of %s", ErrRefused,
			tree.Size(), describe(c))
	case announcement == nil:
		return nil, nil, ErrNoAnnouncement
	}
	if p.Hashes, err = transparency.Prove(leaves, p.Index, c.Size); err != nil {
		return nil, nil, err
	}
	return p.Encode(), announcement, nil
}

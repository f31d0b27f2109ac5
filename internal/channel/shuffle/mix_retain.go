package shuffle

import (
	"context"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Retention has a copy of every chunk that leaves kept for an auditor: sealed to the auditor's key, under the chunk's
// place in the round, for a window that the broker ends. What is kept is what left, in the order in which it left, so
// it says no more about anyone than the chunk itself. It adds no reader but the auditor, who cannot open the messages
// in it.
//
// It makes one promise weaker: without it, whoever gets at the analyzer's key later finds no messages. It is therefore
// off unless a deployment asks for it.
type Retention struct {
	Deployment string
	Auditor    []byte        // HPKE public key
	Window     time.Duration // bus.MinRetain to bus.MaxRetain
	Store      RetainedStore
}

// RetainedStore keeps sealed chunks. *bus.RetainedStream is one.
type RetainedStore interface {
	// PublishRetained returns once the broker has stored the chunk for that window. Where one is stored in its place,
	// that one is kept.
	PublishRetained(ctx context.Context, epoch uint64, round, index uint32, sealed []byte, window time.Duration) error
}

// Retainable reports whether what is forwarded of a channel may be retained. An envelope of central holds a person's
// plain values for the analyzer: to keep it is to keep records. In shares nothing is forwarded from which anything
// could be counted again, and what is says who took part.
func Retainable(c plan.Channel) bool { return c == plan.Shuffle || c == plan.Local }

// keep returns once the broker has a copy of a chunk of the release. It can be repeated: the first copy is kept.
func (k *Retention) keep(ctx context.Context, r *channel.Release, index uint32, chunk []byte) error {
	sealed, err := seal.SealRetained(k.Auditor, seal.RetainedContext{
		Deployment: k.Deployment, Epoch: r.Epoch, Round: r.Round, Index: index, Announcement: r.Announcement,
	}, chunk)
	if err != nil {
		return err
	}
	if err := k.Store.PublishRetained(ctx, r.Epoch, r.Round, index, sealed, k.Window); err != nil {
		return fmt.Errorf("chunk %d was forwarded and cannot be retained: %w", index, err)
	}
	return nil
}

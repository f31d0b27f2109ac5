package shares

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/worker"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Rejected is why nothing of a round is counted whose announcement, manifest and chunks do not fit together.
const Rejected outcome.Reason = "rejected"

// CountReasons lists why a report may not be counted: every refusal of the wire, which are the reasons of verdicts, and
// Rejected.
func CountReasons() []outcome.Reason {
	all := []outcome.Reason{Rejected}
	for _, r := range wire.Refusals() {
		all = append(all, reason(r))
	}
	return all
}

// Counting is the analyzer's side.
type Counting struct {
	Deployment   string
	Identity     *seal.Identity // signs the set that is accepted
	Verifier     *devices.Verifier
	Participants *channel.Participants
	SponsorShare float64 // largest share of a cohort's slots that one sponsor's accepted reports may take; 0: 1, all
	Broker       CountingBroker
	Disk         channel.Disk
	Source       protocol.Source // of the analyzer's noise: a CSPRNG
	Pool         worker.Pool     // verifies prepare messages (VerifyHandler); nil: this process does
	Clock        role.Clock
	Log          zerolog.Logger
	Messages     *outcome.Outcomes // account of reports, made with CountReasons; nil: none is kept

	perChunk int                      // prepare messages of one chunk, the same on both sides; 0: maxMessages
	current  atomic.Pointer[counting] // the round that Count works on; nil between rounds
}

// CountingBroker is what the analyzer does at its broker. The handles of package bus document the methods.
type CountingBroker interface {
	ReadChunks(ctx context.Context, epoch uint64, round uint32, handler func(index uint32, payload []byte) error) error
	PurgeMixed(ctx context.Context, epoch uint64, round uint32) error
	PublishPrepared(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error
	PurgePrepared(ctx context.Context, epoch uint64, round uint32) error
	AppendAudit(ctx context.Context, kind string, payload []byte) error
}

// Take verifies the reports of a chunk, on all processors or by workers, and answers it, if it is the round's next. It
// returns when the answer is stored.
func (c *Counting) Take(p channel.Part) {
	if r := c.current.Load(); r != nil && r.Epoch == p.Epoch && r.Announcement.Round == p.Round {
		r.take(p.Payload)
		r.tell()
	}
}

// Taken counts the reports that were answered.
func (c *Counting) Taken() int {
	if r := c.current.Load(); r != nil {
		return int(r.taken.Load())
	}
	return 0
}

// Count answers the shuffler until all reports of the round are verified, signs the set of those that it accepts, and
// joins the two shares of their sum when the shuffler's has come. If the round cannot be accepted it signs an empty
// set, so that the shuffler need not wait, and returns why when the shuffler has ended the round.
func (c *Counting) Count(
	ctx context.Context, of *channel.Round, manifest channel.Manifest,
) ([]wire.ReleaseCounts, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, err := c.newCounting(ctx, of)
	if err != nil {
		cancel()
		return nil, err
	}
	c.current.Store(r)
	type end struct {
		*wire.Manifest
		error
	}
	ended, gone := make(chan end, 1), make(chan struct{})
	go func() {
		defer close(gone)
		m, err := manifest(ctx)
		ended <- end{m, err}
	}()
	defer func() {
		c.current.Store(nil)
		cancel()
		<-gone           // nothing of this round goes on after Count returned,
		r.working.Lock() // nor does a chunk that Take works on
		defer r.working.Unlock()
	}()
	var m *wire.Manifest
	for read := true; ; {
		if read {
			if err := c.Broker.ReadChunks(ctx, r.Epoch, r.Announcement.Round, func(_ uint32, payload []byte) error {
				r.take(payload)
				return r.failure()
			}); err != nil {
				return nil, err
			}
		}
		done, refused, err := r.signSet()
		switch {
		case err != nil:
			return nil, err
		case m != nil && refused != nil:
			return nil, refused
		case m != nil && done:
			return c.join(r, m)
		case m != nil && read: // everything was read after the manifest had come
			return nil, fmt.Errorf("%w: the manifest is out, and chunks of the round are not in the stream", Rejected)
		}
		read = false
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case end := <-ended:
			if end.error != nil {
				return nil, end.error
			}
			m, read = end.Manifest, r.lacks()
		case <-r.arrived:
			read = r.missed.Swap(false)
		case <-c.Clock.After(quietTime):
			read = r.lacks()
		}
	}
}

// quietTime is how long no chunk may come before those that are stored are read: it is for chunks whose delivery was
// lost, and reading all takes a while.
const quietTime = 30 * time.Second

// Forget drops the round's chunks and answers from the broker, and its journal. What remains is who took part, and the
// commitment to the epoch's secret.
func (c *Counting) Forget(ctx context.Context, epoch uint64, round uint32) error {
	if err := c.Broker.PurgeMixed(ctx, epoch, round); err != nil {
		return err
	}
	if err := c.Broker.PurgePrepared(ctx, epoch, round); err != nil {
		return err
	}
	head, err := c.readHeader(epoch, round)
	if err != nil {
		return err
	}
	var files []string
	for i := uint32(1); head != nil && i <= head.chunks; i++ {
		files = append(files, answerName(epoch, round, i))
	}
	for _, what := range []string{"statement", "counts", "taken"} { // the last one tells how many answers there are
		files = append(files, name(what, epoch, round))
	}
	for _, file := range files {
		if err := c.Disk.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// join adds the shuffler's share of the sum, once: the noised counts are durable before anyone sees them.
func (c *Counting) join(r *counting, m *wire.Manifest) ([]wire.ReleaseCounts, error) {
	r.working.Lock()
	defer r.working.Unlock()
	reject := func(why outcome.Reason, format string, v ...any) error {
		err := fmt.Errorf("%w: %s", why, fmt.Sprintf(format, v...))
		c.Messages.Received(len(r.nonces))
		c.Messages.Refused(err, len(r.nonces))
		return err
	}
	if r.sum == nil {
		return nil, reject(Rejected, "the shuffler's share of the sum is not in the stream")
	}
	all := wire.ChunksDigest(append(slices.Clone(r.digests), r.sumDigest))
	switch {
	case !bytes.Equal(m.Announcement, r.Digest[:]):
		return nil, reject(Rejected, "the shuffler admitted reports for another announcement, %x", m.Announcement[:8])
	case r.set.Reports < r.Cohort.Minimum:
		return nil, reject(Rejected, "the shuffler released, and only %d reports are accepted, below the minimum of %d",
			r.set.Reports, r.Cohort.Minimum)
	case r.sum.set != r.set:
		return nil, reject(reason(wire.RefusalSecondSet), "the shuffler's sum is of another set of %d reports than "+
			"the %d that were accepted", r.sum.set.Reports, r.set.Reports)
	case m.Reports != r.set.Reports || m.Messages != uint64(r.set.Reports) || m.NoiseMessages != 0:
		return nil, reject(Rejected, "the manifest says %d messages of %d reports, %d were accepted",
			m.Messages, m.Reports, r.set.Reports)
	case m.Chunks != r.header.chunks+2 || !bytes.Equal(m.ChunksDigest, all[:]):
		return nil, reject(Rejected, "the chunks are not those of the manifest")
	}
	// It is for whoever reads the audit log and sees no prepare message.
	if root := transparency.SortedRoot(r.messages); !bytes.Equal(m.MessagesRoot, root[:]) {
		return nil, reject(Rejected, "the manifest's root is not that of the prepare messages of the accepted reports")
	}
	counts, err := c.counts(r, all)
	if errors.Is(err, shares.ErrSum) || errors.Is(err, wire.ErrShare) || errors.Is(err, wire.ErrSize) {
		return nil, reject(Rejected, "%v", err)
	} else if err != nil {
		return nil, err
	}
	c.Messages.Received(len(r.nonces))
	c.Messages.Released(len(r.nonces))
	return counts, nil
}

// errOther says that the journal and the broker do not fit.
var errOther = errors.New("channel: the analyzer's state folder and the broker hold different rounds: " +
	"bring back the newest state folder")

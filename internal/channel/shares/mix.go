// Package shares is the servers' two sides of the channel of secret shares: a report holds one share of its values for
// the shuffler and one, sealed, for the analyzer. Each server verifies and adds its shares, and the analyzer joins the
// two sums. Package channel states what each side guarantees, and pkg/channel/shares what a device sends and what the
// cryptography promises.
//
// The guarantee to people rests on one of the two servers following the protocol:
//   - The analyzer verifies by itself who takes part: devices that the registrar admitted, each in one epoch only, none
//     twice, no host with more than its part, and no fewer than the announced minimum. So a shuffler that lies can
//     neither multiply a person nor fill a cohort with its own inventions.
//   - The shuffler lets its share of the sum out once, with its own noise, over a set of at least the minimum that the
//     analyzer signed before. So an analyzer that lies gets one noised sum and nothing else.
//
// The sum is right only if both follow the protocol: each can shift it at will.
//
// # The exchange
//
// The shuffler sends a header, then chunks of prepare messages (what one report's share says of the proof of its
// range); the analyzer answers each chunk with a verdict for each prepare message and the two preparation shares
// combined, and keeps its own preparation shares. Then it signs the set that it accepted. The shuffler, which followed
// the verdicts and computed the same set, sends its noised share of the sum, and the manifest. Prepare messages are
// in the order of the digests of the sealed reports' contents: it says nothing of time, every attempt repeats it, and
// no report is read twice for it.
package shares

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ahead is how many chunks of prepare messages may wait for the analyzer's answers: it bounds memory, whatever the
// cohort's size.
const ahead = 4

// Mixing is the shuffler's side.
type Mixing struct {
	Deployment string
	Reports    channel.Reports // called from many goroutines at a time
	Broker     MixingBroker
	Disk       channel.Disk
	Source     protocol.Source // of the shuffler's noise: a CSPRNG
	Identity   *seal.Identity  // every verification key follows from it
	Analyzer   []byte          // Ed25519 public key that signs sets
	Pool       worker.Pool     // prepares reports (PrepareHandler); nil: this process does
	Log        zerolog.Logger
	// Silent hears that the analyzer has left the shuffler without the answer that it waits for longer than Patience,
	// and hears nil when the answer came or is waited for no longer. It is called by one goroutine at a time. May be
	// nil.
	Silent func(error)

	perChunk int           // prepare messages of one chunk, the same on both sides; 0: maxMessages
	patience time.Duration // 0: Patience
}

// Patience is how long the shuffler waits for one answer of the analyzer before it says so. It goes on waiting: only
// the analyzer can tell how the round ends.
const Patience = 10 * time.Second

// MixingBroker is what the shuffler does at its broker. The handles of package bus document the methods.
type MixingBroker interface {
	PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error
	ReadPrepared(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error)
	PreparedNews(epoch uint64, round uint32) (news <-chan struct{}, stop func(), err error)
	Audited(ctx context.Context, role bus.Role, kind string, payload []byte) (bool, error)
	Said(ctx context.Context, role bus.Role, kind string, handler func(payload []byte) error) error
	AppendAudit(ctx context.Context, kind string, payload []byte) error
}

// Layout is one message of a fixed length for each report.
func (*Mixing) Layout(a *plan.Announcement) (channel.Layout, error) {
	round, err := shares.NewRound(a, [32]byte{})
	if err != nil {
		return channel.Layout{}, err
	}
	return channel.Layout{Messages: 1, Channel: plan.Shares, Payload: round.PayloadSize()}, nil
}

// Commitment binds reports to the epoch's verification keys.
func (m *Mixing) Commitment(first [32]byte) []byte {
	return shares.NewSecret(m.Identity, first).Commitment()
}

// Parse is wire.ParseReport. Whether the shares are good shows in the exchange.
func (*Mixing) Parse(report []byte, l channel.Layout) (*wire.Report, [32]byte, error) {
	return wire.ParseReport(report, l.Size())
}

// Take keeps nothing: what the exchange needs of a report is read when it begins.
func (*Mixing) Take(uint64, uint32, channel.Member, []byte) error { return nil }

// Repeated finds nothing: the analyzer refuses every second report of a device and every second use of a nonce, and a
// copy of a report does not verify under another sender's proof.
func (*Mixing) Repeated(context.Context, *channel.Release) ([]uint32, error) { return nil, nil }

// Release prepares the reports together with the analyzer, and sends the shuffler's share of their sum.
func (m *Mixing) Release(ctx context.Context, r *channel.Release, manifest *wire.Manifest) ([]channel.Rejected, error) {
	kept, err := m.readResult(r)
	if err != nil {
		return nil, err
	}
	if err := m.checkNoOther(ctx, r, kept); err != nil {
		return nil, err
	}
	if kept == nil {
		if kept, err = m.prepare(ctx, r); err != nil {
			return nil, err
		}
		b, err := json.Marshal(kept)
		if err != nil {
			return nil, err
		}
		if err := channel.StoreFile(m.Disk, name("sum", r.Epoch, r.Round), b); err != nil {
			return nil, err
		}
	}
	// From here on this is what leaves, whatever the analyzer says.
	if err := m.say(ctx, r, kept); err != nil {
		return nil, err
	}
	if err := m.publish(ctx, r, kept.Chunks-1, kept.Sum); err != nil {
		return nil, err
	}
	manifest.Messages, manifest.Chunks, manifest.ChunksDigest = uint64(kept.Reports), kept.Chunks, kept.Digest
	manifest.MessagesRoot = kept.Root
	return kept.Rejected, nil
}

// Forget removes what was stored for the round.
func (m *Mixing) Forget(epoch uint64, round uint32) error {
	return cmp.Or(m.Disk.Remove(name("header", epoch, round)), m.Disk.Remove(name("sum", epoch, round)))
}

// result is what is durable of a release before the shuffler's share of the sum leaves.
type result struct {
	Announcement []byte `json:"announcement"` // digest
	Reports      uint32 `json:"reports"`      // that were accepted
	Chunks       uint32 `json:"chunks"`       // all, with header and sum
	Digest       []byte `json:"digest"`       // of all chunks
	// Root is the manifest's messages_root: over the prepare messages of the accepted reports.
	Root     []byte             `json:"root"`
	Rejected []channel.Rejected `json:"rejected,omitempty"`
	Sum      []byte             `json:"sum"` // the last chunk
}

// readResult reads the release's result; nil if there is none.
func (m *Mixing) readResult(r *channel.Release) (*result, error) {
	b, err := channel.ReadFile(m.Disk, name("sum", r.Epoch, r.Round))
	if b == nil || err != nil {
		return nil, err
	}
	kept := new(result)
	if err := json.Unmarshal(b, kept); err != nil || kept.Chunks < 3 || len(kept.Root) != sha256.Size {
		return nil, fmt.Errorf("channel: %s is damaged: restore the state folder", name("sum", r.Epoch, r.Round))
	}
	if !bytes.Equal(kept.Announcement, r.Announcement[:]) {
		return nil, errLeft("a sum of another announcement's reports left before")
	}
	return kept, nil
}

// impossible is an error after which nothing of the release leaves.
func impossible(why wire.Refusal, format string, v ...any) error {
	return fmt.Errorf("%w: %w: %s", channel.ErrImpossible, reason(why), fmt.Sprintf(format, v...))
}

// errLeft is an error after which nothing of the release leaves, and something may have.
func errLeft(format string, v ...any) error {
	return fmt.Errorf("%w: %w: %s", channel.ErrLeft, reason(wire.RefusalSecondSet), fmt.Sprintf(format, v...))
}

// publish sends a chunk. Another one under its index left before: nothing of this release may follow it.
func (m *Mixing) publish(ctx context.Context, r *channel.Release, index uint32, chunk []byte) error {
	err := m.Broker.PublishChunk(ctx, r.Epoch, r.Round, index, chunk)
	if errors.Is(err, bus.ErrExists) {
		return errLeft("another chunk %d of this round left before: the state folder is "+
			"older than what this shuffler has sent; restored from a backup?", index)
	}
	return err
}

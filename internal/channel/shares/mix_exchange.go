package shares

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// exchange is the preparation of one release.
type exchange struct {
	*Mixing
	r         *channel.Release
	round     *shares.Round
	secret    shares.Secret
	members   []channel.Member // in the order of the prepare messages
	batchSize int              // members of one chunk
	chunks    uint32           // of prepare messages
	leaders   []*leader        // two for each processor
	news      <-chan struct{}

	digests  [][32]byte // of the chunks that were sent
	rejected []channel.Rejected
	nonces   []nonce    // of the reports that both servers accept
	accepted [][32]byte // digests of their prepare messages
}

// prepare goes through the exchange with the analyzer up to the shuffler's noised share of the sum.
func (m *Mixing) prepare(ctx context.Context, r *channel.Release) (*result, error) {
	if r.Announced == nil || r.Layout.Of() != plan.Shares {
		return nil, errors.New("channel: shares release without an announcement of its channel")
	}
	round, err := shares.NewRound(r.Announced, r.Announcement)
	if err != nil {
		return nil, impossible(wire.RefusalWeakPlan, "%v", err)
	}
	secret := shares.NewSecret(m.Identity, r.First)
	x := &exchange{
		Mixing: m, r: r, round: round, secret: secret, members: slices.Clone(r.Members),
		batchSize: messagesPerChunk(round.PrepareMessageSize(), m.perChunk),
	}
	slices.SortFunc(x.members, func(a, b channel.Member) int { return bytes.Compare(a.Digest[:], b.Digest[:]) })
	x.chunks = uint32((len(x.members) + x.batchSize - 1) / x.batchSize)
	for range 2 * runtime.GOMAXPROCS(0) { // while one waits for a report, another one works
		l, err := newLeader(round, secret)
		if err != nil {
			return nil, impossible(wire.RefusalWeakPlan, "%v", err)
		}
		x.leaders = append(x.leaders, l)
	}
	news, stop, err := m.Broker.PreparedNews(r.Epoch, r.Round)
	if err != nil {
		return nil, err
	}
	defer stop()
	x.news = news
	if err := x.sendHeader(ctx, secret); err != nil {
		return nil, err
	}
	if err := x.run(ctx); err != nil {
		return nil, err
	}
	accepted, err := x.awaitSet(ctx)
	if err != nil {
		return nil, err
	}
	return x.result(accepted)
}

// sendHeader sends the secret of the verification keys. Sealing is random, so what was sealed is kept.
func (x *exchange) sendHeader(ctx context.Context, secret shares.Secret) error {
	file := name("header", x.r.Epoch, x.r.Round)
	payload, err := channel.ReadFile(x.Disk, file)
	if err != nil {
		return err
	}
	if payload == nil {
		sealer, err := seal.NewEnvelopeSealer(x.r.Announced.AnalyzerKey, seal.SecretEnvelope, x.r.Announcement)
		if err != nil {
			return impossible(wire.RefusalWeakPlan, "the analyzer's announced key: %v", err)
		}
		sealed, err := sealer.AppendSeal(nil, secret.Bytes(), nil)
		if err != nil {
			return err
		}
		payload = header{x.chunks, uint32(len(x.members)), sealed}.encode()
		if err := channel.StoreFile(x.Disk, file, payload); err != nil {
			return err
		}
	}
	return x.send(ctx, 0, payload)
}

// send sends the next chunk.
func (x *exchange) send(ctx context.Context, index uint32, payload []byte) error {
	chunk, err := x.chunk(index, payload)
	if err != nil {
		return err
	}
	return x.publish(ctx, x.r, index, chunk)
}

// chunk encodes the next chunk and notes its digest.
func (x *exchange) chunk(index uint32, payload []byte) ([]byte, error) {
	chunk, err := wire.BuildChunk(wire.Chunk{Epoch: x.r.Epoch, Round: x.r.Round, Index: index, Payload: payload})
	if err != nil {
		return nil, err
	}
	x.digests = append(x.digests, wire.ChunkDigest(chunk))
	return chunk, nil
}

// run sends all prepare messages and takes all answers, a few chunks ahead of them.
func (x *exchange) run(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	waiting := make(chan *batch, ahead)
	both.Go(func() error {
		defer close(waiting)
		window := windowOf(x.batchSize, x.round.PayloadSize())
		var payloads [][]byte // of a window's members, from the first one of the next chunk on
		for i := range x.chunks {
			at := int(i) * x.batchSize
			b := &batch{index: i + 1, members: x.members[at:min(at+x.batchSize, len(x.members))]}
			if len(payloads) == 0 {
				var err error
				if payloads, err = x.gather(ctx, x.members[at:min(at+window, len(x.members))]); err != nil {
					return err
				}
			}
			b.payloads, payloads = payloads[:len(b.members)], payloads[len(b.members):]
			if err := x.make(ctx, b); err != nil {
				return err
			}
			if err := x.send(ctx, b.index, b.payload()); err != nil {
				return err
			}
			b.messages = nil
			select {
			case waiting <- b:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	both.Go(func() error {
		for b := range waiting {
			answer, err := x.await(ctx, b.index)
			if err != nil {
				return err
			}
			if err := x.take(b, answer); err != nil {
				return err
			}
		}
		return nil
	})
	return both.Wait()
}

// awaitSet waits for the analyzer's statement, and checks that it is about the set that the shuffler computed. Nothing
// but preparation shares has left up to here.
func (x *exchange) awaitSet(ctx context.Context) (set, error) {
	own, err := setOf(x.nonces)
	if err != nil {
		return set{}, impossible(wire.RefusalDuplicate, "the analyzer accepted two reports with one nonce")
	}
	signed, err := x.await(ctx, statementIndex)
	if err != nil {
		return set{}, err
	}
	a, err := x.statement(signed)
	if err != nil {
		return set{}, err
	}
	theirs := set{a.Reports, [32]byte(a.Set)}
	switch {
	case theirs.Reports < x.r.Minimum:
		return set{}, tooFew(theirs.Reports, x.r.Minimum)
	case theirs != own:
		return set{}, impossible(wire.RefusalSecondSet, "the analyzer signed a set of %d reports, "+
			"and accepted %d of another set by its answers", theirs.Reports, own.Reports)
	}
	return own, x.awaitLogged(ctx, signed)
}

func tooFew(accepted, minimum uint32) error {
	return fmt.Errorf("%w: the analyzer accepts %d reports, below the minimum of %d",
		channel.ErrImpossible, accepted, minimum)
}

// statement opens the analyzer's statement about this round.
func (x *exchange) statement(signed []byte) (*wire.Accepted, error) {
	a, _, err := wire.Open[wire.Accepted](signed, wire.Party{Deployment: x.Deployment, Key: x.Analyzer})
	if err != nil {
		return nil, impossible(wire.Reason(err), "the analyzer's statement of its set: %v", err)
	}
	if a.Epoch != x.r.Epoch || a.Round != x.r.Round || !bytes.Equal(a.Announcement, x.r.Announcement[:]) {
		return nil, impossible(wire.RefusalSecondSet, "the analyzer's statement is about round %d of epoch %d",
			a.Round, a.Epoch)
	}
	return a, nil
}

// awaitLogged waits until the analyzer's statement is in the audit log: nothing acts on what could be denied later.
func (x *exchange) awaitLogged(ctx context.Context, signed []byte) error {
	kind := wire.AcceptedKind(x.r.Epoch, x.r.Round)
	silence := x.listen("its statement of the set that it accepts, in the audit log")
	defer silence.end()
	for warned := false; ; warned = true {
		in, err := x.Broker.Audited(ctx, bus.Analyzer, kind, signed)
		if err != nil {
			return err
		}
		if in {
			return x.only(ctx, bus.Analyzer, kind, signed)
		}
		if !warned {
			x.Log.Warn().Uint64("epoch", x.r.Epoch).Uint32("round", x.r.Round).
				Msg("the analyzer's statement of its set is not in the audit log yet: nothing leaves before it is")
		}
		silence.look()
		if err := x.wait(ctx); err != nil {
			return err
		}
	}
}

// result adds the shuffler's noise to its share of the sum: once, since the result is durable before it leaves.
func (x *exchange) result(accepted set) (*result, error) {
	total := x.leaders[0].sum
	for _, l := range x.leaders[1:] {
		if err := total.Merge(l.sum); err != nil {
			return nil, err
		}
	}
	if total.Reports() != uint64(accepted.Reports) {
		return nil, fmt.Errorf("channel: the shuffler's sum is of %d reports, the set of %d",
			total.Reports(), accepted.Reports)
	}
	share, err := total.Noise(x.Source)
	if err != nil {
		return nil, err
	}
	chunk, err := x.chunk(x.chunks+1, sum{accepted, share.Bytes()}.encode())
	if err != nil {
		return nil, err
	}
	all, root := wire.ChunksDigest(x.digests), transparency.SortedRoot(x.accepted)
	return &result{
		Announcement: x.r.Announcement[:], Reports: accepted.Reports, Chunks: x.chunks + 2, Digest: all[:],
		Root: root[:], Rejected: x.rejected, Sum: chunk,
	}, nil
}

// await waits for an answer of the analyzer.
func (x *exchange) await(ctx context.Context, index uint32) ([]byte, error) {
	what := fmt.Sprintf("its answer to chunk %d of %d", index, x.chunks)
	if index == statementIndex {
		what = "its statement of the set that it accepts"
	}
	silence := x.listen(what)
	defer silence.end()
	for {
		answer, err := x.Broker.ReadPrepared(ctx, x.r.Epoch, x.r.Round, index)
		if !errors.Is(err, bus.ErrGone) {
			return answer, err
		}
		if index != statementIndex {
			if err := x.checkEnded(ctx, index); err != nil {
				return nil, err
			}
		}
		silence.look()
		if err := x.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// checkEnded looks whether the analyzer ended the round without this answer.
func (x *exchange) checkEnded(ctx context.Context, index uint32) error {
	signed, err := x.Broker.ReadPrepared(ctx, x.r.Epoch, x.r.Round, statementIndex)
	if errors.Is(err, bus.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = x.Broker.ReadPrepared(ctx, x.r.Epoch, x.r.Round, index)
	if !errors.Is(err, bus.ErrGone) { // it came meanwhile: answers are stored before the statement
		return err
	}
	a, err := x.statement(signed)
	if err != nil {
		return err
	}
	if a.Reports < x.r.Minimum {
		return tooFew(a.Reports, x.r.Minimum)
	}
	return impossible(wire.RefusalSecondSet, "the analyzer signed a set and did not answer chunk %d", index)
}

// lookAgain is how long nothing may be heard of the analyzer before its answers are looked for.
const lookAgain = 2 * time.Second

// wait returns when there may be more to read.
func (x *exchange) wait(ctx context.Context) error {
	again := time.NewTimer(lookAgain)
	defer again.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-x.news:
	case <-again.C:
	}
	return nil
}

package shares

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// leader is what one goroutine prepares and adds with. The two steps run at the same time for different chunks, and
// each has a vector sum of its own.
type leader struct {
	preparing, finishing *shares.Leader
	sum                  *shares.LeaderSum
}

func newLeader(round *shares.Round, secret shares.Secret) (*leader, error) {
	first, err := round.NewLeader(secret)
	if err != nil {
		return nil, err
	}
	second, err := round.NewLeader(secret)
	if err != nil {
		return nil, err
	}
	sum, err := round.NewLeaderSum()
	return &leader{first, second, sum}, err
}

// batch is one chunk of prepare messages, until its answer is dealt with.
type batch struct {
	index    uint32
	members  []channel.Member
	payloads [][]byte // of the members' reports, until they are prepared
	made     []made   // one for each member
	messages []byte   // of those that were prepared
}

// made is a member's report, prepared.
type made struct {
	nonce   nonce
	digest  [32]byte // of the prepare message
	pending shares.Pending
	refused wire.Refusal // why it could not be prepared; it has no prepare message
}

// payload is the chunk's: see parseMessages.
func (b *batch) payload() []byte { return b.messages }

// windowBytes bounds the payloads of reports that were read and not prepared yet.
const windowBytes = 64 << 20

// windowOf is how many members' reports are read in one pass: whole batches of that size.
func windowOf(batchSize, payload int) int { return batchSize * max(1, windowBytes/(batchSize*payload)) }

// gather reads the payloads of members' reports, and returns them in the members' order. It reads them in the order in
// which they are in the broker's stream. The broker loads its files of some megabytes whole for one report of them,
// and members are in an order that has nothing to do with that: read one by one in their own order, the reports of a
// large cohort would keep all the stream in the broker's memory, or make it load a file for each report.
func (x *exchange) gather(ctx context.Context, members []channel.Member) ([][]byte, error) {
	payloads := make([][]byte, len(members))
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(members[a].Sequence, members[b].Sequence) })
	err := x.each(ctx, len(order), func(ctx context.Context, _ *leader, i int) error {
		report, err := x.Reports(ctx, x.r, members[order[i]])
		if err == nil {
			payloads[order[i]] = report.Payload
		}
		return err
	})
	return payloads, err
}

// make prepares the reports of a batch, on all processors or by workers.
func (x *exchange) make(ctx context.Context, b *batch) error {
	b.made = make([]made, len(b.members))
	messages := make([][]byte, len(b.members))
	note := func(i int, message []byte, pending shares.Pending) {
		one := &b.made[i]
		one.nonce, one.digest, one.pending = shares.Nonce(message), wire.MessageDigest(message), pending
		messages[i] = message
	}
	left, err := x.spread(ctx, b, note)
	if err != nil {
		return err
	}
	size := x.round.PrepareMessageSize()
	err = x.each(ctx, len(left), func(_ context.Context, l *leader, i int) error {
		i = left[i]
		b.made[i], messages[i] = made{}, nil // whatever a worker's answer said before it proved malformed
		message, pending, err := l.preparing.Prepare(make([]byte, 0, size), b.payloads[i])
		if err != nil { // the prepare message of no honest device
			b.made[i].refused = wire.Reason(err)
			return nil
		}
		note(i, message, pending)
		return nil
	})
	if err != nil {
		return err
	}
	clear(b.payloads)
	messages = slices.DeleteFunc(messages, func(message []byte) bool { return message == nil })
	count := binary.BigEndian.AppendUint32(nil, uint32(len(messages)))
	b.messages = slices.Concat(append([][]byte{count}, messages...)...)
	return nil
}

// spread has workers prepare the reports of a batch, and returns which are left: all of them where there is no pool.
func (x *exchange) spread(
	ctx context.Context, b *batch, note func(int, []byte, shares.Pending),
) (left []int, err error) {
	var whole []int // payloads of the round's length; others are no device's
	var payloads [][]byte
	for i, payload := range b.payloads {
		if x.Pool != nil && len(payload) == x.round.PayloadSize() {
			whole, payloads = append(whole, i), append(payloads, payload)
		} else {
			left = append(left, i)
		}
	}
	if len(whole) == 0 {
		return left, nil
	}
	size := x.round.PrepareMessageSize()
	c := crowd{
		pool: x.Pool, kind: TaskPrepare, a: x.r.Announced, digest: x.r.Announcement, secret: x.secret,
		item: x.round.PayloadSize(), result: size + x.round.PendingSize(), log: x.Log,
	}
	again, err := c.do(ctx, payloads, func(i int, why wire.Refusal, result []byte) error {
		if why != wire.NoRefusal {
			b.made[whole[i]].refused = why
			return nil
		}
		if shares.Nonce(result) != shares.Nonce(payloads[i]) {
			return errTask
		}
		pending, err := x.round.ParsePending(result[size:])
		if err != nil {
			return err
		}
		note(whole[i], result[:size:size], pending)
		return nil
	})
	for _, i := range again {
		left = append(left, whole[i])
	}
	return left, err
}

// take follows the analyzer's verdicts on a batch: it adds the shares of what both servers accept, on all processors.
func (x *exchange) take(b *batch, answer []byte) error {
	prepared := make([]int, 0, len(b.made))
	for i := range b.made {
		if b.made[i].refused == wire.NoRefusal {
			prepared = append(prepared, i)
		}
	}
	verdicts, err := parseAnswer(answer, len(prepared))
	if err != nil {
		return impossible(wire.RefusalMalformed, "chunk %d: %v", b.index, err)
	}
	err = x.each(context.Background(), len(prepared), func(_ context.Context, l *leader, i int) error {
		one, verdict := &b.made[prepared[i]], verdicts[i]
		if verdict[0] != 0 {
			one.refused = refusalOf(verdict[0])
			return nil
		}
		// A message that does not belong to the report means that the analyzer lies, or its broker: the sets differ.
		if err := l.finishing.Finish(l.sum, one.pending, verdict[1:]); err != nil {
			one.refused = wire.Reason(err)
		}
		one.pending = shares.Pending{}
		return nil
	})
	if err != nil {
		return err
	}
	for i, one := range b.made {
		if one.refused == wire.NoRefusal {
			x.nonces, x.accepted = append(x.nonces, one.nonce), append(x.accepted, one.digest)
		} else {
			x.rejected = append(x.rejected, channel.Rejected{Slot: b.members[i].Slot, Reason: one.refused})
		}
	}
	return nil
}

// each calls f for the first n numbers, on all leaders at a time.
func (x *exchange) each(ctx context.Context, n int, f func(context.Context, *leader, int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for _, l := range x.leaders {
		all.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := f(ctx, l, i); err != nil {
					return err
				}
			}
		})
	}
	return all.Wait()
}

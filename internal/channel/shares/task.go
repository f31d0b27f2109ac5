package shares

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/worker"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What is expensive in this channel is the proof of a report, on both sides: the shuffler's preparation of a payload,
// and the analyzer's verification of a prepare message. Each is a function of the payload or prepare message, the
// announced round and the epoch's secret, so that workers can do it, in any order and as often as they like. Everything
// else stays with the lead: which secret there is, which reports are admitted, and in which order; what is answered,
// added, and made durable.
//
// A task holds the outline of the round, the epoch's secret, and payloads or prepare messages, and its result what each
// becomes. The transport seals both: between the processes of one server they are as secret as in its memory.

// TaskPrepare and TaskVerify are the kinds of tasks of the shuffler's and of the analyzer's workers.
const (
	TaskPrepare = "prepare-shares"
	TaskVerify  = "verify-shares"
)

// taskHeader begins a task: its length as 4 bytes, big endian, and itself as JSON. Payloads or prepare messages follow.
type taskHeader struct {
	channel.Outline
	Secret []byte `json:"secret"`
}

// errTask says that a task or its result is malformed.
var errTask = errors.New("channel: a task of shares, or its result, is malformed: run lead and workers of one version")

func encodeTask(a *plan.Announcement, digest [32]byte, secret shares.Secret, items [][]byte) ([]byte, error) {
	header, err := json.Marshal(taskHeader{channel.NewOutline(a, digest), secret.Bytes()})
	if err != nil {
		return nil, err
	}
	size := countSize + len(header)
	for _, item := range items {
		size += len(item)
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, size), uint32(len(header)))
	b = append(b, header...)
	for _, item := range items {
		b = append(b, item...)
	}
	return b, nil
}

// openTask reads a task of payloads or prepare messages of the size that the round gives them.
func openTask(body []byte, size func(*shares.Round) int) (
	t taskHeader, round *shares.Round, secret shares.Secret, items [][]byte, err error,
) {
	fail := func(err error) (taskHeader, *shares.Round, shares.Secret, [][]byte, error) {
		return taskHeader{}, nil, shares.Secret{}, nil, err
	}
	if len(body) < countSize {
		return fail(errTask)
	}
	length, body := uint64(binary.BigEndian.Uint32(body)), body[countSize:]
	if length > uint64(len(body)) || json.Unmarshal(body[:length], &t) != nil || t.Channel != plan.Shares {
		return fail(errTask)
	}
	a, digest, err := t.Announced()
	if err != nil {
		return fail(err)
	}
	if round, err = shares.NewRound(a, digest); err != nil {
		return fail(err)
	}
	if secret, err = shares.ParseSecret(t.Secret); err != nil {
		return fail(err)
	}
	each := size(round)
	if body = body[length:]; len(body)%each != 0 {
		return fail(errTask)
	}
	for ; len(body) > 0; body = body[each:] {
		items = append(items, body[:each])
	}
	return t, round, secret, items, nil
}

// PrepareHandler prepares payloads of reports for the shuffler. The result has of each a refusal's number, or 0 and the
// prepare message and the pending share.
func PrepareHandler() worker.Handler {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		_, round, secret, payloads, err := openTask(body, (*shares.Round).PayloadSize)
		if err != nil {
			return nil, err
		}
		return onAll(ctx, payloads, func() (func(payload []byte) ([]byte, error), error) {
			l, err := round.NewLeader(secret)
			return func(payload []byte) ([]byte, error) {
				message, pending, err := l.Prepare([]byte{0}, payload)
				if err != nil { // the prepare message of no honest device
					return []byte{byte(wire.Reason(err))}, nil
				}
				return round.AppendPending(message, pending)
			}, err
		})
	}
}

// VerifyHandler verifies prepare messages for an analyzer whose key of the round is among keys. The result has of each
// a refusal's number, or 0 and the verified report.
func VerifyHandler(keys []*seal.HPKEKey, verifier *devices.Verifier) worker.Handler {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		t, round, secret, messages, err := openTask(body, (*shares.Round).PrepareMessageSize)
		if err != nil {
			return nil, err
		}
		of, err := t.Open(keys)
		if err != nil {
			return nil, err
		}
		return onAll(ctx, messages, func() (func(message []byte) ([]byte, error), error) {
			h, err := round.NewHelper(secret, of.Key, verifier)
			return func(message []byte) ([]byte, error) {
				v, err := h.Verify(message)
				if err != nil {
					return []byte{byte(wire.Reason(err))}, nil
				}
				return round.AppendVerified([]byte{0}, v)
			}, err
		})
	}
}

// onAll works on all items, on all processors, each with a function of its own, and returns the results in order, one
// after another.
func onAll(ctx context.Context, items [][]byte, with func() (func([]byte) ([]byte, error), error)) ([]byte, error) {
	results := make([][]byte, len(items))
	all, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), len(items)) {
		all.Go(func() error {
			do, err := with()
			if err != nil {
				return err
			}
			for i := int(next.Add(1)) - 1; i < len(items); i = int(next.Add(1)) - 1 {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if results[i], err = do(items[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	var b []byte
	for _, r := range results {
		b = append(b, r...)
	}
	return b, nil
}

// crowd has items worked on by a pool.
type crowd struct {
	pool   worker.Pool
	kind   string
	a      *plan.Announcement
	digest [32]byte
	secret shares.Secret
	item   int // bytes of an item
	result int // bytes of a result that is no refusal, after its first byte
	log    zerolog.Logger
}

// perWorker is how many tasks each process has to do, so that none waits for the next one.
const perWorker = 4

// mostBytes bounds the items of a task, and their results, well below what a task may have.
const mostBytes = worker.MaxBody / 4

// do has all items worked on, and calls take with the refusal or the result of each, from several goroutines. Where a
// task fails, its result is malformed, or take returns an error, the items of the task are among those that are left:
// the caller works on them. The error is that of the context.
func (c crowd) do(ctx context.Context, items [][]byte, take func(i int, why wire.Refusal, result []byte) error) (
	left []int, err error,
) {
	tasks := perWorker * c.pool.Workers()
	per := max(1, min((len(items)+tasks-1)/tasks, mostBytes/c.item, mostBytes/(c.result+1)))
	failed := make([]bool, len(items))
	all, ctx := errgroup.WithContext(ctx)
	for at := 0; at < len(items); at += per {
		end := min(at+per, len(items))
		all.Go(func() error {
			err := c.one(ctx, items, at, end, take)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				c.log.Warn().Err(err).Uint64("epoch", c.a.Epoch).Uint32("round", c.a.Round).Int("reports", end-at).
					Msg("a worker did not work on reports; this process does")
				for i := at; i < end; i++ {
					failed[i] = true
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	for i, f := range failed {
		if f {
			left = append(left, i)
		}
	}
	return left, nil
}

// one does the task of the items from at to end.
func (c crowd) one(ctx context.Context, items [][]byte, at, end int,
	take func(i int, why wire.Refusal, result []byte) error,
) error {
	body, err := encodeTask(c.a, c.digest, c.secret, items[at:end])
	if err != nil {
		return err
	}
	b, err := c.pool.Do(ctx, worker.Task{Kind: c.kind, Body: body})
	if err != nil {
		return err
	}
	for i := at; i < end; i++ {
		switch {
		case len(b) == 0, b[0] == 0 && len(b) <= c.result, b[0] != 0 && refusalOf(b[0]) != wire.Refusal(b[0]):
			return errTask
		case b[0] != 0:
			err, b = take(i, wire.Refusal(b[0]), nil), b[1:]
		default:
			err, b = take(i, wire.NoRefusal, b[1:1+c.result]), b[1+c.result:]
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errTask, err)
		}
	}
	if len(b) != 0 {
		return errTask
	}
	return nil
}

package envelope

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// crew is a pool of some workers. change, if not nil, changes what they answer.
type crew struct {
	worker.Pool
	workers int
	tasks   atomic.Int64
	change  func(result []byte) []byte
}

func (c *crew) Workers() int { return c.workers }

func (c *crew) Do(ctx context.Context, t worker.Task) ([]byte, error) {
	c.tasks.Add(1)
	result, err := c.Pool.Do(ctx, t)
	if err == nil && c.change != nil {
		result = c.change(result)
	}
	return result, err
}

func (x *table) crew(workers int, change func([]byte) []byte) *crew {
	return &crew{workers: workers, change: change, Pool: worker.Inside(workers, worker.Handlers{
		TaskCount: CountHandler(&x.stored, []*seal.HPKEKey{x.round.Key}, x.Verifier),
	})}
}

// Workers add up what one process adds up: also where the lead refuses an envelope that they counted, since it alone
// knows which devices there are, and where they refuse one that does not open.
func TestWorkersAddUpWhatOneProcessAddsUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fraud func(x *table, envelopes [][]byte) []byte
		why   outcome.Reason
	}{
		"an envelope twice": {func(_ *table, envelopes [][]byte) []byte { return envelopes[0] }, Repeated},
		"another envelope of a device": {func(x *table, _ [][]byte) []byte {
			return x.envelope(x.sender(x.host, 1, 1000, x.registrar), -2)
		}, Repeated},
		"no envelope": {
			func(_ *table, envelopes [][]byte) []byte { return make([]byte, len(envelopes[0])) },
			chunks.Undecryptable,
		},
	} {
		for _, workers := range []int{0, 1, 2, 4} {
			x := newTable(t, plan.Local)
			envelopes := x.envelopes(people)
			// before some of the honest ones
			m := x.cut(slices.Insert(slices.Clone(envelopes), 2, c.fraud(x, envelopes)))
			want := x.exactly(envelopes, 1)
			pool := x.crew(workers, nil)
			if workers > 0 {
				x.Pool = pool
			}
			counts, err := x.count(m)
			if err != nil || !slices.Equal(counts[0].Ones, want[:2]) || !slices.Equal(counts[1].Ones, want[2:]) {
				t.Errorf("%s, %d workers: %v, %v, want %v", name, workers, counts, err, want)
			}
			if x.refused(c.why) != 1 || x.Participants.Devices(1) != people {
				t.Errorf("%s, %d workers: account %+v, %d devices",
					name, workers, x.Messages.Balance(), x.Participants.Devices(1))
			}
			if n := int(pool.tasks.Load()); n != min(workers, 1)*len(x.stored) {
				t.Errorf("%s, %d workers: %d tasks for %d chunks", name, workers, n, len(x.stored))
			}
		}
	}
}

// An envelope that the lead refuses is taken out of the sums by opening it again. Where its chunk is gone, or is
// another one, the round is refused: nothing is added that should not be.
func TestARefusedEnvelopeIsTakenOutOrNothingCounts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(x *table){
		"gone": func(x *table) { x.stored = x.stored[1:] },
		"another chunk": func(x *table) {
			x.stored[0] = bytes.Clone(x.stored[0])
			x.stored[0][100] ^= 1
		},
	} {
		x := newTable(t, plan.Local)
		envelopes := x.envelopes(people)
		m := x.cut(slices.Insert(slices.Clone(envelopes), 1, envelopes[0]))
		counts, err := x.Count(t.Context(), x.round, func(context.Context) (*wire.Manifest, error) {
			for _, c := range x.stored {
				x.Take(channel.Part{Epoch: x.round.Epoch, Payload: c})
			}
			change(x)
			return m, nil
		})
		if !errors.Is(err, chunks.Rejected) || counts != nil || !strings.Contains(err.Error(), "read again") {
			t.Errorf("%s: %v, %v", name, counts, err)
		}
	}
}

// An answer that cannot be of these envelopes changes nothing.
func TestAnAnswerThatCannotBeChangesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(result []byte) []byte{
		"empty": func([]byte) []byte { return nil }, "short": func(b []byte) []byte { return b[:len(b)-1] },
		"an unknown refusal": func(b []byte) []byte { b[32] = byte(len(refusals) + 1); return b },
		"a sum above the most": func(b []byte) []byte {
			binary.BigEndian.PutUint64(b[len(b)-8:], 1<<40)
			return b
		},
	} {
		x := newTable(t, plan.Central)
		envelopes := x.envelopes(people)
		x.Pool = x.crew(2, change)
		if _, err := x.count(x.cut(envelopes)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := strings.Count(x.log.String(), chunks.ErrAnswer.Error()); n != len(x.stored) {
			t.Errorf("%s: %d of %d answers are said to be malformed: %s", name, n, len(x.stored), &x.log)
		}
	}
}

// Where a curator reads records, no worker opens an envelope.
func TestNoWorkerReadsRecords(t *testing.T) {
	t.Parallel()
	x := newReading(t)
	pool := &crew{workers: 4, Pool: worker.Inside(1, nil)}
	x.Curating.Pool = pool
	x.read(1)
	if n := pool.tasks.Load(); n != 0 {
		t.Errorf("%d tasks", n)
	}
}

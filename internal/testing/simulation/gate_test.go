package simulation

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/standin"
)

// gate holds every request, delivery and write until the schedule lets it go on. It is the broker's standin.Gate.
type gate struct {
	w       *World
	arrived chan struct{} // holds a token after something came

	mu      sync.Mutex
	pending []*waiting
	nth     map[[2]string]uint64 // of writes
}

// waiting is something that the gate holds.
type waiting struct {
	op      standin.Op
	after   bool // it was done, and its answer waits
	verdict chan standin.Verdict
	until   time.Time // when it has arrived; zero: not known yet
}

func newGate(w *World) *gate {
	return &gate{w: w, arrived: make(chan struct{}, 1), nth: map[[2]string]uint64{}}
}

// Before implements standin.Gate.
func (g *gate) Before(ctx context.Context, op standin.Op) standin.Verdict {
	return g.hold(ctx, op, false)
}

// After implements standin.Gate.
func (g *gate) After(ctx context.Context, op standin.Op) standin.Verdict {
	return g.hold(ctx, op, true)
}

// writes is the name under which the gate holds a write of a process to its disk.
const writes = "write"

// turn waits for the schedule's word to go on with a write.
func (g *gate) turn(i *incarnation, subject string) {
	g.mu.Lock()
	key := [2]string{i.p.name, subject}
	g.nth[key]++
	op := standin.Op{Client: i.p.name, Role: i.p.role, Name: writes, Subject: subject, Nth: g.nth[key]}
	g.mu.Unlock()
	g.hold(i.ctx, op, false)
}

func (g *gate) hold(ctx context.Context, op standin.Op, after bool) standin.Verdict {
	h := &waiting{op: op, after: after, verdict: make(chan standin.Verdict, 1)}
	g.mu.Lock()
	g.pending = append(g.pending, h)
	g.mu.Unlock()
	select {
	case g.arrived <- struct{}{}:
	default:
	}
	select {
	case v := <-h.verdict:
		return v
	case <-ctx.Done():
		g.mu.Lock()
		g.pending = slices.DeleteFunc(g.pending, func(o *waiting) bool { return o == h })
		g.mu.Unlock()
		return standin.Lose
	}
}

// held is what waits, in an order that depends on no random byte.
func (g *gate) held() []*waiting {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.Clone(g.pending)
	slices.SortFunc(all, func(a, b *waiting) int {
		return cmp.Or(cmp.Compare(a.op.Client, b.op.Client), cmp.Compare(a.op.Name, b.op.Name),
			cmp.Compare(a.op.Subject, b.op.Subject), cmp.Compare(a.op.Nth, b.op.Nth), boolean(a.after)-boolean(b.after))
	})
	return all
}

// let lets something go on.
func (g *gate) let(h *waiting, v standin.Verdict) {
	g.mu.Lock()
	g.pending = slices.DeleteFunc(g.pending, func(o *waiting) bool { return o == h })
	g.mu.Unlock()
	h.verdict <- v
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

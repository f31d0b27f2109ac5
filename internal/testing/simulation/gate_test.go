package simulation

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/fakebroker"
)

// gate holds every request, delivery and write until the schedule lets it go on. It is the broker's fakebroker.Gate.
type gate struct {
	w       *World
	arrived chan struct{} // holds a token after something came

	mu      sync.Mutex
	pending []*waiting
	nth     map[[2]string]uint64 // of writes
}

// waiting is something that the gate holds.
type waiting struct {
	op      fakebroker.Op
	after   bool // it was done, and its answer waits
	verdict chan fakebroker.Verdict
	until   time.Time // when it has arrived; zero: not known yet
}

func newGate(w *World) *gate {
	return &gate{w: w, arrived: make(chan struct{}, 1), nth: map[[2]string]uint64{}}
}

// Before implements fakebroker.Gate.
func (g *gate) Before(ctx context.Context, op fakebroker.Op) fakebroker.Verdict {
	return g.hold(ctx, op, false)
}

// After implements fakebroker.Gate.
func (g *gate) After(ctx context.Context, op fakebroker.Op) fakebroker.Verdict {
	return g.hold(ctx, op, true)
}

// writes is the name under which the gate holds a write of a process to its disk.
const writes = "write"

// turn waits for the schedule's word to go on with a write.
func (g *gate) turn(i *incarnation, subject string) {
	g.mu.Lock()
	key := [2]string{i.p.name, subject}
	g.nth[key]++
	op := fakebroker.Op{Client: i.p.name, Role: i.p.role, Name: writes, Subject: subject, Nth: g.nth[key]}
	g.mu.Unlock()
	g.hold(i.ctx, op, false)
}

func (g *gate) hold(ctx context.Context, op fakebroker.Op, after bool) fakebroker.Verdict {
	h := &waiting{op: op, after: after, verdict: make(chan fakebroker.Verdict, 1)}
	g.mu.Lock()
	at, _ := slices.BinarySearchFunc(g.pending, h, (*waiting).compare)
	g.pending = slices.Insert(g.pending, at, h)
	g.mu.Unlock()
	select {
	case g.arrived <- struct{}{}:
	default:
	}
	select {
	case v := <-h.verdict:
		return v
	case <-ctx.Done():
		g.forget(h)
		return fakebroker.Lose
	}
}

// compare is the order in which the schedule sees what waits. It depends on no random byte.
func (h *waiting) compare(o *waiting) int {
	return cmp.Or(cmp.Compare(h.op.Client, o.op.Client), cmp.Compare(h.op.Name, o.op.Name),
		cmp.Compare(h.op.Subject, o.op.Subject), cmp.Compare(h.op.Nth, o.op.Nth), boolean(h.after)-boolean(o.after))
}

// held hands over what waits, in order.
func (g *gate) held(f func(*waiting)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.pending {
		f(h)
	}
}

// let lets something go on.
func (g *gate) let(h *waiting, v fakebroker.Verdict) {
	g.forget(h)
	h.verdict <- v
}

func (g *gate) forget(h *waiting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = slices.DeleteFunc(g.pending, func(o *waiting) bool { return o == h })
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

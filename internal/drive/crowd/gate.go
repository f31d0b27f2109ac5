package crowd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/pkg/client"
)

// Look is the pause between two rounds of questions to the randomizers.
const Look = 100 * time.Millisecond

// Patience is how long a randomizer may be silent before Away is told.
const Patience = 10 * time.Second

var (
	// ErrPlanRefused says that every randomizer refuses the announced plan: no device will ever be sampled.
	ErrPlanRefused = errors.New("the randomizers refuse the announced plan")
	// ErrPopulationEnded says that a cohort opened after everyone had been served.
	ErrPopulationEnded = errors.New("the population ended before the last cohort was full")
)

// Gate knows whether a cohort takes people in, and how many more.
type Gate struct {
	steady bool
	away   func(i int, err error)

	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, at each change
	epoch   uint64
	size    int // slots of the epoch's cohort
	free    int // slots that no person was sent to
	final   bool
	err     error
}

// NewGate makes a gate that is closed until Watch has seen a cohort. A steady one is always open. away is told once of
// each silence of the i-th randomizer that lasts longer than Patience.
func NewGate(steady bool, away func(i int, err error)) *Gate {
	return &Gate{steady: steady, away: away, changed: make(chan struct{})}
}

// Watch follows the randomizers until the context ends. A randomizer that does not answer keeps the gate as it is: it
// comes back, or the people's own calls fail.
func (g *Gate) Watch(ctx context.Context, c *client.Client, randomizers []client.Base) error {
	return g.watch(ctx, func(ctx context.Context) (all []client.Status, i int, err error) {
		for i, at := range randomizers {
			s, err := c.Status(ctx, at)
			if err != nil {
				return nil, i, err
			}
			all = append(all, *s)
		}
		return all, 0, nil
	})
}

// watch asks for all statuses again and again; an error is that of the i-th randomizer.
func (g *Gate) watch(ctx context.Context, ask func(context.Context) (all []client.Status, i int, err error)) error {
	answered, told := time.Now(), false
	for {
		all, i, err := ask(ctx)
		switch {
		case err == nil:
			answered, told = time.Now(), false
			g.see(all)
		case !told && ctx.Err() == nil && time.Since(answered) > Patience:
			g.away(i, err)
			told = true
		}
		if !Pause(ctx, Look) {
			return ctx.Err()
		}
	}
}

// see takes in what all randomizers say.
func (g *Gate) see(all []client.Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first, refused, open := all[0], 0, false
	for _, s := range all {
		if s.Epoch != first.Epoch || s.Final != first.Final {
			return // some are behind
		}
		if s.Refused != "" {
			refused++
		}
		open = open || s.Enrolling
	}
	switch {
	case first.Final:
		g.final, g.epoch = true, first.Epoch
	case refused == len(all):
		g.err = fmt.Errorf("%w: %s", ErrPlanRefused, first.Refused)
	case first.Epoch > g.epoch && open: // otherwise its enrolment is over, or has not begun
		g.epoch, g.size, g.free = first.Epoch, int(first.Cohort), int(first.Cohort)
	default:
		return
	}
	g.change()
}

func (g *Gate) change() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// Try takes a slot if there is one.
func (g *Gate) Try() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.take()
}

func (g *Gate) take() bool {
	if g.steady || g.final {
		return true
	}
	if g.free == 0 {
		return false
	}
	g.free--
	return true
}

// Enter takes a slot, or waits for one.
func (g *Gate) Enter(ctx context.Context) error {
	return g.wait(ctx, func() (bool, error) { return g.take(), nil })
}

// AwaitLastPolicy waits for the last policy after everyone was served. It fails with ErrPopulationEnded if another
// cohort opens.
func (g *Gate) AwaitLastPolicy(ctx context.Context) error {
	return g.wait(ctx, func() (bool, error) {
		if !g.final && g.size > 0 && g.free == g.size {
			return false, ErrPopulationEnded
		}
		return g.final, nil
	})
}

// wait calls ready under the lock, now and after each change, until it says yes or fails.
func (g *Gate) wait(ctx context.Context, ready func() (bool, error)) error {
	for {
		g.mu.Lock()
		changed, err, yes := g.changed, g.err, false
		if err == nil {
			yes, err = ready()
		}
		g.mu.Unlock()
		if yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Left gives back the slot of a person who was not sampled; d is nil if their request was refused. No further person
// is sent to a cohort that is full or past its enrolment.
func (g *Gate) Left(d *client.Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case d != nil && d.Epoch < g.epoch: // their slot was in an earlier cohort
	case d != nil && (d.Reason == client.CohortFull || d.Reason == client.RoundsUnderWay):
		g.free = 0
	default:
		g.free++
		g.change()
	}
}

// Room returns the slots of the epoch's cohort and those that no person was sent to; both are 0 while the gate is
// always open.
func (g *Gate) Room() (epoch uint64, size, free int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.steady || g.final {
		return g.epoch, 0, 0
	}
	return g.epoch, g.size, g.free
}

// Now returns the epoch as last seen and whether its policy is the last one.
func (g *Gate) Now() (epoch uint64, final bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch, g.final
}

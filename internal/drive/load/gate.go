package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/pkg/client"
)

// look is how often randomizers are asked how they are.
const look = 100 * time.Millisecond

// ErrPlanRefused says that every randomizer refuses the announced plan: nobody will ever be sampled.
var ErrPlanRefused = errors.New("load: the randomizers refuse the announced plan")

// gate knows whether a cohort takes people in, and how many more. It asks the randomizers, as an app could.
type gate struct {
	steady bool
	away   func(api string, err error) // told once of each randomizer's absence that lasts longer than patience

	mu      sync.Mutex
	changed chan struct{}
	epoch   uint64
	size    int  // places of the epoch's cohort
	free    int  // those that nobody was sent to
	final   bool // the last policy: everybody may come
	err     error
}

func newGate(steady bool) *gate {
	return &gate{steady: steady, away: func(string, error) {}, changed: make(chan struct{})}
}

// watch follows the randomizers until the context ends.
func (g *gate) watch(ctx context.Context, c *client.Client, apis []string) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	answered, told := time.Now(), false
	for {
		var all []client.Status
		for _, api := range apis {
			s, err := c.Status(ctx, client.At(api))
			if err != nil { // it comes back, or the people's own calls fail
				if !told && ctx.Err() == nil && time.Since(answered) > patience {
					g.away(api, err)
					told = true
				}
				break
			}
			all = append(all, *s)
		}
		if len(all) == len(apis) {
			answered, told = time.Now(), false
			g.see(all)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// see takes in what all randomizers say.
func (g *gate) see(all []client.Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first, refused := all[0], 0
	for _, s := range all {
		if s.Epoch != first.Epoch || s.Final != first.Final {
			return // some are behind
		}
		if s.Refused != "" {
			refused++
		}
	}
	switch {
	case first.Final:
		g.final, g.epoch = true, first.Epoch
	case refused == len(all):
		g.err = fmt.Errorf("%w: %s", ErrPlanRefused, first.Refused)
	case first.Epoch > g.epoch:
		open := false
		for _, s := range all {
			open = open || s.Enrolling
		}
		if !open {
			return // past its enrolment, or not ready
		}
		g.epoch, g.size, g.free = first.Epoch, int(first.Cohort), int(first.Cohort)
	default:
		return
	}
	close(g.changed)
	g.changed = make(chan struct{})
}

// enter takes a place, or waits for one.
func (g *gate) enter(ctx context.Context) (waited time.Duration, err error) {
	begin := time.Now()
	for {
		g.mu.Lock()
		open, changed, failed := g.steady || g.final || g.free > 0, g.changed, g.err
		if open && !g.steady && !g.final {
			g.free--
		}
		g.mu.Unlock()
		if failed != nil {
			return 0, failed
		}
		if open {
			return time.Since(begin), nil
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-changed:
		}
	}
}

// try takes a place if there is one.
func (g *gate) try() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.steady || g.final {
		return true
	}
	if g.free == 0 {
		return false
	}
	g.free--
	return true
}

// left takes note of a person who took no place after all. Where the cohort is full, or closed, nobody else need come.
func (g *gate) left(d *client.Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d != nil && d.Epoch < g.epoch {
		return // their place was in an earlier cohort
	}
	if d != nil && d.Reason == client.CohortFull {
		g.free = 0
		return
	}
	g.free++
	close(g.changed)
	g.changed = make(chan struct{})
}

// room tells how many places the epoch's cohort has, and how many of them nobody was sent to; none where people come regardless.
func (g *gate) room() (epoch uint64, size, free int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.steady || g.final {
		return g.epoch, 0, 0
	}
	return g.epoch, g.size, g.free
}

// now is the epoch as last seen.
func (g *gate) now() (epoch uint64, final bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch, g.final
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// crowd plays the apps of all people of the population.
type crowd struct {
	c      *cluster.Cluster
	o      Options
	client *client.Client

	again []visitor // decided for, not sampled; of one cohort at a time

	mu     sync.Mutex
	played []int // by person
}

const (
	// apps ask at the same time.
	apps = 32
	// readyPause is the wait between two looks at whether the randomizers are in an epoch.
	readyPause = 20 * time.Millisecond
	// look is how often progress and processes are looked at.
	look = 250 * time.Millisecond
)

func newCrowd(c *cluster.Cluster, o Options) *crowd {
	return &crowd{c: c, o: o, client: client.New(client.Options{Connections: apps}), played: make([]int, o.Population.Info().People)}
}

// errLearned ends the drive: the last policy is out.
var errLearned = errors.New("the last policy is out")

// drive brings people to their devices, epoch by epoch, until the last policy is out. Nobody comes while no cohort is open: the
// population is the horizon, and everybody's answer counts.
func (d *crowd) drive(ctx context.Context, w *watcher) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer d.client.Close()
	announced := make(chan *plan.Announcement)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return w.announcements(ctx, func(a *plan.Announcement) error {
			select {
			case announced <- a:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	})
	g.Go(func() error { return d.oversee(ctx) })
	g.Go(func() error { return d.follow(ctx) })
	g.Go(func() error {
		next, done := iter.Pull2(visitors(d.o.Population))
		defer done()
		for {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case a := <-announced:
				if a.Final {
					return errLearned
				}
				d.o.Progress.Update(func(s *progress.State) {
					s.Phase, s.Epoch, s.Total = "learning", int(a.Epoch), len(d.played)
					s.AllWork = max(s.AllWork, steps*len(d.played)*len(a.Plan.Rounds))
				})
				if a.Round > 0 {
					continue
				}
				if err := d.fillCohort(ctx, a, next); err != nil {
					return err
				}
			}
		}
	})
	if err := g.Wait(); !errors.Is(err, errLearned) {
		return err
	}
	return nil
}

// oversee ends the drive when a process has ended by itself.
func (d *crowd) oversee(ctx context.Context) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if err := d.c.Failed(); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
		}
	}
}

// visitor is a person of the population who comes to be decided for.
type visitor struct {
	number int
	population.Person
}

// visitors are the people of a population in their order. The sequence ends after its first error.
func visitors(p *population.Population) iter.Seq2[visitor, error] {
	return func(yield func(visitor, error) bool) {
		i := 0
		for person, err := range p.People() {
			if err != nil {
				yield(visitor{}, fmt.Errorf("demo: person %d of the population: %w", i, err))
				return
			}
			if !yield(visitor{i, person}, nil) {
				return
			}
			i++
		}
	}
}

var errPopulationEnded = errors.New("demo: the population ended before the last cohort was full")

// fillCohort has people decided for until the epoch's cohort is full. Who is not sampled comes again: in this cohort if the shuffler
// was away, in the next one if this one is full.
func (d *crowd) fillCohort(ctx context.Context, a *plan.Announcement, next func() (visitor, error, bool)) error {
	if err := d.ready(ctx, a.Epoch); err != nil {
		return err
	}
	var mu sync.Mutex // of next and what follows
	sampled, full, ended := 0, false, false
	disturbed := d.o.Disturb == nil
	g, gctx := errgroup.WithContext(ctx)
	take := func() (v visitor, ok bool, err error) {
		mu.Lock()
		defer mu.Unlock()
		if full || sampled >= int(a.Cohort.Size) || gctx.Err() != nil {
			return v, false, nil
		}
		if n := len(d.again); n > 0 {
			v, d.again, ok = d.again[n-1], d.again[:n-1], true
		} else if v, err, ok = next(); !ok {
			ended = true
		}
		if ok && err == nil {
			sampled++ // given back if the device is not sampled
		}
		return v, ok, err
	}
	// visit is one person's visit; due tells that half of the cohort is there.
	visit := func(v visitor) (due bool, err error) {
		decision, err := d.serve(gctx, v.number, v.Person)
		if err != nil {
			return false, err
		}
		d.mu.Lock()
		d.played[v.number] = decision.Arm
		d.mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		switch decision.Reason {
		case randomizer.Sampled, randomizer.RecordUsed: // used: by an earlier try whose answer was lost; the device will report
			d.o.Progress.Update(func(s *progress.State) { s.Done++ })
			due = !disturbed && sampled >= int(a.Cohort.Size)/2
			disturbed = disturbed || due
			return due, nil
		case randomizer.PlanRefused:
			return false, fmt.Errorf("demo: person %d: %s", v.number, decision.Detail)
		case randomizer.CohortFull, randomizer.RoundsUnderWay, randomizer.FinalPolicy:
			full = true
		}
		sampled--
		d.again = append(d.again, v)
		return false, nil
	}
	for range apps {
		g.Go(func() error {
			for {
				v, ok, err := take()
				if err != nil || !ok {
					return err
				}
				due, err := visit(v)
				if err == nil && due {
					err = d.o.Disturb(d.c, a.Epoch)
				}
				if err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if ended && sampled == 0 {
		return errPopulationEnded
	}
	return nil
}

// ready waits until every randomizer is in the epoch. Somebody who came earlier would be decided for with the policy before and not be
// sampled, and the population is too small for that.
func (d *crowd) ready(ctx context.Context, epoch uint64) error {
	for host := range d.o.Hosts {
		for {
			s, err := d.client.Status(ctx, d.randomizer(host))
			if err == nil && s.Refused != "" {
				return fmt.Errorf("demo: %s", s.Refused)
			}
			if err == nil && (s.Epoch > epoch || s.Epoch == epoch && s.Enrolling) {
				break
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(readyPause):
			}
		}
	}
	return nil
}

// serve is one person's app: it asks for a decision, sees the reward of the played arm, and reports it.
func (d *crowd) serve(ctx context.Context, i int, p population.Person) (*randomizer.Decision, error) {
	wrong := func(err error) (*randomizer.Decision, error) { return nil, fmt.Errorf("demo: person %d: %w", i, err) }
	body, err := client.Arms(p.Arms)
	if err != nil {
		return wrong(err)
	}
	decision, _, err := d.client.Decide(ctx, d.randomizer(i), fmt.Sprintf("person-%d", i), body)
	if err != nil {
		return wrong(err)
	}
	reward, err := p.Reward(decision.Arm)
	if err != nil {
		return wrong(err)
	}
	_, err = d.client.Reward(ctx, d.randomizer(i), decision.Token, reward)
	if err != nil && !client.Expired(err) { // expired: the randomizer was restarted in between, or the machine is too slow for the window
		return wrong(err)
	}
	return decision, nil
}

// randomizer is the one that holds a person's device. While any is away it is not known which is whose.
func (d *crowd) randomizer(person int) client.Base {
	return func() (string, error) {
		apis := d.c.APIs()
		if len(apis) < d.o.Hosts {
			return "", errors.New("a randomizer is not running")
		}
		return apis[person%len(apis)], nil
	}
}

package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/crowd"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/pkg/client"
)

const (
	// apps is how many people are served at the same time.
	apps = 32
	// look is the pause between two looks at progress and processes.
	look = 250 * time.Millisecond
)

// audience is the crowd of the whole population, each of whom takes part once.
type audience struct {
	crowd.Crowd
	c    *cluster.Cluster
	o    Options
	pace pace

	mu      sync.Mutex
	played  []int          // arm, by person
	sampled map[uint64]int // people, by epoch
}

func newAudience(c *cluster.Cluster, o Options, p pace) *audience {
	d := &audience{
		Crowd: crowd.Crowd{
			Population: o.Population, Client: client.New(client.Options{Connections: apps}), Devices: "person",
			Named:       o.Features != "",
			Concurrency: apps, Gate: crowd.NewGate(false, func(int, error) {}), // oversee notices it
		},
		c: c, o: o, pace: p, played: make([]int, o.Population.Info().People), sampled: map[uint64]int{},
	}
	d.Serve = d.serve
	for host := range o.Hosts {
		d.Randomizers = append(d.Randomizers, func() (string, error) {
			apis := c.APIs()
			if len(apis) < o.Hosts { // which of them is this host's is not known
				return "", errors.New("a randomizer is not running")
			}
			return apis[host], nil
		})
	}
	return d
}

// errLearned ends drive: the last policy is out.
var errLearned = errors.New("the last policy is out")

// drive brings all people to their devices, cohort by cohort, and waits for the last policy.
func (d *audience) drive(ctx context.Context) error {
	defer d.Client.Close()
	d.o.Progress.Update(func(s *progress.State) {
		s.Phase, s.Total = "learning", len(d.played)
		d.pace.expect(s, len(d.played))
	})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.oversee(ctx) })
	g.Go(func() error { return d.Follow(ctx) })
	g.Go(func() error {
		if err := d.Drive(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		if err := d.Gate.AwaitLastPolicy(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		return errLearned
	})
	if err := g.Wait(); !errors.Is(err, errLearned) {
		return err
	}
	return nil
}

// oversee keeps progress up to date, and fails when a process has ended by itself.
func (d *audience) oversee(ctx context.Context) error {
	for crowd.Pause(ctx, look) {
		if err := d.c.Failed(); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		d.observe(ctx)
	}
	return context.Cause(ctx)
}

// serve is one person's visit: their app asks for a decision, sees the reward of the arm that is played, and tells it.
// A person who is not sampled comes again, because the whole population is learned from.
func (d *audience) serve(ctx context.Context, v crowd.Visit) (again bool, err error) {
	decision, _, err := d.Decide(ctx, v)
	if err != nil {
		return false, err
	}
	reward, err := v.Person.Reward(decision.Arm)
	if err != nil {
		return false, err
	}
	// The token has expired where its randomizer was restarted in between, or where the machine is too slow for the
	// window.
	if _, err = d.Reward(ctx, v, decision, reward); err != nil && !errors.Is(err, client.ExpiredToken) {
		return false, err
	}
	d.mu.Lock()
	d.played[v.Number] = decision.Arm
	d.mu.Unlock()
	switch decision.Reason {
	case client.Sampled, client.RecordUsed: // used by an earlier attempt whose answer was lost: the device will report
		return false, d.count(decision.Epoch)
	case client.PlanRefused:
		return false, errors.New(decision.Detail)
	}
	d.Gate.Left(decision)
	return decision.Reason != client.FinalPolicy, nil
}

// count counts a sampled person, and calls Disturb when half of an epoch's people have come.
func (d *audience) count(epoch uint64) error {
	_, size, _ := d.Gate.Room()
	d.mu.Lock()
	d.sampled[epoch]++
	half := d.sampled[epoch] == max(1, size/2)
	d.mu.Unlock()
	d.o.Progress.Update(func(s *progress.State) { s.Done, s.Epoch = s.Done+1, max(s.Epoch, int(epoch)) })
	if half && d.o.Disturb != nil {
		return d.o.Disturb(d.c, epoch)
	}
	return nil
}

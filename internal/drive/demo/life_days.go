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
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/client"
)

// The days of a life: people's apps register their devices once, and ask for decisions day after day. The clock of the
// world stands still while an epoch's reports are sealed, counted and learned from, and while the next panel is drawn:
// that takes this machine seconds, and would take a deployment a small part of a day.

// days drives a world's people through its days.
type days struct {
	c      *cluster.Cluster
	o      LifeOptions
	of     world.Schedule
	people *world.People
	client *client.Client

	mu     sync.Mutex
	by     []day // by day
	began  []int // day on which the epoch began, by epoch
	served int
}

// day is what happened on one day.
type day struct {
	decisions int
	reported  int // decisions that a report has
	over      int // that came when the device's report had left: the machine is too slow
	late      int // rewards that came after their window
	// Sums of expected rewards.
	played, standard, best, uniform float64
}

func newDays(c *cluster.Cluster, o LifeOptions, of world.Schedule) (*days, error) {
	people, err := world.NewPeople(o.Setting.World, o.Seed)
	if err != nil {
		return nil, err
	}
	return &days{c: c, o: o, of: of, people: people, client: client.New(client.Options{Connections: apps}),
		by: make([]day, o.Setting.World.Days)}, nil
}

func device(person int) string { return fmt.Sprintf("person-%d", person) }

// at is the randomizer of a person.
func (d *days) at(person int) client.Base {
	return func() (string, error) {
		apis := d.c.APIs()
		if len(apis) < d.o.Hosts { // which of them is this host's is not known
			return "", errors.New("a randomizer is not running")
		}
		return apis[person%d.o.Hosts], nil
	}
}

// live registers everybody, and drives all days.
func (d *days) live(ctx context.Context) error {
	defer d.client.Close()
	g, ctx := errgroup.WithContext(ctx)
	over := errors.New("the last day is over")
	g.Go(func() error {
		for crowd.Pause(ctx, look) {
			if err := d.c.Failed(); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			d.observe(ctx)
		}
		return context.Cause(ctx)
	})
	g.Go(func() error {
		if err := d.register(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		if err := d.allDays(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		return over
	})
	if err := g.Wait(); !errors.Is(err, over) {
		return err
	}
	return nil
}

// each calls f for the numbers below n, some at a time.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, among := errgroup.WithContext(ctx)
	g.SetLimit(apps)
	for i := range n {
		if among.Err() != nil {
			break
		}
		g.Go(func() error { return f(among, i) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// register names every person's device to its randomizer.
func (d *days) register(ctx context.Context) error {
	n := d.o.Setting.World.People
	d.o.Progress.Update(func(s *progress.State) { s.Phase, s.Done, s.Total = "registering", 0, n })
	return each(ctx, n, func(ctx context.Context, i int) error {
		_, _, err := d.client.Register(ctx, d.at(i), device(i))
		d.o.Progress.Update(func(s *progress.State) { s.Done++ })
		return err
	})
}

// steps are what each day of a run is made of that takes time: its people are served, and their reports arrive.
const steps = 2

// allDays drives the days: those of an epoch when its panel is drawn, and the rest with the last policy.
func (d *days) allDays(ctx context.Context) error {
	all := d.o.Setting.World.Days
	d.o.Progress.Update(func(s *progress.State) {
		s.Phase, s.Done, s.Total, s.AllWork, s.Epochs = "living", 0, 0, all*steps, d.of.Epochs
	})
	now, epoch := 0, uint64(0)
	for now < all {
		next, final, err := d.awaitPanel(ctx, epoch)
		if err != nil {
			return err
		}
		last := min(now+d.of.Window, all)
		if final {
			last = all
		} else {
			epoch = next
			d.began = append(d.began, now)
			d.o.Progress.Update(func(s *progress.State) { s.Epoch = int(epoch) })
		}
		for half := now + (last-now)/2; now < last; now++ {
			if now == half && !final && d.o.Disturb != nil {
				if err := d.o.Disturb(d.c, epoch); err != nil {
					return err
				}
			}
			if err := d.day(ctx, now, final); err != nil {
				return fmt.Errorf("day %d: %w", now, err)
			}
		}
	}
	return nil
}

// awaitPanel waits until nearly all devices of the panel of an epoch after the given one know it, or all randomizers
// follow the last policy. The last devices learn of it while the first ones decide.
func (d *days) awaitPanel(ctx context.Context, after uint64) (epoch uint64, final bool, err error) {
	for {
		members, ended, cohort := 0, 0, 0
		epoch := uint64(0)
		for i := range d.o.Hosts {
			s, err := d.client.Status(ctx, d.at(i))
			if err != nil {
				break
			}
			if s.Refused != "" && !s.Final {
				return 0, false, fmt.Errorf("%w: %s", crowd.ErrPlanRefused, s.Refused)
			}
			if s.Final {
				ended++
			}
			if s.Panel != nil && s.Panel.Drawn && s.Epoch > after && (epoch == 0 || s.Epoch == epoch) {
				epoch, cohort = s.Epoch, int(s.Cohort)
				members += s.Panel.Members
			}
		}
		if ended == d.o.Hosts {
			return 0, true, nil
		}
		if cohort > 0 && members >= cohort-cohort/20 {
			return epoch, false, nil
		}
		if !crowd.Pause(ctx, crowd.Look) {
			return 0, false, context.Cause(ctx)
		}
	}
}

// day drives one day, whose occasions are spread over it. With the last policy nobody has to wait for its end.
func (d *days) day(ctx context.Context, now int, final bool) error {
	occasions := d.people.Day(now)
	begin := time.Now()
	err := each(ctx, len(occasions), func(ctx context.Context, i int) error {
		due := time.Duration(float64(d.o.Day) * 0.9 * float64(i) / float64(len(occasions)))
		if !final && !crowd.Pause(ctx, due-time.Since(begin)) {
			return context.Cause(ctx)
		}
		return d.serve(ctx, now, occasions[i])
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.served = now + 1
	d.mu.Unlock()
	if !final && !crowd.Pause(ctx, d.o.Day-time.Since(begin)) {
		return context.Cause(ctx)
	}
	return nil
}

// serve is one occasion: the app asks for a decision, sees the reward of the arm that is played, and tells it.
func (d *days) serve(ctx context.Context, now int, o world.Occasion) error {
	decision, _, err := d.client.Decide(ctx, d.at(o.Person), device(o.Person), o.Arms)
	if err != nil {
		return err
	}
	late := 0
	_, _, err = d.client.Reward(ctx, d.at(o.Person), decision.Token, o.Reward(decision.Arm))
	switch {
	case errors.Is(err, client.ExpiredToken): // its randomizer was restarted, or the machine is too slow for the window
		late = 1
	case err != nil:
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	x := &d.by[now]
	x.decisions++
	x.late += late
	switch decision.Reason {
	case client.Sampled:
		x.reported++
	case client.WindowOver:
		x.over++
	}
	best, mean := o.Means[0], 0.0
	for _, m := range o.Means {
		best = max(best, m)
		mean += m / float64(len(o.Means))
	}
	x.played += o.Means[decision.Arm]
	x.standard += o.Means[0]
	x.best += best
	x.uniform += mean
	return nil
}

// observe brings progress up to what the roles say of themselves.
func (d *days) observe(ctx context.Context) {
	shuffler, err := snapshot(ctx, d.c.Ops(cluster.Shuffler))
	if err != nil {
		return
	}
	arrived, messages, released := 0, 0, 0
	for _, r := range shuffler.Releases {
		arrived += r.Reports
		messages += r.Messages
		released++
	}
	if c := shuffler.Cohort; c != nil && c.Reports != nil && !over(shuffler) {
		arrived += *c.Reports
		messages += *c.Reports * c.Messages
	}
	d.mu.Lock()
	served := d.served
	d.mu.Unlock()
	share := float64(arrived) / float64(max(1, d.of.Panel*d.of.Epochs))
	d.o.Progress.Update(func(s *progress.State) {
		if s.Phase != "living" {
			return
		}
		s.Reports, s.Messages = max(s.Reports, arrived), max(s.Messages, messages)
		s.Work = max(s.Work, served+int(share*float64(len(d.by))))
	})
}

package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/pkg/client"
)

// manner is how a person behaves.
type manner int

const (
	behaved manner = iota
	dropOut
	duplicate
	late
	malformed
)

// manners deals them out by share, with a seed of the run's.
func (s Shares) manners(seed uint64) func() manner {
	coins := rand.New(rand.NewPCG(seed, 0x10ad))
	return func() manner {
		u := coins.Float64()
		for _, m := range []struct {
			share float64
			manner
		}{{s.DropOut, dropOut}, {s.Duplicate, duplicate}, {s.Late, late}, {s.Malformed, malformed}} {
			if u < m.share {
				return m.manner
			}
			u -= m.share
		}
		return behaved
	}
}

// visit is one person's turn.
type visit struct {
	i      int
	person population.Person
	manner manner
	due    time.Time // zero: as soon as somebody has time for them
}

// crowd is everything that people share.
type crowd struct {
	o      Options
	client *client.Client
	gate   *gate
	truth  *truth
	tally  *tally

	decisions, rewards *latency
	speed              *throughput
	waiting            sync.WaitGroup // people who tell their reward late
	lateContext        context.Context
}

// drive brings everybody, in order, until they were all decided for or the context ends.
func (c *crowd) drive(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	visits := make(chan visit)
	workers := c.o.Concurrency
	if workers == 0 {
		workers = DefaultConcurrency
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			if c.o.Rate == 0 && c.o.Ramp > 0 && !pause(ctx, c.o.Ramp*time.Duration(w)/time.Duration(workers)) {
				return
			}
			for v := range visits {
				if err := c.serve(ctx, v); err != nil && ctx.Err() == nil {
					stop(err)
				}
			}
		})
	}
	err := c.invite(ctx, visits)
	close(visits)
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// invite sends people to the workers as they come.
func (c *crowd) invite(ctx context.Context, visits chan<- visit) error {
	manners := c.o.Shares.manners(c.o.Seed)
	pace := newArrivals(c.o.Rate, c.o.Ramp, time.Now())
	i := 0
	for p, err := range c.o.Population.People() {
		if err != nil {
			return err
		}
		if !c.gate.try() {
			c.phase(waitingForCohort)
			waited, err := c.gate.enter(ctx)
			if err != nil {
				return err
			}
			pace.held(waited)
		}
		c.phase(deciding)
		due, err := pace.next(ctx)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case visits <- visit{i, p, manners(), due}:
		}
		i++
	}
	return nil
}

// What the run does, as people see it.
const (
	deciding         = "deciding"
	waitingForCohort = "waiting for a cohort"
	waitingForCounts = "waiting for releases"
)

func (c *crowd) phase(name string) {
	c.o.Progress.Update(func(s *progress.State) { s.Phase = name })
}

// at is the randomizer that has the device of person i.
func (c *crowd) at(i int) client.Base { return client.At(c.o.APIs[i%len(c.o.APIs)]) }

// serve is one person's app. Its error ends the run.
func (c *crowd) serve(ctx context.Context, v visit) error {
	if v.manner == malformed {
		c.nonsense(ctx, v.i)
	}
	device := fmt.Sprintf("%s-%d", c.o.Device, v.i)
	begin := v.due
	if begin.IsZero() {
		begin = time.Now()
	}
	d, calls, err := c.client.Decide(ctx, c.at(v.i), device, v.person.Arms)
	c.decisions.add(time.Since(begin))
	c.tally.calls(calls)
	if err != nil {
		return c.refused(ctx, "decision", v.i, err, calls)
	}
	c.speed.add(time.Now())
	if err := c.tally.played(v.person, d); err != nil {
		return fmt.Errorf("load: person %d: %w", v.i, err)
	}
	c.o.Progress.Update(func(s *progress.State) { s.Done++; s.Epoch = max(s.Epoch, int(d.Epoch)) })
	if d.Sampled {
		c.truth.sampled(d.Epoch)
	} else {
		if d.Reason == client.RecordUsed && calls.Unsure {
			c.truth.silent(d.Epoch) // the lost answer had enrolled the device
		}
		c.gate.left(d)
	}
	if v.manner == duplicate {
		c.again(ctx, v, device)
	}
	return c.reward(ctx, v, d)
}

// reward tells the reward, or does not, as the person's manner is.
func (c *crowd) reward(ctx context.Context, v visit, d *client.Decision) error {
	reward, err := v.person.Reward(d.Arm)
	if err != nil {
		return fmt.Errorf("load: person %d: %w", v.i, err)
	}
	switch {
	case v.manner == dropOut:
		c.tally.dropped()
		return nil
	case v.manner == late && d.Sampled && d.RewardBy != nil:
		c.waiting.Go(func() { c.tooLate(v.i, d, reward) })
		return nil
	}
	begin := time.Now()
	_, calls, err := c.client.Reward(ctx, c.at(v.i), d.Token, reward)
	c.rewards.add(time.Since(begin))
	c.tally.calls(calls)
	switch {
	case err == nil && d.Sampled:
		c.truth.rewarded(d.Epoch, v.person.Arms[d.Arm], reward)
	case err != nil:
		if calls.Unsure && d.Sampled {
			c.truth.doubt(d.Epoch, "the answer to a reward was lost on its way")
		}
		if !errors.Is(err, client.ExpiredToken) {
			return c.refused(ctx, "reward", v.i, err, calls)
		}
		c.tally.refusal("reward", err, false)
		return nil
	}
	c.tally.rewarded()
	if v.manner == duplicate {
		c.tellAgain(ctx, v, d, reward)
	}
	return nil
}

// refused counts an answer that says no. A call that found nobody ends the run.
func (c *crowd) refused(ctx context.Context, item string, i int, err error, calls client.Calls) error {
	var r *client.Refusal
	if !errors.As(err, &r) {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("load: person %d: %s: %w", i, item, err)
	}
	c.tally.refusal(item, err, false)
	if item == "decision" {
		if epoch, _ := c.gate.now(); calls.Unsure || r.Reason == client.BadArms {
			c.truth.silent(epoch)
		}
		c.gate.left(nil)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

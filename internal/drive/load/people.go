package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/crowd"
	"github.com/riffle-dp/riffle/internal/drive/progress"
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

// manners returns the manner of person i, dealt out by share with the run's seed. It is safe for concurrent use.
func (s Shares) manners(seed uint64) func(i int) manner {
	coins := rand.New(rand.NewPCG(seed, 0x10ad))
	deal := func() manner {
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
	var mu sync.Mutex
	var dealt []manner
	return func(i int) manner {
		mu.Lock()
		defer mu.Unlock()
		for len(dealt) <= i {
			dealt = append(dealt, deal())
		}
		return dealt[i]
	}
}

// session is one run: the crowd, and what is known and counted of it.
type session struct {
	crowd.Crowd
	o      Options
	manner func(i int) manner
	truth  *truth
	tally  *tally

	decisions, rewards *latency
	speed              *throughput
	late               sync.WaitGroup  // people who tell their reward late
	lateContext        context.Context // theirs
}

// What the run does, as people see it.
const (
	deciding         = "deciding"
	waitingForCohort = "waiting for a cohort"
	waitingForCounts = "waiting for releases"
)

func (c *session) phase(name string) {
	c.o.Progress.Update(func(s *progress.State) { s.Phase = name })
}

// serve is one person's visit. Its error ends the run.
func (c *session) serve(ctx context.Context, v crowd.Visit) error {
	manner := c.manner(v.Number)
	if manner == malformed {
		c.nonsense(ctx, v.Number)
	}
	begin := v.Due
	if begin.IsZero() {
		begin = time.Now()
	}
	d, calls, err := c.Decide(ctx, v)
	c.decisions.add(time.Since(begin))
	c.tally.calls(calls)
	if err != nil {
		return c.countRefusal(ctx, "decision", err, calls)
	}
	c.speed.add(time.Now())
	if err := c.tally.countPlay(v.Person, d); err != nil {
		return err
	}
	c.o.Progress.Update(func(s *progress.State) { s.Done++; s.Epoch = max(s.Epoch, int(d.Epoch)) })
	if d.Sampled {
		c.truth.addSampled(d.Epoch)
	} else {
		// The lost answer had enrolled the device, or the shuffler's answer may still do so: it has no record of this
		// decision.
		if d.Reason == client.RecordUsed && calls.Unsure || d.Reason == client.ShufflerUnreachable {
			c.truth.silent(d.Epoch)
		}
		c.Gate.Left(d)
	}
	if manner == duplicate {
		c.decideAgain(ctx, v)
	}
	return c.reward(ctx, v, manner, d)
}

// reward tells the reward, or does not, as the person's manner is.
func (c *session) reward(ctx context.Context, v crowd.Visit, manner manner, d *client.Decision) error {
	reward, err := v.Person.Reward(d.Arm)
	if err != nil {
		return err
	}
	switch {
	case manner == dropOut:
		c.tally.countDropOut()
		return nil
	case manner == late && d.Sampled && d.RewardBy != nil:
		c.late.Go(func() { c.rewardTooLate(v, d, reward) })
		return nil
	}
	begin := time.Now()
	calls, err := c.Reward(ctx, v, d, reward)
	c.rewards.add(time.Since(begin))
	c.tally.calls(calls)
	switch {
	case err == nil && d.Sampled:
		c.truth.addRewarded(d.Epoch, v.Person.Arms[d.Arm], reward)
	case err != nil:
		if calls.Unsure && d.Sampled {
			c.truth.doubt(d.Epoch, "the answer to a reward was lost on its way")
		}
		if !errors.Is(err, client.ExpiredToken) {
			return c.countRefusal(ctx, "reward", err, calls)
		}
		c.tally.refusal("reward", err, false)
		return nil
	}
	c.tally.countReward()
	if manner == duplicate {
		c.rewardAgain(ctx, v, d, reward)
	}
	return nil
}

// countRefusal counts a refusal. A call without an answer ends the run.
func (c *session) countRefusal(ctx context.Context, item string, err error, calls client.Calls) error {
	var r *client.Refusal
	if !errors.As(err, &r) {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("%s: %w", item, err)
	}
	c.tally.refusal(item, err, false)
	if item == "decision" {
		if epoch, _ := c.Gate.Now(); calls.Unsure || r.Reason == client.BadArms {
			c.truth.silent(epoch)
		}
		c.Gate.Left(nil)
	}
	return nil
}

// Package crowd plays the apps of a population's people: each person comes in their turn, asks a randomizer for a
// decision through the public client, and does with it what the caller's Serve does. The demo and the load test both
// drive people with it.
//
// A [Gate] decides when the next person may come: while the deployment learns, only as many as the open cohort has
// slots. It learns that from the randomizers' status alone, as an app could.
//
// People come in the population's order, and person i always uses the same device of the same randomizer. In which
// order their requests arrive, and who is in which cohort, depends on the machine's scheduling and is not reproducible.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/client"
)

// Crowd says who comes, to whom, and how fast.
type Crowd struct {
	Population  *population.Population
	Client      *client.Client
	Randomizers []client.Base // the device of person i is on the (i mod n)-th of the n randomizers
	// Inside, which may be nil, has the randomizers of all people in this process: Client and Randomizers are not used.
	Inside Inside
	// Named has people say their context and arms by name, as where a schema of features is announced; else their
	// vectors. It is not for Inside.
	Named       bool
	Devices     string // beginning of the devices' names: that of person i is Devices-i
	Gate        *Gate
	Concurrency int           // people served at the same time, at least 1
	Rate        float64       // people a second; 0: as fast as Concurrency allows
	Ramp        time.Duration // time over which Rate, or Concurrency, grows from 0
	// Serve is a person's visit, called from several goroutines; again sends the person through the gate once more. An
	// error ends the drive.
	Serve func(ctx context.Context, v Visit) (again bool, err error)
	// Waiting, which may be nil, is called when the next person begins or ends to wait at the gate.
	Waiting func(bool)
}

// Inside are randomizers that are called directly. The errors are those of the client.
type Inside interface {
	Status(ctx context.Context) ([]client.Status, error)
	Decide(ctx context.Context, person int, device string, arms [][]float64) (*client.Decision, client.Calls, error)
	Reward(ctx context.Context, person int, token string, reward float64) (client.Calls, error)
}

// Visit is one person's turn.
type Visit struct {
	Number int // of the person in the population, from 0
	Person population.Person
	Due    time.Time // when the person should have come; zero without a Rate
}

// At is the randomizer that has the device of person i.
func (c *Crowd) At(i int) client.Base { return c.Randomizers[i%len(c.Randomizers)] }

// Device is the name of person i's device.
func (c *Crowd) Device(i int) string { return fmt.Sprintf("%s-%d", c.Devices, i) }

// Decide asks for the decision of a visit.
func (c *Crowd) Decide(ctx context.Context, v Visit) (*client.Decision, client.Calls, error) {
	if c.Inside != nil {
		return c.Inside.Decide(ctx, v.Number, c.Device(v.Number), v.Person.Arms)
	}
	if n := v.Person.Named; c.Named && n != nil {
		r := client.Request{Context: n.Context}
		for _, a := range n.Arms {
			r.Arms = append(r.Arms, client.Arm{ID: a.ID, Features: a.Features})
		}
		return c.Client.DecideAmong(ctx, c.At(v.Number), c.Device(v.Number), r)
	}
	return c.Client.Decide(ctx, c.At(v.Number), c.Device(v.Number), v.Person.Arms)
}

// Reward tells the reward of the arm that was played.
func (c *Crowd) Reward(ctx context.Context, v Visit, d *client.Decision, reward float64) (client.Calls, error) {
	if c.Inside != nil {
		return c.Inside.Reward(ctx, v.Number, d.Token, reward)
	}
	_, calls, err := c.Client.Reward(ctx, c.At(v.Number), d.Token, reward)
	return calls, err
}

// Follow keeps the gate up to date until the context ends.
func (c *Crowd) Follow(ctx context.Context) error {
	if c.Inside != nil {
		return c.Gate.watch(ctx, func(ctx context.Context) ([]client.Status, int, error) {
			all, err := c.Inside.Status(ctx)
			return all, 0, err
		})
	}
	return c.Gate.Watch(ctx, c.Client, c.Randomizers)
}

// Drive serves all people of the population, those who come again included. It ends early with the context or the first
// error.
func (c *Crowd) Drive(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	visits := make(chan Visit)
	served := make(chan served, c.Concurrency+1) // room for all visits that are under way: no worker waits for invite
	var workers sync.WaitGroup
	for w := range c.Concurrency {
		workers.Go(func() {
			if c.Rate == 0 && c.Ramp > 0 && !Pause(ctx, c.Ramp*time.Duration(w)/time.Duration(c.Concurrency)) {
				return
			}
			for v := range visits {
				served <- c.serve(ctx, v, stop)
			}
		})
	}
	err := c.invite(ctx, visits, served)
	close(visits)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// served is a visit that is over.
type served struct {
	Visit
	again bool
}

func (c *Crowd) serve(ctx context.Context, v Visit, stop context.CancelCauseFunc) served {
	again, err := c.Serve(ctx, v)
	if err != nil && ctx.Err() == nil {
		stop(fmt.Errorf("person %d: %w", v.Number, err))
	}
	return served{v, again && err == nil}
}

// invite sends people to the workers as they come, until everyone was served.
func (c *Crowd) invite(ctx context.Context, visits chan<- Visit, done <-chan served) error {
	next, end := iter.Pull2(c.Population.People())
	defer end()
	pace := &arrivals{rate: c.Rate, ramp: c.Ramp, origin: time.Now()}
	var back []Visit // people who come again
	over := func(s served) {
		if s.again {
			back = append(back, s.Visit)
		}
	}
	known, underWay := 0, 0
	for more := true; ; {
		for len(done) > 0 {
			over(<-done)
			underWay--
		}
		var v Visit
		switch last := len(back) - 1; {
		case last >= 0:
			v, back = back[last], back[:last]
		case more:
			person, err, ok := next()
			if err != nil {
				return fmt.Errorf("person %d of the population: %w", known, err)
			}
			if more = ok; !ok {
				continue
			}
			v = Visit{Number: known, Person: person}
			known++
		case underWay == 0:
			return nil
		default:
			over(<-done) // a worker whose context ends is done soon
			underWay--
			continue
		}
		due, err := c.admit(ctx, pace)
		if err != nil {
			return err
		}
		v.Due = due
		select {
		case <-ctx.Done():
			return ctx.Err()
		case visits <- v:
			underWay++
		}
	}
}

// admit waits for a slot and for the next person's time, which it returns.
func (c *Crowd) admit(ctx context.Context, pace *arrivals) (time.Time, error) {
	if !c.Gate.Try() {
		c.waiting(true)
		begin := time.Now()
		if err := c.Gate.Enter(ctx); err != nil {
			return time.Time{}, err
		}
		pace.hold(time.Since(begin))
		c.waiting(false)
	}
	return pace.next(ctx)
}

func (c *Crowd) waiting(yes bool) {
	if c.Waiting != nil {
		c.Waiting(yes)
	}
}

// Pause waits and reports whether the context is still alive.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

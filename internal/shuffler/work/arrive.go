package work

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/worker"
)

// asking is how many batches of claims are asked about at the same time.
const asking = 4

// arrival is a delivered report on its way to a decision.
type arrival struct {
	*bus.Delivery
	claim Claim
}

// Arrive opens reports as they arrive, with all other workers and the lead, and has the lead decide on them, until the
// context ends. A report is acknowledged once the decision on it is durable: one that a worker takes along when it dies
// is delivered again to another one.
//
// It takes reports only while the lead answers: with other keys than the lead's, or without a lead, it would keep them
// from those who can have them decided.
//
// It always returns an error: the context's cause, or the broker's.
func (w *Worker) Arrive(ctx context.Context, lead worker.Asker) error {
	for {
		if err := w.await(ctx, lead); err != nil {
			return err
		}
		if err := w.arrive(ctx, lead); !errors.Is(err, errSilent) {
			return err
		}
		w.c.Log.Warn().Msg("the lead does not answer: this worker takes no reports until it does")
	}
}

// errSilent says that the lead left a question without an answer for silent.
var errSilent = errors.New("shuffler: the lead does not answer")

// silent is how long a question may be under way before a worker leaves the reports to others.
const silent = 10 * time.Second

// await asks the lead about no report until it answers.
func (w *Worker) await(ctx context.Context, lead worker.Asker) error {
	for {
		_, err := lead.Ask(ctx, Question, make([]byte, 16))
		if err == nil || errors.Is(err, bus.ErrForbidden) {
			return err
		}
		if err := role.Sleep(ctx, role.SystemClock(), laterPause); err != nil {
			return err
		}
	}
}

// arrive does it until the lead falls silent.
func (w *Worker) arrive(ctx context.Context, lead worker.Asker) error {
	g, ctx := errgroup.WithContext(ctx)
	deliveries := make(chan *bus.Delivery)
	arrivals := make(chan *arrival, MaxBatch)
	g.Go(func() error {
		return w.c.Bus.ReceiveReports(ctx, func(d *bus.Delivery) {
			select {
			case deliveries <- d:
			case <-ctx.Done():
			}
		})
	})
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for {
				select {
				case d := <-deliveries:
					select {
					case arrivals <- &arrival{d, w.claim(d)}:
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		})
	}
	for range asking {
		g.Go(func() error {
			for {
				select {
				case first := <-arrivals:
					if err := w.ask(ctx, lead, arrived(first, arrivals)); err != nil {
						return err
					}
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		})
	}
	return g.Wait()
}

// arrived is what has arrived by now.
func arrived(first *arrival, arrivals <-chan *arrival) []*arrival {
	all := []*arrival{first}
	for len(all) < MaxBatch {
		select {
		case next := <-arrivals:
			all = append(all, next)
		default:
			return all
		}
	}
	return all
}

// claim opens a report, if its round is known.
func (w *Worker) claim(d *bus.Delivery) Claim {
	c := Claim{Epoch: d.Epoch, Round: d.Round, Sequence: d.Sequence, Redelivered: d.Redelivered}
	layout := w.rounds.layout(d.Epoch, d.Round)
	if layout == (channel.Layout{}) {
		c.Unopened = true
		return c
	}
	report, digest, err := w.envelopes.Open(d.Payload, d.Epoch, d.Round, layout)
	var refused *cohort.Refused
	if errors.As(err, &refused) {
		c.Refused = refused.Reason
		return c
	}
	c.Device, c.Slot = cohort.DeviceID{Host: report.HostKey, Number: report.Device}, report.Slot
	c.Announced, c.Digest = report.Announcement, digest
	return c
}

// ask asks the lead about a batch, and once more about what it has to open first. Its error ends the worker.
func (w *Worker) ask(ctx context.Context, lead worker.Asker, all []*arrival) error {
	for len(all) > 0 {
		src := w.c.Source()
		var id BatchID
		binary.BigEndian.PutUint64(id[:], src.Uint64())
		binary.BigEndian.PutUint64(id[8:], src.Uint64())
		claims := make([]Claim, len(all))
		for i, a := range all {
			claims[i] = a.claim
		}
		asked, cancel := context.WithTimeout(ctx, silent)
		b, err := lead.Ask(asked, Question, Batch(id, claims))
		cancel()
		var reply Answer
		if err == nil {
			err = json.Unmarshal(b, &reply)
		}
		if err == nil && len(reply.Verdicts) != len(all) {
			err = errClaims
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, bus.ErrForbidden):
			return err
		case errors.Is(err, context.DeadlineExceeded):
			for _, a := range all {
				w.acknowledged(a.Retry(laterPause))
			}
			return errSilent
		case err != nil: // the lead stops, or is of another version: the reports come again
			w.c.Log.Warn().Err(err).Msg("the lead has not decided on reports; they come again")
			for _, a := range all {
				w.acknowledged(a.Retry(laterAgainPause))
			}
			return role.Sleep(ctx, role.SystemClock(), laterPause)
		}
		w.rounds.learn(reply.Rounds)
		var again []*arrival
		for i, a := range all {
			switch reply.Verdicts[i] {
			case Settled:
				w.acknowledged(a.Ack())
			case Open:
				if a.claim = w.claim(a.Delivery); !a.claim.Unopened {
					again = append(again, a)
					continue
				}
				w.acknowledged(a.Retry(laterPause)) // the round is over meanwhile
			default:
				w.acknowledged(a.Retry(Later(a.Redelivered)))
			}
		}
		all = again
	}
	return nil
}

// acknowledged logs that an acknowledgement was lost: the broker will deliver the report again, and the lead knows it.
func (w *Worker) acknowledged(err error) {
	if err != nil {
		w.c.Log.Debug().Err(err).Msg("acknowledgement lost")
	}
}

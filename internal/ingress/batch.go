package ingress

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
)

const (
	// storers is how many batches are on their way at a time: while the broker syncs one, the next ones come in.
	storers = 3
	// batchBytes bounds what a batch has, together with bus.MaxBatch.
	batchBytes = 2 << 20
)

// batches hands reports to the broker together: whatever has come while earlier batches were on their way. Nothing
// waits for a batch to fill.
type batches struct {
	bus     Broker
	waiting chan *waiting
	stored  func(reports int)
	stopped chan struct{}
}

// waiting is a report that someone waits for.
type waiting struct {
	bus.Ticketed
	done chan error // has room for the answer
}

func newBatches(b Broker, stored func(int)) *batches {
	if stored == nil {
		stored = func(int) {}
	}
	return &batches{bus: b, waiting: make(chan *waiting, bus.MaxBatch), stored: stored, stopped: make(chan struct{})}
}

// store returns once the broker has stored the report, or why it has not.
func (b *batches) store(ctx context.Context, report bus.Ticketed) error {
	own := &waiting{report, make(chan error, 1)}
	select {
	case b.waiting <- own:
	case <-b.stopped:
		return errStopped
	case <-ctx.Done():
		return errors.Join(bus.ErrUnknown, context.Cause(ctx))
	}
	select { // whoever took it answers, so that its memory is free when this returns
	case err := <-own.done:
		return err
	case <-b.stopped:
	}
	select {
	case err := <-own.done:
		return err
	default:
		return errStopped
	}
}

// run stores what comes until the context ends.
func (b *batches) run(ctx context.Context) error {
	var g errgroup.Group
	for range storers {
		g.Go(func() error {
			for {
				select {
				case first := <-b.waiting:
					b.storeAll(ctx, b.gather(first))
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		})
	}
	defer close(b.stopped)
	return g.Wait()
}

// gather is a report and what waits behind it.
func (b *batches) gather(first *waiting) []*waiting {
	all, bytes := []*waiting{first}, len(first.Payload)
	for len(all) < bus.MaxBatch && bytes < batchBytes {
		select {
		case next := <-b.waiting:
			all, bytes = append(all, next), bytes+len(next.Payload)
		default:
			return all
		}
	}
	return all
}

func (b *batches) storeAll(ctx context.Context, all []*waiting) {
	reports := make([]bus.Ticketed, len(all))
	for i, w := range all {
		reports[i] = w.Ticketed
	}
	// What was begun is finished: a server that stops waits for its requests.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	errs := b.bus.PublishTicketed(ctx, reports)
	for i, w := range all {
		w.done <- errs[i]
	}
	b.stored(len(all))
}

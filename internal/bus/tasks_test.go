package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// Tasks are handed out once each, come again if nobody settles them, and are refused while too many wait. What a lead
// and its workers say to each other stays in their role's account.
func TestTasksAreHandedOutOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(_ *broker.Options, p *bus.ProvisionOptions) {
		p.TaskWait, p.MaxTaskBytes = 5*time.Second, 1<<20 // longer than a busy machine takes to settle one
	})
	shuf, ana := b.connect(bus.Shuffler), b.connect(bus.Analyzer)
	ctx := b.ctx()
	full := error(nil)
	stored := 0
	for full == nil && stored < 100 {
		if full = shuf.Tasks.PublishTask(ctx, append(make([]byte, 100<<10), fmt.Sprint(stored)...)); full == nil {
			stored++
		}
	}
	if !errors.Is(full, bus.ErrFull) || stored < 5 {
		t.Fatalf("%d tasks, then %v", stored, full)
	}
	seen := map[string]int{}
	done := 0
	consuming, stop := context.WithCancelCause(ctx)
	err := shuf.Tasks.ReceiveTasks(consuming, 1, func(task *bus.Task) {
		name := string(task.Payload[100<<10:])
		if seen[name]++; seen[name] == 1 && name == "0" {
			return // it died: nothing is said of this task
		}
		if name == "0" && !task.Redelivered {
			t.Error("a task that came again says that it did not")
		}
		if err := task.Done(); err != nil {
			t.Error(err)
		}
		if done++; done == stored {
			stop(errStop)
		}
	})
	if !errors.Is(err, errStop) || len(seen) != stored || seen["0"] != 2 || seen["1"] != 1 {
		t.Errorf("%v of %d tasks: %v", seen, stored, err)
	}
	if err := shuf.Tasks.PublishTask(ctx, []byte("again there is room")); err != nil {
		t.Error(err)
	}
	if err := shuf.Tasks.PurgeTasks(ctx); err != nil {
		t.Error(err)
	}
	if _, err := ana.Lead.AskLead(ctx, []byte("x")); !errors.Is(err, bus.ErrNoLead) {
		t.Errorf("a lead of the analyzer: %v", err)
	}
	serving, halt := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- shuf.Lead.ServeLead(serving, 2, func(_ context.Context, p []byte) []byte { return append([]byte("to "), p...) })
	}()
	second := b.connect(bus.Shuffler)
	reply, err := second.Lead.AskLead(ctx, []byte("w"))
	for errors.Is(err, bus.ErrNoLead) { // not yet
		reply, err = second.Lead.AskLead(ctx, []byte("w"))
	}
	if err != nil || string(reply) != "to w" {
		t.Errorf("%q, %v", reply, err)
	}
	if _, err := ana.Lead.AskLead(ctx, []byte("x")); !errors.Is(err, bus.ErrNoLead) {
		t.Errorf("the shuffler's lead answers the analyzer: %v", err)
	}
	halt()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A segment is stored once, can be read by any process of the shuffler, and is gone when segments are purged, whatever
// round it is of: what a destroyed release left behind must not fill the stream for ever.
func TestSegmentsAreStoredOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	shuf, other := b.connect(bus.Shuffler), b.connect(bus.Shuffler)
	ctx := b.ctx()
	for round := range uint32(2) {
		for range 2 { // a repetition is the same
			if err := shuf.Segments.PublishSegment(ctx, 7, round, "e1", 3, []byte{byte(round)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := shuf.Segments.PublishSegment(ctx, 7, 0, "e1", 3, []byte("another")); !errors.Is(err, bus.ErrExists) {
		t.Errorf("another segment under the name: %v", err)
	}
	if err := shuf.Segments.PublishSegment(ctx, 7, 0, "e.1", 3, nil); !errors.Is(err, bus.ErrBadName) {
		t.Errorf("a name with a dot: %v", err)
	}
	if p, err := other.Segments.ReadSegment(ctx, 7, 1, "e1", 3); err != nil || len(p) != 1 || p[0] != 1 {
		t.Errorf("%v, %v", p, err)
	}
	if err := shuf.Segments.PurgeSegments(ctx); err != nil {
		t.Fatal(err)
	}
	for round := range uint32(2) {
		if _, err := other.Segments.ReadSegment(ctx, 7, round, "e1", 3); !errors.Is(err, bus.ErrGone) {
			t.Errorf("a purged segment of round %d: %v", round, err)
		}
	}
	if err := b.connect(bus.Analyzer).Segments.PublishSegment(ctx, 7, 0, "e1", 3, nil); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("the analyzer stored a segment: %v", err)
	}
}

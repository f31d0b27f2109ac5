package outcome_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"

	"github.com/riffle-dp/riffle/internal/role/outcome"
)

const (
	duplicate  outcome.Reason = "duplicate"
	late       outcome.Reason = "late"
	undeclared outcome.Reason = "undeclared" // nowhere
)

// The error, the label and what Refused returns are one and the same, through any wrapping.
func TestReasonIsErrorAndLabel(t *testing.T) {
	reg := prometheus.NewRegistry()
	o, err := outcome.New(reg, "shuffler", "report", nil, duplicate, late)
	if err != nil {
		t.Fatal(err)
	}
	cause := fmt.Errorf("admit: %w", fmt.Errorf("%w: 3 minutes past the deadline", late))
	if !errors.Is(cause, late) || errors.Is(cause, duplicate) {
		t.Fatal("errors.Is does not see the reason")
	}
	o.Received(10)
	o.Released(4)
	if got := o.Refused(cause, 2); got != late {
		t.Errorf("got %q", got)
	}
	if got := o.Refused(errors.New("who knows"), 1); got != outcome.Unlisted {
		t.Errorf("got %q", got)
	}
	if got := o.Refused(undeclared, 1); got != outcome.Unlisted {
		t.Errorf("got %q", got)
	}
	if got := o.Refused(nil, 1); got != outcome.Unlisted {
		t.Errorf("got %q", got)
	}
	o.Retried(duplicate)
	o.Resumed(5)
	o.Received(-3) // counts nothing
	const want = `
# HELP riffle_pending_items Items held at the moment.
# TYPE riffle_pending_items gauge
riffle_pending_items{item="report",role="shuffler"} 0
# HELP riffle_received_total Items that came in.
# TYPE riffle_received_total counter
riffle_received_total{item="report",role="shuffler"} 10
# HELP riffle_refused_total Items that were refused or dropped, by reason.
# TYPE riffle_refused_total counter
riffle_refused_total{item="report",reason="duplicate",role="shuffler"} 0
riffle_refused_total{item="report",reason="late",role="shuffler"} 2
riffle_refused_total{item="report",reason="unlisted",role="shuffler"} 3
# HELP riffle_released_total Items that went on to the next tier, or into a result.
# TYPE riffle_released_total counter
riffle_released_total{item="report",role="shuffler"} 4
# HELP riffle_resumed_items Items that were already held when the process started.
# TYPE riffle_resumed_items gauge
riffle_resumed_items{item="report",role="shuffler"} 5
# HELP riffle_retried_total Steps that were tried again, by reason; a retry is no outcome.
# TYPE riffle_retried_total counter
riffle_retried_total{item="report",reason="duplicate",role="shuffler"} 1
riffle_retried_total{item="report",reason="late",role="shuffler"} 0
riffle_retried_total{item="report",reason="unlisted",role="shuffler"} 0
# HELP riffle_unaccounted_items resumed + received - released - refused - pending. ` +
		`It may leave 0 for moments while items are on their way; ` +
		`if it stays away from 0, items were lost or counted twice.
# TYPE riffle_unaccounted_items gauge
riffle_unaccounted_items{item="report",role="shuffler"} 6
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	err = o.Check()
	for _, want := range []string{"6 items report unaccounted for: resumed 5 + received 10 != released 4 + refused",
		"3 items report refused without a declared reason"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check said %v, want %q", err, want)
		}
	}
}

func TestReasonsMustBeWellFormed(t *testing.T) {
	reg := prometheus.NewRegistry()
	for _, reasons := range [][]outcome.Reason{{"Late"}, {""}, {"two words"}, {late, late}, {outcome.Unlisted}} {
		if _, err := outcome.New(reg, "shuffler", "report", nil, reasons...); err == nil {
			t.Errorf("%q was taken", reasons)
		}
	}
	for _, item := range []string{"report", "bit_message"} { // two kinds of items share a registry
		if _, err := outcome.New(reg, "shuffler", item, nil, late); err != nil {
			t.Error(err)
		}
	}
	if _, err := outcome.New(reg, "shuffler", "report", nil, late); err == nil {
		t.Error("one account was registered twice")
	}
}

// tier is a role of the simplest kind: it holds items, and may be told to forget to count one.
type tier struct {
	mu   sync.Mutex
	held int64
	*outcome.Outcomes
}

func newTier(t interface{ Fatal(...any) }) *tier {
	r := &tier{}
	var err error
	r.Outcomes, err = outcome.New(prometheus.NewRegistry(), "tier", "item", func() int64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.held
	}, duplicate, late)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The identity holds after any history, and stops holding as soon as one item goes astray: a check that cannot fail
// would be none.
func TestEveryItemIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newTier(t)
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			n := rapid.IntRange(0, 5).Draw(t, "n")
			switch rapid.SampledFrom([]string{"receive", "resume", "release", "refuse", "retry"}).Draw(t, "step") {
			case "receive":
				r.Received(n)
				r.held += int64(n)
			case "resume":
				r.Resumed(n)
				r.held += int64(n)
			case "release":
				n = min(n, int(r.held))
				r.Released(n)
				r.held -= int64(n)
			case "refuse":
				n = min(n, int(r.held))
				r.Refused(rapid.SampledFrom([]outcome.Reason{duplicate, late}).Draw(t, "reason"), n)
				r.held -= int64(n)
			case "retry":
				r.Retried(late)
			}
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		switch rapid.SampledFrom([]string{"lost", "counted twice", "from nowhere"}).Draw(t, "defect") {
		case "lost":
			r.Received(1)
		case "counted twice":
			r.Released(1)
		case "from nowhere":
			r.held++
		}
		if r.Check() == nil {
			t.Fatal("the defect went unnoticed")
		}
	})
}

// Many goroutines count while others read; the role's own lock may be held while it counts.
func TestConcurrentItemsAreAllCounted(t *testing.T) {
	r := newTier(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				r.mu.Lock()
				r.Received(2)
				r.held += 2
				r.mu.Unlock()
				r.mu.Lock()
				r.Refused(late, 1)
				r.Released(1)
				r.held -= 2
				r.mu.Unlock()
			}
		})
		wg.Go(func() {
			for range 200 {
				r.Balance()
			}
		})
	}
	wg.Wait()
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	if b := r.Balance(); b.Received != 16000 || b.Released != 8000 {
		t.Errorf("%+v", b)
	}
}

func BenchmarkReceived(b *testing.B) {
	r := newTier(b)
	for b.Loop() {
		r.Received(1)
	}
}

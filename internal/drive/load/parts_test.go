package load

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestArrivalsFollowTheirRate(t *testing.T) {
	a := newArrivals(100, 10*time.Second, time.Now())
	// The ramp brings half of what ten seconds at full rate would.
	for _, test := range []struct {
		k    int
		want time.Duration
	}{{0, 0}, {125, 5 * time.Second}, {500, 10 * time.Second}, {600, 11 * time.Second}, {1500, 20 * time.Second}} {
		if got := a.at(test.k); (got - test.want).Abs() > time.Millisecond {
			t.Errorf("person %d comes after %s, want %s", test.k, got, test.want)
		}
	}
	for k, last := 1, time.Duration(0); k < 2000; k++ {
		if got := a.at(k); got <= last {
			t.Fatalf("person %d comes at %s, the one before at %s", k, got, last)
		} else {
			last = got
		}
	}
}

func TestArrivalsCountFromWhenTheyWereDue(t *testing.T) {
	a := newArrivals(1000, 0, time.Now().Add(-time.Second))
	due, err := a.next(t.Context())
	if err != nil || time.Since(due) < time.Second {
		t.Errorf("due %s ago, %v", time.Since(due), err)
	}
	a.held(time.Second)
	if due, err = a.next(t.Context()); err != nil || time.Since(due) > 500*time.Millisecond {
		t.Errorf("after being held up: due %s ago, %v", time.Since(due), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := a.next(ctx); err == nil {
		t.Error("somebody came after the end")
	}
}

func TestGoals(t *testing.T) {
	r := &Result{Decided: 100, Regret: 1, UniformRegret: 10, Decisions: Latency{P99: 12}, Watched: true, Absent: 1, Accounts: []Account{{Unaccounted: -2}}}
	for text, want := range map[string]string{
		"p99_ms<=12": "met", "p99_ms < 12": "missed", "regret_ratio<=0.2": "met", "decided=100": "met", "decided!=100": "missed", "decided == 100": "met",
		"lost=3": "met", "lost=0": "missed", "error_z<=6": "not measured", "final>0": "missed", "decided>=1e2": "met",
		"p99<=5": "wrong", "p99_ms": "wrong", "p99_ms<=fast": "wrong", "p99_ms<=NaN": "wrong", "<=5": "wrong",
	} {
		g, err := ParseGoal(text)
		if err != nil {
			if want != "wrong" {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		got := "missed"
		if v := g.judge(r); v.Met {
			got = "met"
		} else if v.Value == nil {
			got = "not measured"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	// An epsilon that misses its limit by little does not read as if it met it.
	r.Compared, r.Epsilon, r.Goals = 1, 1.00001, []Verdict{Goal{"epsilon", "<=", 1}.judge(&Result{Compared: 1, Epsilon: 1.00001})}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if missed := r.Missed(); len(missed) != 1 || missed[0] != "epsilon<=1 (it is 1.0001)" || strings.Count(table.String(), "1.0001") != 2 {
		t.Errorf("%v\n%s", missed, table.String())
	}
	for name := range measures {
		if !strings.Contains(Measures(), name) {
			t.Errorf("%s is not in the help", name)
		}
	}
}

func TestMetricsAreRead(t *testing.T) {
	samples, err := parseMetrics(strings.NewReader(`# HELP a b
# TYPE a counter
riffle_refused_total{item="report",reason="dup,li\"cate}",role="shuffler"} 4
riffle_pending_items{item="report",role="shuffler"} 1.5e+03
go_info{version="go1.26 {x} "} 1 1700000000
up 1
inf +Inf
`))
	if err != nil || len(samples) != 5 {
		t.Fatalf("%v %v", samples, err)
	}
	if s := samples[0]; s.name != "riffle_refused_total" || s.labels["reason"] != `dup,li\"cate}` || s.labels["role"] != "shuffler" || s.value != 4 {
		t.Errorf("%+v", s)
	}
	if samples[1].value != 1500 || samples[2].value != 1 || samples[3].name != "up" || !math.IsInf(samples[4].value, 1) {
		t.Errorf("%+v", samples)
	}
	for _, bad := range []string{"a{b=\"c\"", "a", "a x", "a{} x"} {
		if _, err := parseMetrics(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// A randomizer that does not answer keeps everybody waiting: people are told of it, once.
func TestGateTellsOfAnAbsentRandomizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, told := newGate(false), 0
		g.away = func(api string, err error) {
			if told++; api != "://nowhere" || err == nil {
				t.Errorf("%s: %v", api, err)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), 3*patience)
		defer stop()
		c := client.New(client.Options{})
		defer c.Close()
		if err := g.watch(ctx, c, []string{"://nowhere"}); err == nil || told != 1 {
			t.Errorf("told %d times, %v", told, err)
		}
	})
}

func TestGateLetsInAsManyAsThereArePlaces(t *testing.T) {
	g := newGate(false)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	status := func(epoch uint64, enrolling bool) randomizer.Status {
		return randomizer.Status{Epoch: epoch, Cohort: 2, Enrolling: enrolling}
	}
	g.see([]randomizer.Status{status(1, true), status(0, false)}) // one is behind: nobody comes yet
	if g.try() {
		t.Fatal("somebody came too early")
	}
	g.see([]randomizer.Status{status(1, true), status(1, true)})
	for i, want := range []bool{true, true, false} {
		if g.try() != want {
			t.Fatalf("person %d came: %v", i, !want)
		}
	}
	g.left(&randomizer.Decision{Epoch: 1, Reason: randomizer.Unreachable}) // their place is free again
	if _, err := g.enter(ctx); err != nil || g.try() {
		t.Fatal("not one more came")
	}
	g.see([]randomizer.Status{status(1, true), status(1, true)}) // the same epoch gives no new places
	if g.try() {
		t.Fatal("a place came out of nothing")
	}
	g.see([]randomizer.Status{status(2, true), status(2, true)})
	g.left(&randomizer.Decision{Epoch: 1, Reason: randomizer.Unreachable}) // of an earlier cohort
	g.left(&randomizer.Decision{Epoch: 2, Reason: randomizer.CohortFull})
	if g.try() {
		t.Fatal("somebody came to a full cohort")
	}
	entered := make(chan error, 1)
	go func() { _, err := g.enter(ctx); entered <- err }()
	g.see([]randomizer.Status{{Epoch: 3, Final: true}, {Epoch: 3, Final: true}})
	if err := <-entered; err != nil || !g.try() {
		t.Error("the last policy lets everybody in")
	}
	g = newGate(false)
	g.see([]randomizer.Status{{Epoch: 1, Refused: "weak"}, {Epoch: 1, Refused: "weak"}})
	if _, err := g.enter(ctx); err == nil {
		t.Error("everybody refuses the plan, and people came")
	}
}

func TestWhatCannotBeCompared(t *testing.T) {
	m := func(enrolled, reports uint32) *wire.Manifest {
		return &wire.Manifest{Enrolled: enrolled, Reports: reports}
	}
	for name, test := range map[string]struct {
		m     *wire.Manifest
		c     *wire.Counts
		known cohort
		good  bool
	}{
		"all ours":         {m(10, 10), &wire.Counts{}, cohort{sampled: 10}, true},
		"some silent":      {m(12, 12), &wire.Counts{}, cohort{sampled: 10, silent: 3}, true},
		"somebody else":    {m(14, 14), &wire.Counts{}, cohort{sampled: 10, silent: 3}, false},
		"somebody missing": {m(10, 9), &wire.Counts{}, cohort{sampled: 10}, false},
		"fewer than told":  {m(9, 9), &wire.Counts{}, cohort{sampled: 10}, false},
		"destroyed":        {m(10, 10), &wire.Counts{Destroyed: true}, cohort{sampled: 10}, false},
		"a lost answer":    {m(10, 10), &wire.Counts{}, cohort{sampled: 10, unsure: "lost"}, false},
	} {
		if why := comparable(test.m, test.c, test.known); (why == "") != test.good {
			t.Errorf("%s: %q", name, why)
		}
	}
}

package load

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestGoals(t *testing.T) {
	r := &Result{
		Decided: 100, Regret: 1, UniformRegret: 10, Decisions: Latency{P99: 12}, Watched: true, Absent: 1,
		Accounts: []Account{{Unaccounted: -2}},
	}
	for text, want := range map[string]string{
		"p99_ms<=12": "met", "p99_ms < 12": "missed", "regret_ratio<=0.2": "met", "decided=100": "met",
		"decided!=100": "missed", "decided == 100": "met",
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
	r.Compared, r.Epsilon = 1, 1.00001
	r.Goals = []Verdict{Goal{"epsilon", "<=", 1}.judge(r)}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	missed := r.Missed()
	if !slices.Equal(missed, []string{"epsilon<=1 (it is 1.0001)"}) || strings.Count(table.String(), "1.0001") != 2 {
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
	labels := map[string]string{"item": "report", "reason": `dup,li\"cate}`, "role": "shuffler"}
	if s := samples[0]; s.name != "riffle_refused_total" || !maps.Equal(s.labels, labels) || s.value != 4 {
		t.Errorf("%+v", s)
	}
	values := samples[1].value == 1500 && samples[2].value == 1 && math.IsInf(samples[4].value, 1)
	if !values || samples[3].name != "up" {
		t.Errorf("%+v", samples)
	}
	for _, bad := range []string{"a{b=\"c\"", "a", "a x", "a{} x"} {
		if _, err := parseMetrics(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
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
		"other people":     {m(14, 14), &wire.Counts{}, cohort{sampled: 10, silent: 3}, false},
		"a report missing": {m(10, 9), &wire.Counts{}, cohort{sampled: 10}, false},
		"fewer than told":  {m(9, 9), &wire.Counts{}, cohort{sampled: 10}, false},
		"destroyed":        {m(10, 10), &wire.Counts{Destroyed: true}, cohort{sampled: 10}, false},
		"a lost answer":    {m(10, 10), &wire.Counts{}, cohort{sampled: 10, unsure: "lost"}, false},
	} {
		if why := comparable(test.m, test.c, test.known); (why == "") != test.good {
			t.Errorf("%s: %q", name, why)
		}
	}
}

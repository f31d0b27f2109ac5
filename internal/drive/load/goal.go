package load

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Goal is what a run must reach: a measure, a comparison and a number, as in p99_ms<=500.
type Goal struct {
	Measure string
	Op      string
	Limit   float64
}

// measures are what goals can be about. A measure that a run did not take is NaN, and misses every goal.
var measures = map[string]struct {
	what string
	of   func(*Result) float64
}{
	"decided":       {"people who got a decision", func(r *Result) float64 { return float64(r.Decided) }},
	"sampled":       {"people whose devices report", func(r *Result) float64 { return float64(r.Sampled) }},
	"rate":          {"people a second, mean", func(r *Result) float64 { return r.Rate }},
	"peak_rate":     {"people a second, best second", func(r *Result) float64 { return r.PeakRate }},
	"p50_ms":        {"median time of a decision", func(r *Result) float64 { return r.Decisions.P50 }},
	"p90_ms":        {"90th percentile of a decision's time", func(r *Result) float64 { return r.Decisions.P90 }},
	"p99_ms":        {"99th percentile of a decision's time", func(r *Result) float64 { return r.Decisions.P99 }},
	"p999_ms":       {"99.9th percentile of a decision's time", func(r *Result) float64 { return r.Decisions.P999 }},
	"max_ms":        {"time of the slowest decision", func(r *Result) float64 { return r.Decisions.Max }},
	"reward_p99_ms": {"99th percentile of a reward's time", func(r *Result) float64 { return r.Rewards.P99 }},
	"regret_ratio":  {"regret divided by that of uniform play", (*Result).ratio},
	"unexpected":    {"refusals that were not provoked", func(r *Result) float64 { return float64(r.Unexpected) }},
	"anomalies": {"kinds of events that must never happen",
		func(r *Result) float64 { return float64(len(r.Anomalies)) }},
	"repeats":  {"calls that had to be repeated", func(r *Result) float64 { return float64(r.Repeats) }},
	"releases": {"released sums", func(r *Result) float64 { return float64(len(r.Releases)) }},
	"compared": {"released sums that were compared with the truth",
		func(r *Result) float64 { return float64(r.Compared) }},
	"error_z": {"largest standardised error of a coordinate", func(r *Result) float64 { return r.ifCompared(r.MaxZ) }},
	"error_p": {"smaller tail probability of all released errors together",
		func(r *Result) float64 { return r.ifCompared(min(r.TooLarge, r.TooSmall)) }},
	"lost": {"promised reports that no release and no refusal accounts for", (*Result).losses},
	epsilonMeasure: {"largest epsilon of an epoch, with the reports that came",
		func(r *Result) float64 { return r.ifCompared(r.Epsilon) }},
	"final": {"1 if the last policy was announced, else 0", func(r *Result) float64 { return bit(r.Final) }},
}

// comparisons in the order in which they are looked for.
var comparisons = []struct {
	op   string
	good func(a, b float64) bool
}{
	{"<=", func(a, b float64) bool { return a <= b }},
	{">=", func(a, b float64) bool { return a >= b }},
	{"!=", func(a, b float64) bool { return a != b }},
	{"==", func(a, b float64) bool { return a == b }},
	{"<", func(a, b float64) bool { return a < b }},
	{">", func(a, b float64) bool { return a > b }},
	{"=", func(a, b float64) bool { return a == b }},
}

// Measures lists what goals can be about, for a command's help.
func Measures() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(measures)) {
		fmt.Fprintf(&b, "  %-14s %s\n", name, measures[name].what)
	}
	return b.String()
}

// ParseGoal reads a goal.
func ParseGoal(text string) (Goal, error) {
	for _, c := range comparisons {
		name, limit, ok := strings.Cut(text, c.op)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(limit), 64)
		if err != nil || math.IsNaN(v) {
			return Goal{}, fmt.Errorf("goal %q: %q is not a number", text, strings.TrimSpace(limit))
		}
		g := Goal{strings.TrimSpace(name), c.op, v}
		return g, g.check()
	}
	return Goal{}, fmt.Errorf("goal %q: want a measure, one of <= >= < > = !=, and a number, as in p99_ms<=500", text)
}

func (g Goal) check() error {
	if _, known := measures[g.Measure]; !known {
		known := strings.Join(slices.Sorted(maps.Keys(measures)), ", ")
		return fmt.Errorf("goal %q: unknown measure %q; known are %s", g, g.Measure, known)
	}
	return nil
}

func (g Goal) String() string {
	return g.Measure + g.Op + strconv.FormatFloat(g.Limit, 'g', -1, 64)
}

// Verdict is a goal with what was measured.
type Verdict struct {
	Goal  string   `json:"goal"`
	Value *float64 `json:"value"` // null: not measured
	Met   bool     `json:"met"`

	measure string
}

// text is the measured value as text.
func (v Verdict) text() string {
	if v.measure == epsilonMeasure {
		return privacy.Spell(*v.Value)
	}
	return fmt.Sprintf("%.4g", *v.Value)
}

// epsilonMeasure is rounded up where it is shown, because it states a guarantee.
const epsilonMeasure = "epsilon"

// judge reports whether a result meets the goal.
func (g Goal) judge(r *Result) Verdict {
	v := measures[g.Measure].of(r)
	out := Verdict{Goal: g.String(), measure: g.Measure}
	if math.IsNaN(v) {
		return out
	}
	out.Value = &v
	for _, c := range comparisons {
		if c.op == g.Op {
			out.Met = c.good(v, g.Limit)
		}
	}
	return out
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

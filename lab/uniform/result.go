package uniform

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Sample is the releases of one source, with a judge of their own.
type Sample struct {
	Name   string // empty: the only one
	judge  *Judge
	shapes []Shape
}

// keptShapes is how many shapes of a sample's releases are kept, for simulations of the same shapes in turn.
const keptShapes = 256

// Samples makes one sample of each name, which share the rate of false alarms equally. 0: FalseAlarm.
func Samples(falseAlarm float64, names ...string) []*Sample {
	all := make([]*Sample, len(names))
	for i, name := range names {
		all[i] = &Sample{Name: name, judge: New(cmp.Or(falseAlarm, FalseAlarm) / float64(len(names)))}
	}
	return all
}

// Add judges one more release. The error is that of Release.Check.
func (s *Sample) Add(r *Release, shape Shape) error {
	if len(s.shapes) < keptShapes {
		s.shapes = append(s.shapes, shape)
	}
	return s.judge.Add(r)
}

// Judge is the sample's.
func (s *Sample) Judge() *Judge { return s.judge }

// Result is a verdict on one or several samples.
type Result struct {
	// OK says that nothing was found. How much that means is Power.
	OK bool `json:"ok"`
	// FalseAlarm is how likely it is at most that uniformly random orders are rejected.
	FalseAlarm float64         `json:"false_alarm_rate"`
	Samples    []Size          `json:"samples"`
	Tests      []Finding       `json:"tests"`
	Power      map[Fault]Power `json:"power"` // of the sample that finds the fault best
	Planted    Fault           `json:"planted,omitempty"`
	Warning    string          `json:"warning,omitempty"` // that the data show little, or nothing
}

// largeSample is up to how many times the options' Items a simulated run has, where the sample has as many.
const largeSample = 10

// Size is how large a sample is.
type Size struct {
	Name     string `json:"name,omitempty"`
	Releases int    `json:"releases"`
	Items    int    `json:"items"`
}

// lowPower is the power below which a fault counts as one that the data would not show.
const lowPower = 0.5

// Rule is a finding about what must never happen: it raises no false alarm. A broken one has p-value 0.
func Rule(name string, holds bool) Finding {
	if holds {
		return Finding{Test: name, P: 1, OK: true}
	}
	return Finding{Test: name}
}

// Verdict judges all samples, and simulates the power that they have. The options' shapes, numbers of releases and rate
// of false alarms follow from the samples, and a run has as many items as the sample if that is more than Items, up to
// ten times as many. Without runs no power is simulated.
func Verdict(ctx context.Context, samples []*Sample, rules []Finding, o PowerOptions) (*Result, error) {
	r := &Result{OK: true, Power: map[Fault]Power{}}
	for i, s := range samples {
		r.FalseAlarm += s.judge.falseAlarm
		r.Samples = append(r.Samples, Size{s.Name, s.judge.Releases(), s.judge.Items()})
		for _, f := range s.judge.Findings() {
			if s.Name != "" {
				f.Test = s.Name + ": " + f.Test
			}
			r.Tests = append(r.Tests, f)
		}
		if slices.ContainsFunc(samples[:i], s.like) {
			continue
		}
		of := o
		of.Shapes, of.Releases, of.FalseAlarm = s.shapes, s.judge.Releases(), s.judge.falseAlarm
		of.Items = max(o.Items, min(s.judge.Items(), largeSample*o.Items))
		all, err := Simulate(ctx, of)
		if err != nil {
			return nil, err
		}
		for fault, p := range all {
			p.Sample = s.Name
			if best, ok := r.Power[fault]; !ok || p.better(best) {
				r.Power[fault] = p
			}
		}
	}
	r.Tests = append(r.Tests, rules...)
	r.OK = !slices.ContainsFunc(r.Tests, func(f Finding) bool { return !f.OK })
	r.warn()
	return r, nil
}

// like reports whether simulations of two samples would be of the same.
func (s *Sample) like(other *Sample) bool {
	return s.judge.Releases() == other.judge.Releases() && slices.Equal(s.shapes, other.shapes)
}

// better tells which of two samples shows a fault better.
func (p Power) better(than Power) bool {
	return p.Power > than.Power || p.Power == than.Power && p.AtLeast > than.AtLeast
}

// warn says in words what the data cannot show.
func (r *Result) warn() {
	var unseen []string
	for _, f := range Faults() {
		if p, ok := r.Power[f]; ok && p.Power < lowPower {
			unseen = append(unseen, string(f))
		}
	}
	switch {
	case !slices.ContainsFunc(r.Samples, func(s Size) bool { return s.Items > s.Releases }):
		r.Warning = "there is nothing to judge: no release has two items"
	case len(unseen) > 0:
		r.Warning = "so few releases would probably not show these faults: " + strings.Join(unseen, ", ")
	case len(r.Power) == 0:
		r.Warning = "no power was simulated: nothing is known of what these releases would show"
	}
}

// WriteJSON writes the result as one JSON object.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the result for people.
func (r *Result) WriteTable(w io.Writer) error {
	var b strings.Builder
	if r.Planted != "" {
		fmt.Fprintf(&b, "A fault was planted: %s.\n", r.Planted.Explained())
	}
	for _, s := range r.Samples {
		if s.Name != "" {
			fmt.Fprintf(&b, "%s: ", s.Name)
		}
		fmt.Fprintf(&b, "%d releases with %d items\n", s.Releases, s.Items)
	}
	b.WriteString("\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "test\tlog10 of the wealth\tp at most\trejects below\tverdict\t")
	for _, f := range r.Tests {
		verdict := "ok"
		if !f.OK {
			verdict = "NOT UNIFORM"
		}
		if f.Limit == 0 { // a rule
			if verdict = "holds"; !f.OK {
				verdict = "BROKEN"
			}
			fmt.Fprintf(t, "%s\t\t\t\t%s\t\n", f.Test, verdict)
			continue
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2g\t%.2g\t%s\t\n", f.Test, f.Evidence, f.P, f.Limit, verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Power) > 0 {
		b.WriteString("\nThe power of these releases, by simulation of the fault in releases of the same sizes:\n\n")
		fmt.Fprintln(t, "fault\tpower\truns\tat least (99 %)\treleases for 0.99\tseen best in\t")
		for _, f := range Faults() {
			p, ok := r.Power[f]
			if !ok {
				continue
			}
			fmt.Fprintf(t, "%s\t%.2f\t%d\t%.2f\t%s\t%s\t\n", f, p.Power, p.Runs, p.AtLeast, p.needs(),
				cmp.Or(p.Sample, "these"))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if r.Warning != "" {
		fmt.Fprintf(&b, "\nWarning: %s.\n", r.Warning)
	}
	if r.OK {
		fmt.Fprintf(&b, "\nNothing was found. Uniformly random orders are rejected with probability %.0e at most.\n",
			r.FalseAlarm)
	} else {
		fmt.Fprintf(&b, "\nTHESE ORDERS ARE NOT UNIFORMLY RANDOM, but for a false alarm, with probability %.0e at "+
			"most.\n",
			r.FalseAlarm)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// needs says how many releases power 0.99 takes.
func (p Power) needs() string {
	if p.Needed == 0 {
		return fmt.Sprintf("more than %d", p.Simulated)
	}
	return fmt.Sprint(p.Needed)
}

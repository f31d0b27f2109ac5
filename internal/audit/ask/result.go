package ask

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Preview is a question as it would be asked.
type Preview struct {
	Name    string         `json:"name"`
	Kind    statistic.Kind `json:"kind"`
	Channel plan.Channel   `json:"channel"`
	Panel   uint32         `json:"panel"`      // devices
	Minimum uint32         `json:"minimum"`    // reports
	Fewest  uint32         `json:"registered"` // devices that the panel is drawn from, at least
	Records int            `json:"records"`    // epochs that one person may report in, of which this is one
	Period  uint32         `json:"period"`     // of so many in a row; 0: of the deployment
	// EpsilonEpoch is what the question reveals about a person who is drawn, Epsilon what all epochs of one person do
	// together, and Promise what the terms promise; all at Delta.
	EpsilonEpoch privacy.Epsilon `json:"epsilon_question"`
	Epsilon      privacy.Epsilon `json:"epsilon"`
	Promise      float64         `json:"promise"`
	Delta        float64         `json:"delta"`
	Expected     []Expected      `json:"expected"`
	Written      string          `json:"written,omitempty"` // empty: it is not asked
}

// Expected is half the length of the interval to expect of a number.
type Expected struct {
	Of        string  `json:"of"`
	HalfWidth float64 `json:"half_width"`
	Unbounded bool    `json:"unbounded,omitempty"`
}

// NewPreview is that of an announcement that asks a question, of a deployment of the configuration.
func NewPreview(a *plan.Announcement, c wire.Configuration) (*Preview, error) {
	of, err := deployment.ExpectedAnswer(a)
	if err != nil {
		return nil, err
	}
	one, err := plan.Guarantee(a, 0)
	if err != nil {
		return nil, err
	}
	all, _, err := plan.Lifetime(a)
	if err != nil {
		return nil, err
	}
	r := &Preview{Name: of.Name, Kind: of.Kind, Channel: a.Plan.Channel, Panel: a.Cohort.Size,
		Minimum: a.Cohort.Minimum, Fewest: a.Plan.Panel.Registered, Records: a.Plan.PerPerson(), Period: a.Plan.Period,
		EpsilonEpoch: privacy.Epsilon(one.Epsilon(c.Terms.Delta)), Epsilon: privacy.Epsilon(all.Epsilon(c.Terms.Delta)),
		Promise: c.Terms.Epsilon, Delta: c.Terms.Delta}
	for _, v := range append([]deployment.Estimated{of.Count}, of.Values...) {
		r.Expected = append(r.Expected, Expected{v.Of, (v.High - v.Low) / 2, v.Unbounded})
	}
	return r, nil
}

// WriteJSON implements command.Result.
func (r *Preview) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

// WriteTable implements command.Result.
func (r *Preview) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "%s %s\tinterval to expect (95 %%): estimate +-\n", r.Kind, r.Name)
	for _, e := range r.Expected {
		half := fmt.Sprintf("%.2g", e.HalfWidth)
		switch {
		case e.Unbounded:
			half = "none: too much noise"
		case e.HalfWidth >= 100:
			half = fmt.Sprintf("%.0f", e.HalfWidth)
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\n", e.Of, half)
	}
	_ = t.Flush()
	of := "over the deployment"
	if r.Period > 0 {
		of = fmt.Sprintf("of any %d in a row", r.Period)
	}
	_, err := fmt.Fprintf(w, `
This is if each of the panel's %d people has one decision with a reward, spread evenly over the
ranges; with fewer, intervals are wider. A person who is drawn spends one of their %d epochs %s:
at most epsilon %s of the %g that all of them may reveal, at delta %g (channel %s).
The learner learns nothing in the epoch.
`, r.Panel, r.Records, of, privacy.Spell(float64(r.EpsilonEpoch)), r.Promise, r.Delta, r.Channel)
	if err != nil {
		return err
	}
	if r.Written == "" {
		_, err = fmt.Fprint(w, "\nNothing was asked. To ask, give the folder that the analyzer reads with "+
			"--questions.\n")
		return err
	}
	_, err = fmt.Fprintf(w, "\nWritten to %s. The analyzer asks it in an epoch that begins, after those that\nwait "+
		"before it; riffle ask answers shows the answer.\n", r.Written)
	return err
}

// writeJSON writes a value as one JSON object.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Answers is what panels answered.
type Answers struct {
	OK         bool       `json:"ok"` // the audit found no breach
	Breaches   int        `json:"breaches"`
	Deployment string     `json:"deployment"`
	Delta      float64    `json:"delta"`
	Answers    []Answered `json:"answers"`
	// Unanswered are the questions that were asked and have no answer.
	Unanswered []Unanswered `json:"unanswered,omitempty"`
}

// Unanswered is a question without an answer. No name is asked twice.
type Unanswered struct {
	Name    string `json:"name"`
	Epoch   uint64 `json:"epoch"`
	Outcome string `json:"outcome"` // of the cohort: audit.Row
}

// Answered is an answer, and what it revealed about a person who was drawn.
type Answered struct {
	*deployment.Answer
	Epsilon privacy.Epsilon `json:"epsilon"`
}

// WriteJSON implements command.Result.
func (r *Answers) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

// WriteTable implements command.Result.
func (r *Answers) WriteTable(w io.Writer) error {
	var text strings.Builder
	if !r.OK {
		fmt.Fprintf(&text, "BREACH: the audit found %d things wrong, which riffle audit lists. Rely on nothing "+
			"here.\n\n", r.Breaches)
	}
	if len(r.Answers)+len(r.Unanswered) == 0 {
		fmt.Fprintf(&text, "No panel of the deployment %s has answered a question so far.\n", r.Deployment)
	}
	for i, a := range r.Answers {
		if i > 0 {
			text.WriteByte('\n')
		}
		fmt.Fprintf(&text, "%s %s, epoch %d, %d reports, at most epsilon %s of a person who was drawn at delta %g\n",
			a.Kind, a.Name, a.Epoch, a.Reports, privacy.Spell(float64(a.Epsilon)), r.Delta)
		t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		head := "\testimate\tfrom (95 %)\tto"
		if a.Kind == statistic.Mean {
			head += "\tstandard deviation"
		}
		_, _ = fmt.Fprintln(t, head)
		for _, v := range append([]deployment.Estimated{a.Count}, a.Values...) {
			value, low, high := v.Spell()
			line := fmt.Sprintf("%s\t%s\t%s\t%s", v.Of, value, low, high)
			if v.Deviation > 0 {
				line += fmt.Sprintf("\t%.3g", v.Deviation)
			}
			_, _ = fmt.Fprintln(t, line)
		}
		_ = t.Flush()
	}
	for _, u := range r.Unanswered {
		why := "its cohort is " + u.Outcome + ": to ask again, give the question another name"
		if u.Outcome == audit.UncountedOutcome {
			why = "the analyzer has not stated its counts"
		}
		fmt.Fprintf(&text, "%s, asked in epoch %d, has no answer: %s\n", u.Name, u.Epoch, why)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// Draw draws the last answer: each number with its interval.
func (r *Answers) Draw(path string) error {
	if len(r.Answers) == 0 {
		return fmt.Errorf("--out: no panel has answered a question so far")
	}
	a := r.Answers[len(r.Answers)-1]
	line := chart.Series{Name: "estimate and 95 % interval", Dots: true}
	c := chart.Chart{Title: fmt.Sprintf("%s %s", a.Kind, a.Name), Y: map[statistic.Kind]string{
		statistic.Mean: "mean", statistic.Histogram: "share of decisions", statistic.Fit: "coefficient"}[a.Kind],
		Subtitle: fmt.Sprintf("epoch %d of %s, %d reports, about %.0f decisions", a.Epoch, r.Deployment, a.Reports,
			a.Count.Value)}
	for _, v := range a.Values {
		if v.Unbounded {
			continue
		}
		c.Places = append(c.Places, v.Of)
		line.X, line.Y = append(line.X, float64(len(c.Places))), append(line.Y, v.Value)
		line.Low, line.High = append(line.Low, v.Low), append(line.High, v.High)
	}
	c.Series = []chart.Series{line}
	return c.Save(path)
}

package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/evaluate"
)

// WriteJSON writes the result as one indented JSON object and a newline.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the result for a terminal.
func (r *Result) WriteTable(w io.Writer) error {
	parts := []string{r.head(), r.values().Render() + "\n", r.support().Render() + "\n", chart.Notes(r.notes())}
	_, err := io.WriteString(w, strings.Join(parts, "\n"))
	return err
}

func (r *Result) head() string {
	return fmt.Sprintf("What a live run with %s people, as many as a run accepts of %s decisions, is expected to "+
		"get,\nat epsilon %g and delta %g: the mean of %d runs, with %g %% intervals\n",
		chart.Number(float64(r.People), 0), chart.Number(float64(r.Decisions), 0), r.Epsilon, r.Delta, r.Runs,
		100*r.Confidence)
}

// values is a table with two lines for each row: a value, and its interval below it.
func (r *Result) values() table.Writer {
	t := chart.Columns{Left: 1, Others: 18}.Table("Mean reward\nper person", "while\nlearning", "\nlast policy",
		"last policy\nless played")
	for _, o := range r.all() {
		if o.Infeasible != "" {
			t.AppendRow(table.Row{o.name(), "no plan", "no plan", "no plan"})
			continue
		}
		t.AppendRow(table.Row{o.name(), cell(o.Learning, false), cell(o.Last, false), cell(o.LastOver, true)})
	}
	t.AppendRow(table.Row{"what was played", cell(r.Logged, false), cell(r.Logged, false), ""})
	t.AppendRow(table.Row{"uniform play", cell(r.Uniform, false), cell(r.Uniform, false), ""})
	return t
}

// all are the channels and the learner without privacy.
func (r *Result) all() []Outcome { return append(append([]Outcome(nil), r.Channels...), r.Clear) }

func (o Outcome) name() string {
	if o.Trust == "" {
		return "without privacy"
	}
	return string(o.Trust)
}

func cell(e evaluate.Estimate, signed bool) string {
	format := "%.4f"
	if signed {
		format = "%+.4f"
	}
	text := fmt.Sprintf(format, e.Value)
	if i := e.Interval; i != nil {
		return fmt.Sprintf("%s\n["+format+", "+format+"]", text, i.Low, i.High)
	}
	return text + "\nno interval"
}

// support is how far the log supports the last policies.
func (r *Result) support() table.Writer {
	t := chart.Columns{Left: 1, Others: 12}.Table("Last policies\non the log", "effective\nsize", "error\nsize",
		"mean\nweight", "largest\nweight")
	for _, o := range r.all() {
		if v := o.Overlap; v != nil {
			t.AppendRow(table.Row{o.name(), chart.Number(v.EffectiveSize, 0), chart.Number(v.ErrorSize, 0),
				fmt.Sprintf("%.3f", v.MeanWeight), fmt.Sprintf("%.3g", v.LargestWeight)})
		}
	}
	return t
}

// fewFreedom is the number of degrees of freedom below which the width of an interval is off by a third in 6 % of
// cases.
const fewFreedom = 15

func (r *Result) notes() (notes []string) {
	var better, worse, open []string
	for _, o := range r.Channels {
		switch i := o.LastOver.Interval; {
		case o.Infeasible != "":
			notes = append(notes, fmt.Sprintf("%s has no plan for so many people: %s.", o.Trust,
				strings.TrimSuffix(o.Infeasible, ".")))
		case i != nil && i.Low > 0:
			better = append(better, string(o.Trust))
		case i != nil && i.High < 0:
			worse = append(worse, string(o.Trust))
		default:
			open = append(open, string(o.Trust))
		}
	}
	beaten, uncertain := false, []string(nil)
	for _, o := range r.all() {
		if o.Doubt != "" {
			notes = append(notes, fmt.Sprintf("Of %s some estimates have no interval: %s.", o.name(), o.Doubt))
		}
		if o.Infeasible == "" && o.Freedom < fewFreedom {
			uncertain = append(uncertain, o.name())
		}
		beaten = beaten || o.Infeasible == "" && (o.Learning.Value > r.Clear.Learning.Value ||
			o.Last.Value > r.Clear.Last.Value)
	}
	if len(uncertain) > 0 {
		notes = append(notes, fmt.Sprintf("Some intervals rest on fewer than %d degrees of freedom, so that their "+
			"width is uncertain; more --rounds than %d can make it surer: %s.", fewFreedom, r.Rounds,
			strings.Join(uncertain, ", ")))
	}
	if beaten {
		notes = append(notes, "The learner without privacy is the same one on exact sums, and no upper bound: here a "+
			"channel has a larger estimate.")
	}
	for _, say := range []struct {
		text  string
		names []string
	}{
		{"The last policy earns more than what was played, by the interval of the last column", better},
		{"The last policy earns less than what was played, by the interval of the last column", worse},
		{"The log does not show whether the last policy earns more than what was played", open},
	} {
		if len(say.names) > 0 {
			notes = append(notes, say.text+": "+strings.Join(say.names, ", ")+".")
		}
	}
	if r.Shortened > 0 {
		notes = append(notes, fmt.Sprintf("%d decisions have features longer than 1, which were scaled to 1, as "+
			"devices do.", r.Shortened))
	}
	return append(notes,
		fmt.Sprintf("One in %.3g of the rows that a run may use is accepted, because some arm had a propensity of "+
			"%.3g at most. A deployment with more people can be expected to learn more.", r.Bound, r.Least),
		"All this holds if the propensities are right, if every row is another person, and if those to come are like "+
			"the people of the log, in any order, and all report. If the same people have many rows, the intervals "+
			"can be too narrow.",
		"What a log says is not private. These figures have no noise that would hide a row: they are for those who "+
			"hold the log.")
}

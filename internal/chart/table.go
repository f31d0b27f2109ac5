package chart

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// WriteTable writes the result for a terminal: how regret compares, what the last policy is worth, what the run cost.
func (r Result) WriteTable(w io.Writer) error {
	if err := r.Check(); err != nil {
		return err
	}
	blocks := []table.Writer{r.regretTable()}
	if r.PolicyValue != nil {
		blocks = append(blocks, r.valueTable())
	}
	blocks = append(blocks, r.costTable())
	var rendered []string
	for _, t := range blocks {
		rendered = append(rendered, t.Render()+"\n")
	}
	if remarks := r.remarks(); len(remarks) > 0 {
		rendered = append(rendered, Notes(remarks))
	}
	if _, err := io.WriteString(w, strings.Join(rendered, "\n")); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return nil
}

// nothingLearned is a share of what the same learner without privacy spares people: a run that spares them no more is
// said to have learned next to nothing.
const nothingLearned = 0.1

// remarks are what a reader of the table must not overlook. Uniform play's regret alone says little of how much there
// was to learn: of labelled data it is in hindsight, and mostly chance that no policy foresees.
func (r Result) remarks() (remarks []string) {
	possible := r.UniformRegret
	if r.NonPrivateRegret != nil {
		possible -= *r.NonPrivateRegret
	}
	spared := r.UniformRegret - r.Regret
	if spared > nothingLearned*max(possible, 0) {
		return nil
	}
	of := "what uniform play loses"
	if r.NonPrivateRegret != nil {
		of = "what the same learner spares them without privacy"
	}
	switch {
	case possible <= 0:
		return []string{"The same learner without privacy loses no less than uniform play either: so many people " +
			"teach it nothing."}
	case spared <= 0:
		remarks = append(remarks, "Riffle lost no less than uniform play: this run learned next to nothing.")
	default:
		remarks = append(remarks, fmt.Sprintf("Riffle spared people %.0f %% of %s: this run learned next to nothing.",
			100*spared/possible, of))
	}
	if r.Trust == "local" {
		return append(remarks, fmt.Sprintf("In the channel local every device adds all the noise that hides it, here "+
			"%s times a curator's variance. It takes far more people, or a larger epsilon. --trust shares has a "+
			"curator's noise, and needs one honest server of the two.", Number(r.VarianceRatio, 0)))
	}
	return append(remarks, "More people, or a larger --epsilon, make it learn more.")
}

// Name is what tables and pictures call the run: Riffle, and the channel unless it is the default.
func (r Result) Name() string {
	if r.Trust == "" || r.Trust == "shuffle" {
		return "Riffle"
	}
	return "Riffle, " + r.Trust
}

// Columns says how a table is laid out. The zero value aligns all columns right.
type Columns struct {
	Left          int // number of leading columns that are aligned left
	First, Others int // least width of the first column and of the others, in characters
}

// Table returns a table for a terminal with a thin rule under its header.
func (c Columns) Table(header ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(header)
	var columns []table.ColumnConfig
	for i := range header {
		one := table.ColumnConfig{Number: i + 1, WidthMin: c.Others}
		if i == 0 {
			one.WidthMin = c.First
		}
		if i >= c.Left {
			one.Align, one.AlignHeader = text.AlignRight, text.AlignRight
		}
		columns = append(columns, one)
	}
	t.SetColumnConfigs(columns)
	return t
}

// resultColumns are those of a run's tables: names to the left, numbers to the right.
var resultColumns = Columns{Left: 1, First: 36, Others: 12}

func (r Result) regretTable() table.Writer {
	t := resultColumns.Table(fmt.Sprintf("Regret over %s people", Number(float64(r.Users), 0)), "total", "per person",
		"of uniform")
	row := func(name string, regret *float64) {
		if regret == nil {
			return
		}
		share := "-"
		if r.UniformRegret > 0 {
			share = fmt.Sprintf("%.1f%%", 100**regret/r.UniformRegret)
		}
		t.AppendRow(table.Row{name, Number(*regret, 1), Number(*regret/float64(r.Users), 4), share})
	}
	row(r.Name(), &r.Regret)
	row("the same without privacy", r.NonPrivateRegret)
	row("best constant arm (in hindsight)", &r.ConstantRegret)
	row("uniform play", &r.UniformRegret)
	return t
}

func (r Result) valueTable() table.Writer {
	t := resultColumns.Table(fmt.Sprintf("Mean reward of %s people held out", Number(float64(r.HeldOut), 0)), "value")
	for _, row := range []struct {
		name  string
		value *float64
	}{
		{"Riffle's last policy", r.PolicyValue},
		{"non-private fit to all rewards", r.NonPrivateValue},
		{"best constant arm", r.ConstantValue},
	} {
		if row.value != nil {
			t.AppendRow(table.Row{row.name, Number(*row.value, 4)})
		}
	}
	return t
}

func (r Result) costTable() table.Writer {
	t := resultColumns.Table("Cost", "")
	add := func(name, value string) { t.AppendRow(table.Row{name, value}) }
	if r.Trust != "" {
		add("trust", r.Trust)
	}
	add("privacy, epsilon", privacy.Spell(r.Epsilon))
	if r.EpsilonAlone != nil {
		add("epsilon if no other device is honest", privacy.Spell(*r.EpsilonAlone))
	}
	add("privacy, delta", fmt.Sprintf("%g", r.Delta)) // every digit, because it is part of the guarantee
	add("epochs", Number(float64(r.Epochs), 0))
	add("reports in releases", Number(float64(r.Reports), 0))
	add("fewest reports in a release", Number(float64(r.Cohort), 0))
	if r.Lost > 0 {
		add("cohorts lost (too few reported)", Number(float64(r.Lost), 0))
	}
	if r.Clipped > 0 {
		add("people with an arm scaled down", Number(float64(r.Clipped), 0))
	}
	if r.VarianceRatio > 0 {
		add("noise variance over a curator's, at most", Number(r.VarianceRatio, 2))
	}
	if r.Trust == "" || r.Trust == "shuffle" {
		add("bit messages per user", Number(r.MessagesPerUser, 1))
	}
	add("bytes per user", Number(r.BytesPerUser, 0))
	add("CPU per user", seconds(r.CPUSecondsPerUser))
	if r.ServerCPUSecondsPerUser > 0 {
		add("of it on the device", seconds(r.DeviceCPUSecondsPerUser))
		add("CPU of servers and broker per user", seconds(r.ServerCPUSecondsPerUser))
	}
	add("wall time", seconds(r.WallSeconds))
	return t
}

// seconds writes a duration with three digits or to the second, whichever is coarser.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", math.Round(s*1e5)/1e2)
	}
	return fmt.Sprintf("%.3g µs", math.Round(s*1e8)/1e2)
}

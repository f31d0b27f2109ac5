package planner

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// WriteTable writes the result for a terminal.
func (r Result) WriteTable(w io.Writer) error {
	var b strings.Builder
	what := fmt.Sprintf("%s releases of vectors of dimension %d", plural(r.times(), "round of", "rounds of"),
		r.Dimension)
	if r.Family != "" {
		what = fmt.Sprintf("Hessian and gradient of %s rewards at a point of norm %g, dimension %d", r.Family,
			r.ThetaNorm, r.Dimension)
	}
	if r.Options != 0 {
		what += fmt.Sprintf(": %d options, each with its own %s", r.Options, plural(r.Context, "weight", "weights"))
	}
	fmt.Fprintf(&b, "%s in %s, (epsilon %g, delta %g) for each person.\n%s.\n", plural(r.Users, "person", "people"),
		plural(len(r.Cohorts), "cohort", "cohorts"), r.AskedEpsilon, r.Delta, what)
	b.WriteString(r.Account.text())
	fmt.Fprintf(&b, "%g %% of a cohort may drop out; the noise of %s is not counted.\n\n", percent(r.DropOut),
		r.uncounted())
	b.WriteString(r.cohortTable().Render() + "\n\n")
	b.WriteString(r.releaseTable().Render() + "\n")
	for _, f := range r.Frontier {
		b.WriteString("\n" + frontierTable(f).Render() + "\n")
	}
	if len(r.Channels) > 0 {
		b.WriteString("\n" + r.channelTable().Render() + "\n")
	}
	notes := r.notes()
	if r.Prediction != nil {
		b.WriteString("\n" + r.Prediction.text())
		notes = append(notes, r.Prediction.notes()...)
	}
	b.WriteString("\n")
	b.WriteString(chart.Notes(notes))
	_, err := io.WriteString(w, b.String())
	return err
}

// uncounted says whose noise is not counted.
func (r Result) uncounted() string {
	share := fmt.Sprintf("%g %%", percent(r.Dishonest))
	switch {
	case r.DishonestReports == 0:
		return share
	case r.Dishonest == 0:
		return plural(r.DishonestReports, "report", "reports")
	}
	return fmt.Sprintf("%s, at least %s,", share, plural(r.DishonestReports, "report", "reports"))
}

// growth says how the numbers grow.
func (r Result) growth() string {
	if r.Options != 0 {
		return "The numbers grow with the options, and with the square of the context."
	}
	return "The numbers grow with its square: twice the dimension takes some four times the messages."
}

// times is how many releases a record takes part in.
func (r Result) times() int {
	n := 0
	for _, rel := range r.Cohorts[0].Releases {
		n += rel.Times
	}
	return n
}

func (r Result) cohortTable() table.Writer {
	header := []any{"Cohort", "people", "at least", "honest", "epsilon", "if all\nreport", "messages\neach",
		"bytes\neach", "CPU\neach", "budget\nunused"}
	if r.Exploration != "" {
		header = append(header, "spread")
	}
	t := chart.Columns{}.Table(header...)
	for i, c := range r.Cohorts {
		row := table.Row{i + 1, number(c.Size), number(c.Minimum), number(c.Honest), up(c.Epsilon),
			up(c.ExpectedEpsilon), number(c.MessagesPerUser), number(c.BytesPerUser), seconds(c.CPUSecondsPerUser),
			fmt.Sprintf("%.1f %%", 100*c.UnusedBudget)}
		if r.Exploration != "" {
			spread := ""
			if c.Spread > 0 {
				spread = fmt.Sprintf("%.2f", c.Spread)
			}
			row = append(row, spread)
		}
		t.AppendRow(row)
	}
	if len(r.Cohorts) > 1 {
		t.AppendRow(table.Row{"all", number(r.Users), "", "", up(r.Epsilon), "",
			fmt.Sprintf("mean %.0f", r.MeanMessages), number(int(math.Round(r.MeanBytes))),
			seconds(r.meanCPU()), ""})
	}
	return t
}

// meanCPU is a device's mean time, over all people.
func (r Result) meanCPU() (mean float64) {
	for _, c := range r.Cohorts {
		mean += c.CPUSecondsPerUser * float64(c.Size) / float64(r.Users)
	}
	return mean
}

func (r Result) releaseTable() table.Writer {
	header := []any{"Cohort", "release", "numbers", "levels", "noise\nbits", "error", "central", "local",
		"noise\nratio", "limited\nby"}
	bits := r.Trust == "" || r.Trust == plan.Shuffle
	if bits {
		header = append(header, "bit\nmessages")
	}
	if r.Trust != "" {
		header = append(header, "servers'\nbits")
	}
	t := chart.Columns{}.Table(header...)
	for i, c := range r.Cohorts {
		for _, rel := range c.Releases {
			name := rel.Statistic
			if rel.Times > 1 {
				name = fmt.Sprintf("%d x %s", rel.Times, name)
			}
			row := table.Row{i + 1, name, rel.Coordinates, rel.Levels, rel.NoiseBits,
				fmt.Sprintf("%.4g", rel.Deviation), fmt.Sprintf("%.4g", rel.CentralDeviation), fmt.Sprintf("%.4g",
					rel.LocalDeviation), fmt.Sprintf("%.3f", rel.VarianceRatio), rel.Limit}
			if bits {
				row = append(row, number(rel.Times*rel.MessagesPerUser))
			}
			if r.Trust != "" {
				row = append(row, number(int(rel.ServerNoise)))
			}
			t.AppendRow(row)
		}
	}
	return t
}

func frontierTable(f Frontier) table.Writer {
	t := chart.Columns{}.Table(fmt.Sprintf("Cohort %d, %s people: noise ratio", f.Cohort, number(f.People)),
		"messages each", "bytes each", "CPU each", "epsilon")
	for _, p := range f.Points {
		t.AppendRow(table.Row{fmt.Sprintf("%.3f", p.VarianceRatio), number(p.MessagesPerUser), number(p.BytesPerUser),
			seconds(p.CPUSecondsPerUser), up(p.Epsilon)})
	}
	return t
}

// notes say what the numbers mean and what they leave unsaid.
func (r Result) notes() []string {
	notes := []string{
		"Error: standard deviation of the noise of one released sum, in the statistic's units, at worst. Central: a " +
			"trusted curator's Gaussian noise for the same budget. Local: Gaussian noise on every device, without a " +
			"shuffler. Noise ratio: Riffle's variance over the central one.",
		fmt.Sprintf("CPU: encrypting bit messages, %s each on this machine, measured just now; sealing the report "+
			"and all else is small beside it.", seconds(r.SealSecondsPerMessage)),
	}
	if r.Family != "" {
		notes[0] += " It can be below 1: the curator is taken to certify each release apart, and Riffle certifies " +
			"those of a round together."
	}
	if r.Trust != "" {
		notes[1] = fmt.Sprintf("The plan is for the channel %s. CPU: a device's, estimated from measurements of this "+
			"machine, just now.", r.Trust)
	}
	notes = append(notes, r.channelNotes()...)
	if r.MessageLimit > 0 {
		numbers := 0
		for _, rel := range r.Cohorts[0].Releases {
			numbers += rel.Times * rel.Coordinates
		}
		notes = append(notes, fmt.Sprintf("Messages: at most %s of one person: %g for each of the %s numbers "+
			"released, and no fewer than %d, which keeps the noise ratio about the same at every dimension. %s "+
			"--messages sets another limit.",
			number(r.MessageLimit), plan.MessagesPerCoordinate, number(numbers), plan.LeastMessages, r.growth()))
	}
	notes = append(notes, r.largeNotes()...)
	if r.HostMessages > 0 {
		notes = append(notes, fmt.Sprintf("Hosts refuse this plan unless they are told otherwise: they send at most "+
			"%s messages in a report (limits.max_messages of every randomizer). At such a size bits stop being "+
			"practical; fewer numbers in an arm help most.", number(r.HostMessages)))
	}
	if c := r.Cohorts[0]; c.Honest < c.Minimum && c.HonestEpsilon < c.Epsilon {
		tolerated := ""
		if r.Trust == "" || r.Trust == plan.Shuffle {
			tolerated = "as many malformed messages as they hold are tolerated and destroy nothing, and "
		}
		notes = append(notes, fmt.Sprintf("%s of cohort 1 may be dishonest: %stheir noise is not counted. If it "+
			"were, the same reports would give epsilon %s instead of %s.",
			plural(c.Minimum-c.Honest, "report", "reports"), tolerated, up(c.HonestEpsilon), up(c.Epsilon)))
	}
	if r.FirstCohort != nil {
		notes = append(notes, fmt.Sprintf("The first cohort has %s people: %s.", number(r.FirstCohort.Size),
			r.FirstCohort.Rule))
	}
	if r.Exploration != "" {
		notes = append(notes, "Exploring: "+r.Exploration+".")
	}
	if r.HessianShare > 0 {
		notes = append(notes, fmt.Sprintf("The Hessian has %.3g %% of the budget. Scales follow each cohort's public "+
			"point: at another norm the errors change with the diameters, the guarantee and about the messages do "+
			"not.", percent(r.HessianShare)))
	}
	for i, c := range r.Cohorts {
		if by := int(math.Floor(float64(c.Size) * r.DropOut)); c.Size-c.Minimum < by {
			notes = append(notes, fmt.Sprintf("Of cohort %d only %s of %s people may drop out: --min-cohort asks "+
				"for at least %s reports.", i+1, number(c.Size-c.Minimum), number(c.Size), number(c.Minimum)))
		}
		if c.UnusedBudget >= 0.01 {
			notes = append(notes, fmt.Sprintf("Cohort %d leaves %.0f %% of its budget unused, epsilon %s instead of "+
				"%g: the error asked for, the messages allowed or the cap on the scale need no more. More messages, "+
				"a smaller --variance or a larger --max-shift would use "+
				"it.", i+1, 100*c.UnusedBudget, up(c.Epsilon), r.AskedEpsilon))
		}
	}
	return notes
}

func percent(share float64) float64 { return math.Round(1e6*share) / 1e4 }

func number(n int) string { return chart.Number(float64(n), 0) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// up writes an epsilon for people.
func up(epsilon float64) string { return privacy.Spell(epsilon) }

func seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.3g us", s*1e6)
}

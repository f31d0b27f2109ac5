package planner

import (
	"fmt"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/lab/chart"
)

// channelTable puts the channels beside each other.
func (r Result) channelTable() table.Writer {
	t := chart.Columns{Left: 1}.Table("Channel", "epsilon", "alone", "noise ratio", "poison", "messages each",
		"bytes each", "CPU device", "shuffler", "analyzer", "whom one must trust")
	for _, c := range r.Channels {
		name := string(c.Trust)
		if c.Taken {
			name = "> " + name
		}
		if c.Infeasible != "" {
			t.AppendRow(table.Row{name, "no plan"})
			continue
		}
		t.AppendRow(table.Row{name, spelled(c.Epsilon), spelled(c.EpsilonAlone), figure("%.3f", c.VarianceRatio),
			figure("%.2f", c.Poison), number(c.Messages), number(c.Bytes), seconds(c.DeviceCPU), seconds(c.ShufflerCPU),
			seconds(c.AnalyzerCPU), c.Whom})
	}
	return t
}

func spelled(epsilon *float64) string {
	if epsilon == nil {
		return "none"
	}
	return up(*epsilon)
}

func figure(format string, v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}

// channelNotes say what the channels' numbers mean, which one would be taken, and why some have no plan.
func (r Result) channelNotes() (notes []string) {
	if len(r.Channels) == 0 {
		return nil
	}
	taken := "None of the channels has a plan that would be taken"
	for _, c := range r.Channels {
		if c.Taken {
			taken = fmt.Sprintf("It would take %s", c.Trust)
		}
	}
	notes = append(notes,
		"Channels: each with the cohort in which it is worst. Epsilon holds while the honest devices' noise is there, "+
			"alone if no other device is honest. Poison: standard deviations of noise by which one lying report can "+
			"move a sum. CPU of one person's part on each role, estimated from measurements of this machine, just now; the "+
			"broker's is not in it.",
		fmt.Sprintf("%s. The rule: %s.", taken, r.Rule))
	for _, c := range r.Channels {
		for _, of := range c.Influence {
			notes = append(notes, fmt.Sprintf("Channel %s, %s: a dishonest device moves a number of the sum by at most %.3g, "+
				"the %d that the plan expects by at most %.3g, an honest one by at most %.3g; the standard deviation of its error "+
				"is %.3g.", c.Trust, of.Statistic, slices.Max(of.One), of.Devices, slices.Max(of.All), slices.Max(of.Honest),
				of.Deviation))
		}
		if c.Infeasible != "" {
			notes = append(notes, fmt.Sprintf("Channel %s: %s.", c.Trust, c.Infeasible))
		}
	}
	return notes
}

package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/riffle-dp/riffle/internal/chart"
)

// channelTable puts the channels beside each other.
func (r Result) channelTable() table.Writer {
	t := chart.Columns{Left: 1}.Table("Channel", "epsilon", "alone", "noise\nratio", "poison", "messages\neach",
		"bytes\neach", "CPU\ndevice", "CPU\nshuffler", "CPU\nanalyzer")
	for _, c := range r.Channels {
		name := string(c.Trust)
		if c.Recommended {
			name = "> " + name
		}
		if c.Infeasible != "" {
			t.AppendRow(table.Row{name, "no plan"})
			continue
		}
		t.AppendRow(table.Row{name, spelled(c.Epsilon), spelled(c.EpsilonAlone), figure("%.3f", c.VarianceRatio),
			figure("%.2f", c.Poison), number(c.Messages), number(c.Bytes), seconds(c.DeviceCPU), seconds(c.ShufflerCPU),
			seconds(c.AnalyzerCPU)})
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

// channelNotes say what the channels' numbers mean, whom one must trust, which one is recommended, and why some have no
// plan.
func (r Result) channelNotes() (notes []string) {
	if len(r.Channels) == 0 {
		return nil
	}
	var trust []string
	for _, c := range r.Channels {
		trust = append(trust, fmt.Sprintf("%s rests on %s", c.Trust, c.Whom))
	}
	notes = append(notes,
		"Channels: each with the cohort in which it is worst. Epsilon of shuffle and shares holds while no more "+
			"devices of a cohort are dishonest than are counted; alone, if no other device is honest. A malicious "+
			"shuffler chooses who is in a cohort, and can leave honest devices out: against it shares needs noise of "+
			"servers, or a count of all dishonest devices of the deployment. Poison: standard deviations of noise by "+
			"which one lying report can move a sum. CPU of one person's part on each role, estimated from "+
			"measurements of this machine, just now; the broker's is not in it.",
		"Trust: "+strings.Join(trust, "; ")+".")
	notes = append(notes, r.Reasons...)
	for _, c := range r.Channels {
		for _, of := range c.Influence {
			notes = append(notes, fmt.Sprintf("Channel %s, %s: a dishonest device moves a number of the sum by at "+
				"most %.3g, the %d that the plan expects by at most %.3g, an honest one by at most %.3g; the "+
				"standard deviation of its error is "+
				"%.3g.", c.Trust, of.Statistic, slices.Max(of.One), of.Devices, slices.Max(of.All),
				slices.Max(of.Honest),
				of.Deviation))
		}
		if c.Infeasible != "" {
			notes = append(notes, fmt.Sprintf("Channel %s: %s.", c.Trust, c.Infeasible))
		}
	}
	return notes
}

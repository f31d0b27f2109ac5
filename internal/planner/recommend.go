package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/pkg/plan"
)

// byTrust are the channels that the planner recommends by itself, those that rest on less trust first among those whose
// noise is near a curator's. Local comes last, whose noise grows with the number of people; central is left out, since
// whoever runs the analyzer would see every record.
var byTrust = []plan.Channel{plan.Shares, plan.Shuffle, plan.Local}

// recommend marks the channel that the planner recommends, the first of byTrust that has a plan, and says why:
// sentences that follow from the channels' numbers.
func recommend(channels []Channel) (reasons []string) {
	of := map[plan.Channel]*Channel{}
	for i := range channels {
		if channels[i].Infeasible == "" {
			of[channels[i].Trust] = &channels[i]
		}
	}
	i := slices.IndexFunc(byTrust, func(c plan.Channel) bool { return of[c] != nil })
	if i < 0 {
		return []string{"No channel is recommended: shares, shuffle and local have no plan, and in central the " +
			"analyzer would see every record."}
	}
	best := of[byTrust[i]]
	best.Recommended = true
	switch shuffle := of[plan.Shuffle]; {
	case best.Trust == plan.Shares && shuffle != nil:
		reasons = append(reasons, "Recommended: shares. It needs one honest server of the two, where shuffle needs "+
			"an honest shuffler and a separate analyzer.")
		reasons = append(reasons, compared(best, shuffle)+" In shares the analyzer sees who took part, and the "+
			"servers work on each report together.")
	case best.Trust == plan.Shares:
		reasons = append(reasons, "Recommended: shares. It needs one honest server of the two, and shuffle has no "+
			"plan.")
	case best.Trust == plan.Shuffle:
		reasons = append(reasons, "Recommended: shuffle. It needs an honest shuffler; shares, which needs less, has "+
			"no plan.")
	case best.Trust == plan.Local:
		reasons = append(reasons, "Recommended: local, since neither shuffle nor shares has a plan. Its noise is "+
			"much larger: see the noise ratio.")
	}
	return append(reasons, "Central is never recommended: whoever runs the analyzer would see every record.")
}

// compared says where one channel is better and worse than another one.
func compared(c, other *Channel) string {
	var better, worse []string
	add := func(text string, mine, others float64) {
		switch {
		case mine < others:
			better = append(better, text)
		case mine > others:
			worse = append(worse, text)
		}
	}
	if c.VarianceRatio != nil && other.VarianceRatio != nil {
		mine, others := *c.VarianceRatio, *other.VarianceRatio
		add(fmt.Sprintf("the noise (variance %.3f of a curator's, against %.3f)", mine, others), mine, others)
	}
	add(fmt.Sprintf("what a person sends (%s bytes, against %s)", number(c.Bytes), number(other.Bytes)),
		float64(c.Bytes),
		float64(other.Bytes))
	for _, cpu := range []struct {
		of           string
		mine, others float64
	}{
		{"device", c.DeviceCPU, other.DeviceCPU},
		{"shuffler", c.ShufflerCPU, other.ShufflerCPU},
		{"analyzer", c.AnalyzerCPU, other.AnalyzerCPU},
	} {
		add(fmt.Sprintf("the %s's CPU for a person (%s, against %s)", cpu.of, seconds(cpu.mine), seconds(cpu.others)),
			cpu.mine, cpu.others)
	}
	if c.Poison != nil && other.Poison != nil {
		add(fmt.Sprintf("what one lying report can do (%.2f, against %.2f)", *c.Poison, *other.Poison), *c.Poison,
			*other.Poison)
	}
	says := fmt.Sprintf("Compared with %s, smaller: %s.", other.Trust, listed(better))
	if len(worse) > 0 {
		says += fmt.Sprintf(" Larger: %s.", listed(worse))
	}
	return says
}

func listed(items []string) string {
	if len(items) == 0 {
		return "nothing"
	}
	return strings.Join(items, ", ")
}

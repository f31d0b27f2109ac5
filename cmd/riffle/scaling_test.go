package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const day = 24 * 60 * 60 // seconds

// A plan is what docs/scaling.md computes for one channel.
type scalingPlan struct {
	rate                       float64 // reports a second in the busiest hour
	partitions                 float64
	broker, shuffler, analyzer float64 // cores in the busiest hour
	in, toShuffler, toAnalyzer float64 // bytes of the links in a day, of all partitions
	within                     float64 // of the workers' exchange, in and out
	disk                       float64 // bytes at the broker for one partition's largest cohort, one copy
	dollars                    float64 // a day
	streamBound, bytesBound    float64
}

// computePlan is the arithmetic of the page.
func computePlan(f map[string]float64, channel string) (p scalingPlan) {
	report, mixed := f[channel+"_report"], f[channel+"_mixed"]
	p.rate = f["people"] / day * f["peak"]
	var gathered, exchanged, counted float64 // bytes of a report to the shuffler, between workers, to the analyzer
	var shuffler, analyzer float64           // µs of a report
	switch channel {
	case "shares":
		gathered, exchanged, counted = 2*report, 2*report+2*mixed, mixed
		shuffler, analyzer = f["envelope"]+f["prepare_report"], f["verify_report"]
	case "shuffle":
		messages := mixed / 52
		gathered, exchanged, counted = 2*report, 2*mixed, 2*mixed
		shuffler, analyzer = f["envelope"]+messages*f["mix_message"], messages*f["open_message"]
	default:
		gathered, exchanged, counted = 2*report, 2*mixed, 2*mixed
		shuffler, analyzer = f["envelope"]+f["mix_message"], f["open_sealed"]
	}
	carried := report + gathered + exchanged + mixed + counted
	stored := report + exchanged/2 + mixed // and twice more to the other nodes
	p.streamBound = p.rate / f["stream_rate"]
	p.bytesBound = p.rate * (carried + 2*stored) / (3 * f["node_bytes"])
	p.partitions = math.Ceil(max(p.streamBound, p.bytesBound, p.rate/f["lead_claims"]))
	brokerMicros := (carried + 2*stored) / 1000 * f["broker_kb"]
	p.broker, p.shuffler, p.analyzer = p.rate*brokerMicros/1e6, p.rate*shuffler/1e6, p.rate*analyzer/1e6
	p.in, p.toShuffler, p.toAnalyzer = f["people"]*report, f["people"]*gathered, f["people"]*counted
	p.within = f["people"] * exchanged
	p.disk = f["people"] / f["cohorts"] / p.partitions * stored
	cores := f["people"] * (brokerMicros + shuffler + analyzer) / 1e6 / 3600
	left := f["people"] * (gathered + exchanged/2 + counted) / 1e9
	p.dollars = cores*f["core_hour"] + left*f["gb"]
	return p
}

// Scaling: the plan for 100 million people a day follows from the figures above it.
func TestScalingPlanFollowsFromItsFigures(t *testing.T) {
	path := filepath.Join(docs, "scaling.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for _, m := range regexp.MustCompile("(?m)^- `(\\w+)` = ([0-9.]+):").FindAllStringSubmatch(string(page), -1) {
		if figures[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			t.Fatal(err)
		}
	}
	channels := []string{"shuffle", "shares", "local", "central"}
	plans := make([]scalingPlan, len(channels))
	for i, c := range channels {
		plans[i] = computePlan(figures, c)
		if p := plans[i]; !(p.partitions >= 1 && p.broker > 0 && p.analyzer > 0 && p.dollars > 0 &&
			!math.IsInf(p.dollars, 0)) {
			t.Fatalf("%s: %+v: a figure is missing", c, p)
		}
	}
	var b strings.Builder
	b.WriteString("| a day | " + strings.Join(channels, " | ") + " |\n|---|---|---|---|---|\n")
	row := func(what string, of func(scalingPlan) string) {
		b.WriteString("| " + what + " |")
		for _, p := range plans {
			b.WriteString(" " + of(p) + " |")
		}
		b.WriteString("\n")
	}
	number := func(n float64) string { return strconv.FormatFloat(n, 'f', 0, 64) }
	up := func(n float64) string { return number(math.Ceil(n)) }
	gb := func(n float64) string { return number(n / 1e9) }
	row("reports a second, busiest hour", func(p scalingPlan) string { return number(p.rate) })
	row("partitions for the rate of a stream", func(p scalingPlan) string { return up(p.streamBound) })
	row("partitions for the bytes of three nodes", func(p scalingPlan) string { return up(p.bytesBound) })
	row("**partitions**; broker nodes", func(p scalingPlan) string {
		return fmt.Sprintf("**%.0f**; %.0f", p.partitions, 3*p.partitions)
	})
	row("broker cores, busiest hour, all partitions", func(p scalingPlan) string { return up(p.broker) })
	row("shuffler cores, lead and workers", func(p scalingPlan) string { return up(p.shuffler) })
	row("analyzer cores, lead and workers", func(p scalingPlan) string { return up(p.analyzer) })
	row("GB devices to broker", func(p scalingPlan) string { return gb(p.in) })
	row("GB broker to shuffler, reports", func(p scalingPlan) string { return gb(p.toShuffler) })
	row("GB between workers, in and out", func(p scalingPlan) string { return gb(p.within) })
	row("GB broker to analyzer", func(p scalingPlan) string { return gb(p.toAnalyzer) })
	row("GB of disk for a cohort, each node of a partition", func(p scalingPlan) string { return up(p.disk / 1e9) })
	row("**dollars a day**", func(p scalingPlan) string { return "**" + number(p.dollars) + "**" })
	row("dollars for a million people", func(p scalingPlan) string {
		return fmt.Sprintf("%.2f", p.dollars/figures["people"]*1e6)
	})
	holdsBetween(t, "scaling.md", "<!-- scaling: begin -->\n", "<!-- scaling: end -->", b.String(), "Scaling")
}

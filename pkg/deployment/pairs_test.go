package deployment_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The reports of a round are its entries without the mean of one device's noise, in units of arm and reward; they add
// up to the sums. Their order is another than that of the counts, and the same for whoever asks.
func TestReportsOfARoundOfPairs(t *testing.T) {
	r := begin(t, programmed(glm.OnlineLinUCB, plan.Local))
	a := r.announce()
	counts := r.counts(a.Cohort.Size)
	reports, err := deployment.Reports(a, counts)
	if err != nil {
		t.Fatal(err)
	}
	e, entries := a.Encodings[0], counts.Releases[0].Entries
	var want [][]float64
	for row := range slices.Chunk(entries, 3) {
		var v []float64
		for j, entry := range row {
			v = append(v, (float64(entry)-float64(e.NoiseBits)/2)/e.Scale+e.Coordinates[j].Offset)
		}
		want = append(want, v)
	}
	near := func(x, y []float64) bool {
		return slices.EqualFunc(x, y, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	}
	if slices.EqualFunc(reports, want, near) {
		t.Error("the reports come in the order of the counts")
	}
	again, err := deployment.Reports(a, counts)
	if err != nil || !slices.EqualFunc(reports, again, near) {
		t.Errorf("another order the second time, %v", err)
	}
	sorted := slices.Clone(reports)
	slices.SortFunc(sorted, slices.Compare[[]float64])
	slices.SortFunc(want, slices.Compare[[]float64])
	if !slices.EqualFunc(sorted, want, near) {
		t.Errorf("reports %v, want %v", sorted, want)
	}
	sums, err := deployment.Sums(a, counts)
	if err != nil {
		t.Fatal(err)
	}
	for j, sum := range sums[0].Values {
		added := 0.0
		for _, v := range reports {
			added += v[j]
		}
		each := e.Variance(uint64(len(reports)), 0)[j]
		if math.Abs(added-sum) > 1e-6 || math.Abs(sums[0].Variance[j]/each-1) > 1e-9 {
			t.Errorf("coordinate %d: the reports add up to %v, the sum is %v of variance %v", j, added, sum,
				sums[0].Variance[j])
		}
	}
}

// Counts of pairs that no round can give, or whose order could tell who sent what, are refused, by sums as by reports;
// as many reports may be missing as devices can be dishonest, and the learner learns from the others.
func TestImpossiblePairsAreRefused(t *testing.T) {
	c := programmed(glm.OnlineLinUCB, plan.Local)
	c.Terms.DishonestReports = 2
	for name, of := range map[string]struct {
		change func(*wire.Counts)
		says   string
	}{
		"nothing wrong": {func(*wire.Counts) {}, ""},
		"two refused": {func(c *wire.Counts) {
			c.Releases[0].Entries = c.Releases[0].Entries[6:]
		}, ""},
		"three refused": {func(c *wire.Counts) { c.Releases[0].Entries = c.Releases[0].Entries[9:] }, "at most 2"},
		"one too many":  {func(c *wire.Counts) { c.Reports-- }, "listed of"},
		"no order": {func(c *wire.Counts) {
			e := c.Releases[0].Entries
			c.Releases[0].Entries = append(slices.Clone(e[3:]), e[:3]...)
		}, "ascending order"},
		"half a report": {func(c *wire.Counts) { c.Releases[0].Entries = c.Releases[0].Entries[1:] }, "whole reports"},
		"sums": {func(c *wire.Counts) {
			c.Releases[0] = wire.ReleaseCounts{Ones: []uint64{9, 9, 9}}
		}, "whole"},
		"two releases": {func(c *wire.Counts) { c.Releases = append(c.Releases, c.Releases[0]) }, "releases"},
		"out of range": {func(c *wire.Counts) {
			e := c.Releases[0].Entries
			e[len(e)-3] = 1 << 16
		}, "is possible"},
	} {
		r := begin(t, c)
		a := r.announce()
		counts := r.counts(a.Cohort.Size)
		of.change(counts)
		_, err := deployment.Sums(a, counts)
		_, err2 := deployment.Reports(a, counts)
		_, err3 := r.Absorb(counts, ofCounts)
		for _, err := range []error{err, err2, err3} {
			if of.says == "" && err != nil || of.says != "" && (err == nil || !strings.Contains(err.Error(), of.says)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A program that learns from each person's report is refused where a channel carries sums alone, with why.
func TestReportsNeedLocal(t *testing.T) {
	for _, p := range []glm.Profile{glm.OnlineLinUCB, glm.OnlineLinUCBCombiner} {
		for _, channel := range plan.Channels() {
			_, err := deployment.New(programmed(p, channel))
			if channel == plan.Local {
				if err != nil {
					t.Errorf("%s: %v", p, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), "each person's own report") {
				t.Errorf("%s over %s: %v", p, channel, err)
			}
		}
	}
}

// A lowest reward that an announcement has no place for, and the noise of the paper's own calibration, are refused.
func TestWhatOnlineLinUCBCannotAnnounce(t *testing.T) {
	for name, change := range map[string]func(*wire.Configuration){
		"lowest reward": func(c *wire.Configuration) {
			c.Learner.Program.Options = map[string]float64{"lowest_reward": 0}
		},
		"literal": func(c *wire.Configuration) { c.Learner.Program.Variant = "literal" },
	} {
		c := begin(t, programmed(glm.OnlineLinUCB, plan.Local)).Configuration()
		change(&c)
		if _, err := deployment.New(c); err == nil || !strings.Contains(err.Error(), "announce") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

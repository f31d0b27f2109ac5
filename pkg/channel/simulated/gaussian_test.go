package simulated_test

import (
	"math"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// The noise a Gaussian channel reports is the one its budget asks for: mu(1, 1e-6) = 0.2367043807, so 4.2247 diameters
// for a statistic that has the whole budget; what the parts spend composes to the whole.
func TestGaussianNoiseSpendsTheBudget(t *testing.T) {
	one := []simulated.Range{{Lower: []float64{-1}, Upper: []float64{1}, Diameter: 2, Share: 0.1}}
	c, err := simulated.NewGaussianCentral(one, 1, 1e-6)
	if err != nil {
		t.Fatal(err)
	}
	reports := []simulated.Report{{{0.5}}, {{-0.25}}, {{9}}}
	aggregates, err := c.Aggregate(slices.Values(reports), newSource("calibration", 0))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := math.Sqrt(aggregates[0].Variance[0]), 2/0.2367043807; math.Abs(got/want-1) > 1e-6 {
		t.Errorf("standard deviation %v, want %v", got, want)
	}
	for name, c := range all(t, 2, 1e-5) {
		if name == "exact" || name == "integer" {
			continue
		}
		const n = 7
		aggregates, err := c.Aggregate(slices.Values(slices.Repeat([]simulated.Report{{{0, 0}, {0}}}, n)),
			newSource("calibration", 0))
		if err != nil {
			t.Fatal(err)
		}
		draws := map[string]float64{"gaussian local": n, "gaussian central": 1}[name]
		var spent []privacy.Guarantee
		for s, statistic := range unitRanges() {
			sigma := math.Sqrt(aggregates[s].Variance[0] / draws)
			spent = append(spent, privacy.Guarantee{Mu: statistic.Diameter / sigma})
		}
		if ratio := spent[0].Mu * spent[0].Mu / (spent[1].Mu * spent[1].Mu); math.Abs(ratio-3) > 1e-9 {
			t.Errorf("%s: mu^2 is split %v to 1, want 3 to 1", name, ratio)
		}
		if epsilon := privacy.Compose(spent...).Epsilon(1e-5); math.Abs(epsilon-2) > 1e-6 {
			t.Errorf("%s: epsilon %v, want 2", name, epsilon)
		}
	}
}

// The errors of GaussianLocal and GaussianCentral have mean zero and the variance they report, and are uncorrelated:
// 20000 releases of four reports; mean within 5 standard errors (false alarm 6e-7 each), variance within 6 % (six
// standard errors), correlation within 0.035 (five standard errors). Power: noise forgotten on one of four reports
// moves GaussianLocal's variance by 25 %.
func TestGaussianNoiseHasItsVariance(t *testing.T) {
	const releases = 20_000
	reports := fiveReports()[:4]
	exact, err := simulated.Exact{}.Aggregate(slices.Values(reports), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range all(t, 1, 1e-6) {
		if name == "exact" || name == "integer" {
			continue
		}
		src := newSource(name, 0)
		var first [3]float64
		var products [3][3]float64
		var variance []float64
		for range releases {
			aggregates, err := c.Aggregate(slices.Values(reports), src)
			if err != nil {
				t.Fatal(err)
			}
			var gaps []float64
			variance = variance[:0]
			for s := range aggregates {
				for j := range aggregates[s].Sum {
					gaps = append(gaps, aggregates[s].Sum[j]-exact[s].Sum[j])
					variance = append(variance, aggregates[s].Variance[j])
				}
			}
			for i, gap := range gaps {
				first[i] += gap
				for k := range i + 1 {
					products[i][k] += gap * gaps[k]
				}
			}
		}
		for i := range first {
			if z := first[i] / math.Sqrt(releases*variance[i]); math.Abs(z) > 5 {
				t.Errorf("%s, entry %d: mean error is %v standard errors", name, i, z)
			}
			if ratio := products[i][i] / releases / variance[i]; math.Abs(ratio-1) > 0.06 {
				t.Errorf("%s, entry %d: variance is %v of what it reports", name, i, ratio)
			}
			for k := range i {
				if r := products[i][k] / math.Sqrt(products[i][i]*products[k][k]); math.Abs(r) > 0.035 {
					t.Errorf("%s, entries %d and %d: correlation %v", name, i, k, r)
				}
			}
		}
	}
}

// A vector outside its range counts as its nearest point: two cohorts that differ only outside the range give the same
// sums.
func TestGaussianChannelsClamp(t *testing.T) {
	for name, c := range all(t, 1, 1e-6) {
		if name == "exact" || name == "integer" {
			continue
		}
		a, err := c.Aggregate(slices.Values([]simulated.Report{{{-5, 7}, {1e300}}}), newSource("clamp", 0))
		b, err2 := c.Aggregate(slices.Values([]simulated.Report{{{-1, 1}, {1}}}), newSource("clamp", 0))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for s := range a {
			if !slices.Equal(a[s].Sum, b[s].Sum) {
				t.Errorf("%s, statistic %d: %v, clamped by hand %v", name, s, a[s].Sum, b[s].Sum)
			}
		}
	}
}

func BenchmarkInteger(b *testing.B) {
	encodings, report := twoStatistics(), fiveReports()[0]
	cohort := func(yield func(simulated.Report) bool) {
		for range 10_000 {
			if !yield(report) {
				return
			}
		}
	}
	src := newSource("bench", 0)
	for b.Loop() {
		if _, err := (simulated.Integer{Encodings: encodings, MinCohort: 1}).Aggregate(cohort, src); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*30_000/b.Elapsed().Seconds()/1e6, "Mcoordinates/s")
}

package simulated_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Every report by itself is its vector with one device's noise: mean and variance over 4000 people are within five
// standard errors (a false alarm in 3e5 runs for each of the four), and the reports add up to the sum. Noise of the
// whole cohort on each report, or half a device's, fails.
func TestEachReportHasTheNoiseOfOneDevice(t *testing.T) {
	const people = 4000
	e := protocol.Encoding{Scale: 4, NoiseBits: 1000, Bias: protocol.BiasHalf,
		Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 8}, {Offset: -1, Levels: 8}}}
	cohort := func(yield func(simulated.Report) bool) {
		for range people {
			if !yield(simulated.Report{{0.5, -0.25}}) {
				return
			}
		}
	}
	each, all, err := simulated.Each(simulated.Integer{Encodings: []protocol.Encoding{e}, ServerNoise: []uint64{0},
		MinCohort: people}, cohort, newSource("each", 0))
	if err != nil || len(each) != people || all.Reports != people {
		t.Fatalf("%d reports, %+v, %v", len(each), all, err)
	}
	for j, want := range []float64{0.5, -0.25} {
		sum, squares := 0.0, 0.0
		for _, v := range each {
			sum += v[j]
			squares += (v[j] - want) * (v[j] - want)
		}
		variance := e.Variance(1, 0)[j]
		if math.Abs(sum/people-want) > 5*math.Sqrt(variance/people) {
			t.Errorf("coordinate %d: mean %v, want %v", j, sum/people, want)
		}
		if ratio := squares / people / variance; math.Abs(ratio-1) > 5*math.Sqrt(2./people) {
			t.Errorf("coordinate %d: variance over a device's is %v", j, ratio)
		}
		if math.Abs(sum-all.Sum[j]) > 1e-6 || math.Abs(all.Variance[j]/(people*variance)-1) > 1e-9 {
			t.Errorf("coordinate %d: sum %v of variance %v, want %v and %v", j, all.Sum[j], all.Variance[j], sum,
				people*variance)
		}
	}
}

func TestEachRefusesWhatIsOfSums(t *testing.T) {
	e := protocol.Encoding{Scale: 4, NoiseBits: 10, Bias: protocol.BiasHalf,
		Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 8}}}
	one := slices.Values([]simulated.Report{{{0.5}}})
	for name, c := range map[string]struct {
		channel simulated.Channel
		want    error
	}{
		"servers' noise": {simulated.Integer{Encodings: []protocol.Encoding{e}, ServerNoise: []uint64{1}, MinCohort: 1},
			simulated.ErrChannel},
		"too few": {simulated.Integer{Encodings: []protocol.Encoding{e}, MinCohort: 2}, simulated.ErrCohort},
	} {
		if _, _, err := simulated.Each(c.channel, one, newSource("each", 1)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	two := slices.Values([]simulated.Report{{{0.5}, {0.5}}})
	if _, _, err := simulated.Each(simulated.Exact{}, two, nil); !errors.Is(err, simulated.ErrReport) {
		t.Errorf("two statistics: %v", err)
	}
	if _, _, err := simulated.Each(simulated.Exact{}, slices.Values([]simulated.Report(nil)), nil); !errors.Is(err,
		simulated.ErrCohort) {
		t.Errorf("nobody: %v", err)
	}
}

package learner_test

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// The terms of the proven width have their golden values.
func TestProofWidthHasItsGoldenValues(t *testing.T) {
	in := learner.ProofInputs{Dimension: 3, MaxReward: 1, Radius: 1, SelfConcordance: 1, Failure: 1e-3, Eta: .5}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"covering", in.Covering(), 11.736069},
		{"score", in.ScoreNorm(50), 11.902585},
		{"bracket", in.Bracket(50, 0), 75.894611},
		{"gamma", in.Gamma(50, 0), 92.951535},
	} {
		if !scalar.EqualWithinAbs(c.got, c.want, 1e-6) {
			t.Errorf("%s: %.7f, want %v", c.name, c.got, c.want)
		}
	}
}

// The tuned width has values worked out by hand, term by term; kappa does not multiply the ridge's term.
func TestTunedWidthIsTheRootOfItsTerms(t *testing.T) {
	good := learner.TunedWidth{Constant: .5, MaxReward: 1, Dimension: 4, Horizon: 1000, Radius: 2, Lambda: 9,
		Nu: 10, Kappa: 4}
	for _, c := range []struct {
		name   string
		change func(w *learner.TunedWidth)
		want   float64
	}{
		{"all", func(*learner.TunedWidth) {}, 7.5253585},
		{"later batch", func(w *learner.TunedWidth) { w.Kappa = 1 }, 4.5724999},
		{"sampling alone", func(w *learner.TunedWidth) { w.Kappa, w.Lambda, w.Nu = 1, 0, 0 }, 2.6282609},
		{"optimiser alone", func(w *learner.TunedWidth) { w.Kappa, w.Lambda, w.MaxReward = 1, 0, 0 }, 2.2360680},
		{"ridge alone", func(w *learner.TunedWidth) { w.Nu, w.MaxReward = 0, 0 }, 3},
		{"rewards to 3", func(w *learner.TunedWidth) { w.Kappa, w.Lambda, w.Nu, w.MaxReward = 1, 0, 0, 3 }, 7.8847826},
	} {
		w := good
		c.change(&w)
		if got := w.Gamma(); !scalar.EqualWithinAbs(got, c.want, 1e-6) {
			t.Errorf("%s: %.7f, want %v", c.name, got, c.want)
		}
	}
}

// Simulated noise matrices of the real encoding never reach the bound: it fails with probability 1e-3 and is loose by
// about a factor of 2.5, so none of 2000 may (of 10^4 with RIFFLE_LONG=1).
func TestNoiseNormBoundsTheNoiseMatrix(t *testing.T) {
	in := learner.ProofInputs{Dimension: 3, Failure: 1e-3}
	encoding := protocol.Encoding{Scale: 8, NoiseBits: 5, Bias: protocol.BiasHalf}
	for range symmetric.Dim(3) {
		encoding.Coordinates = append(encoding.Coordinates, protocol.Coordinate{Offset: -1, Levels: 16})
	}
	const n = 2000
	proxy := encoding.Variance(n, 0)[0] // the proxy of fair bits is the variance
	bound := in.NoiseNorm(proxy)
	if !scalar.EqualWithinAbs(proxy, 46.875, 1e-9) || !scalar.EqualWithinAbs(bound, 72.953520, 1e-6) {
		t.Errorf("proxy %v, bound %.7f", proxy, bound)
	}
	repetitions := 2000
	if os.Getenv("RIFFLE_LONG") != "" {
		repetitions = 10000
	}
	src := rand.NewChaCha8([32]byte{20})
	largest := 0.0
	for range repetitions {
		ones := make([]uint64, len(encoding.Coordinates))
		if err := encoding.AddNoise(ones, n, src); err != nil {
			t.Fatal(err)
		}
		sums, err := encoding.Decode(ones, n, 0)
		if err != nil {
			t.Fatal(err)
		}
		for j := range sums {
			sums[j] += n // removes the offset of n vectors encoded at level 0
		}
		var eigen mat.EigenSym
		eigen.Factorize(symmetric.FromTriangle(sums, 3, math.Sqrt2), false)
		for _, v := range eigen.Values(nil) {
			largest = math.Max(largest, math.Abs(v))
		}
	}
	if largest > bound || largest < bound/10 {
		t.Errorf("largest noise norm of %d is %v, the bound %v", repetitions, largest, bound)
	}
}

// With proof constants the warm-up's confidence set holds theta* (logistic, d = 2, S = 1, 2000 people) in every one of
// 12 runs (200 with RIFFLE_LONG=1). The set fails with probability below 1e-3 by construction; in fact it is so wide
// that it never fails, and the test is there to catch a wrong sign or a lost factor.
func TestProofSetsHoldTheTruth(t *testing.T) {
	runs := 12
	if os.Getenv("RIFFLE_LONG") != "" {
		runs = 200
	}
	for seed := range uint64(runs) {
		env := environment(t, "ball", "logistic", 1, 2, 5, 1, seed)
		cfg := learner.Config{Profile: glm.Paper, Dimension: 2, Radius: 1, Horizon: 4000,
			Paper: learner.PaperConfig{Constants: learner.ProofConstants, Warmup: 1500, Second: 2500, Rounds: 4,
				DesignTolerance: .1}}
		o := simulate(t, cfg, env, budget{epsilon: 1, delta: 1e-6, ratio: 2, maxShift: 16}, seed)
		if o.survival != 1 {
			t.Errorf("seed %d: the best arm survives in %v of decisions", seed, o.survival)
		}
		for j, s := range o.final.Stages {
			distance := make([]float64, len(s.Theta))
			for i, v := range s.Theta {
				distance[i] = v - env.Theta[i]
			}
			matrix := mat.NewDense(2, 2, []float64{s.Covariance[0], s.Covariance[1], s.Covariance[1], s.Covariance[2]})
			if err := matrix.Inverse(matrix); err != nil {
				t.Fatal(err)
			}
			v := mat.NewVecDense(2, distance)
			if norm := math.Sqrt(mat.Inner(v, matrix, v)); norm > s.Width {
				t.Errorf("seed %d, stage %d: distance %v above the width %v", seed, j, norm, s.Width)
			}
		}
	}
}

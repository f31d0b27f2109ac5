package simulated

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Range is what a Gaussian channel must know of the vectors of one statistic.
type Range struct {
	Lower, Upper []float64 // range of each entry, data units; entries outside are clamped
	// Diameter is the largest l2 distance between the clamped vectors of two records, the null record included, in data
	// units.
	Diameter float64
	// Share is the positive weight of this statistic in the privacy budget: its part of mu^2 is Share over the sum of
	// the shares.
	Share float64
}

// gaussian holds what Local and Central share: ranges, and the standard deviation of one draw of noise for each
// statistic.
type gaussian struct {
	statistics []Range
	dims       []int
	sigmas     []float64
}

// calibrate splits the budget of one record, (epsilon, delta) under replacement, over its statistics: mu(epsilon,
// delta) of the Gaussian mechanism (Balle and Wang, "Improving the Gaussian mechanism for differential privacy", 2018;
// Dong, Roth and Su, Corollary 1), mu_s^2 in proportion to the shares, sigma_s = Diameter_s / mu_s.
func calibrate(statistics []Range, epsilon, delta float64) (gaussian, error) {
	mu, err := privacy.MuFor(epsilon, delta)
	if err != nil {
		return gaussian{}, fmt.Errorf("%w: %w", ErrChannel, err)
	}
	if len(statistics) == 0 {
		return gaussian{}, fmt.Errorf("%w: no statistics", ErrChannel)
	}
	var shares float64
	g := gaussian{statistics: statistics}
	for s, statistic := range statistics {
		if err := statistic.validate(); err != nil {
			return gaussian{}, fmt.Errorf("%w: statistic %d: %w", ErrChannel, s, err)
		}
		shares += statistic.Share
	}
	for _, statistic := range statistics {
		g.dims = append(g.dims, len(statistic.Lower))
		g.sigmas = append(g.sigmas, statistic.Diameter/(mu*math.Sqrt(statistic.Share/shares)))
	}
	return g, nil
}

func (s Range) validate() error {
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
	if len(s.Lower) == 0 || len(s.Lower) != len(s.Upper) {
		return fmt.Errorf("%d lower and %d upper ends of ranges", len(s.Lower), len(s.Upper))
	}
	for j := range s.Lower {
		if !(s.Lower[j] <= s.Upper[j]) || math.IsInf(s.Lower[j], 0) || math.IsInf(s.Upper[j], 0) {
			return fmt.Errorf("entry %d has no range from %v to %v", j, s.Lower[j], s.Upper[j])
		}
	}
	if !positive(s.Diameter) || !positive(s.Share) {
		return fmt.Errorf("diameter %v and share %v must be positive and finite", s.Diameter, s.Share)
	}
	return nil
}

// sum adds up the cohort's clamped vectors; if noise is not nil, it is applied to each vector before it is added.
func (g gaussian) sum(cohort iter.Seq[Report], noise func(s int, x []float64)) ([]Aggregate, error) {
	clamped := make([]float64, slices.Max(g.dims))
	return sum(cohort, g.dims, func(s int, x []float64) []float64 {
		out := clamped[:len(x)]
		for j, value := range x {
			out[j] = min(max(value, g.statistics[s].Lower[j]), g.statistics[s].Upper[j])
		}
		if noise != nil {
			noise(s, out)
		}
		return out
	})
}

// noise returns a function that adds independent Gaussian noise to every entry of a vector of statistic s.
func (g gaussian) noise(src protocol.Source) func(s int, x []float64) {
	normal := rand.New(src)
	return func(s int, x []float64) {
		for j := range x {
			x[j] += g.sigmas[s] * normal.NormFloat64()
		}
	}
}

// setVariance gives every entry the variance of the sum of this number of draws.
func (g gaussian) setVariance(aggregates []Aggregate, draws int) {
	for s := range aggregates {
		for j := range aggregates[s].Variance {
			aggregates[s].Variance[j] = float64(draws) * g.sigmas[s] * g.sigmas[s]
		}
	}
}

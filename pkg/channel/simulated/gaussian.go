package simulated

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Range says where the vectors of one statistic lie, for a Gaussian channel, and what share of the budget they get.
type Range struct {
	Lower, Upper []float64 // range of each entry, data units; entries outside are clamped
	// Diameter is the largest l2 distance between the clamped vectors of two records, null record included, data units.
	Diameter float64
	// Share > 0 is the statistic's weight in the privacy budget: its part of mu^2 is Share over the sum of shares.
	Share float64
}

// gaussian holds what GaussianLocal and GaussianCentral share: ranges, and the standard deviation of one draw of
// noise for each statistic.
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

// sum adds up the cohort's clamped vectors. A noise that is not nil changes each vector before it is added.
func (g gaussian) sum(cohort iter.Seq[Report], noise func(s int, x []float64)) ([]Aggregate, error) {
	aggregates := make([]Aggregate, len(g.dims))
	clamped := make([][]float64, len(g.dims))
	for s, dim := range g.dims {
		aggregates[s].Sum, clamped[s] = make([]float64, dim), make([]float64, dim)
	}
	reports := 0
	for report := range cohort {
		if err := checkReport(report, g.dims, reports); err != nil {
			return nil, err
		}
		for s, x := range report {
			for j, value := range x {
				clamped[s][j] = min(max(value, g.statistics[s].Lower[j]), g.statistics[s].Upper[j])
			}
			if noise != nil {
				noise(s, clamped[s])
			}
			for j, value := range clamped[s] {
				aggregates[s].Sum[j] += value
			}
		}
		reports++
	}
	if reports == 0 {
		return nil, fmt.Errorf("%w: no reports", ErrCohort)
	}
	for s := range aggregates {
		aggregates[s].Reports = reports
	}
	return aggregates, nil
}

// noise returns a function that adds independent floating-point Gaussian noise to every entry of a vector of statistic
// s. It is for simulations only.
func (g gaussian) noise(src protocol.Source) func(s int, x []float64) {
	normal := rand.New(src)
	return func(s int, x []float64) {
		for j := range x {
			x[j] += g.sigmas[s] * normal.NormFloat64()
		}
	}
}

// setVariance sets the variance of every entry to that of the given number of draws.
func (g gaussian) setVariance(aggregates []Aggregate, draws int) {
	for s, dim := range g.dims {
		aggregates[s].Variance = make([]float64, dim)
		for j := range aggregates[s].Variance {
			aggregates[s].Variance[j] = float64(draws) * g.sigmas[s] * g.sigmas[s]
		}
	}
}

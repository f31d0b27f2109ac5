package simulated

import (
	"iter"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// GaussianLocal is local differential privacy as the literature compares with it: each device adds Gaussian noise of
// its own, enough for (epsilon, delta) against anyone who sees its report. It needs no trust, and the error of a sum
// grows with the square root of the cohort. It is a yardstick of floating-point noise, for simulations only, and does
// not protect anyone: the channel local of the roles is Integer.
type GaussianLocal struct{ gaussian }

// NewGaussianLocal calibrates the noise of every device to (epsilon, delta) for all its statistics together, with the
// analytic Gaussian mechanism. Errors wrap ErrChannel.
func NewGaussianLocal(statistics []Range, epsilon, delta float64) (*GaussianLocal, error) {
	g, err := calibrate(statistics, epsilon, delta)
	if err != nil {
		return nil, err
	}
	return &GaussianLocal{g}, nil
}

// Aggregate implements Channel. src is a simulation's: the noise is rounded to floating-point numbers, whatever it is.
func (c *GaussianLocal) Aggregate(cohort iter.Seq[Report], src protocol.Source) ([]Aggregate, error) {
	aggregates, err := c.sum(cohort, c.noise(src))
	if err != nil {
		return nil, err
	}
	c.setVariance(aggregates, aggregates[0].Reports)
	return aggregates, nil
}

package simulated

import (
	"iter"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// GaussianCentral is the trusted curator of the literature: one party sees every vector, and adds Gaussian noise once
// to what it publishes. Its error is what noise ratios are relative to. It is a yardstick of floating-point noise,
// for simulations only, and does not protect anyone: the channel central of the roles is Integer.
type GaussianCentral struct{ gaussian }

// NewGaussianCentral calibrates the curator's noise to (epsilon, delta) for all statistics of a record together, under
// replacement of one record, with the analytic Gaussian mechanism. Errors wrap ErrChannel.
func NewGaussianCentral(statistics []Range, epsilon, delta float64) (*GaussianCentral, error) {
	g, err := calibrate(statistics, epsilon, delta)
	if err != nil {
		return nil, err
	}
	return &GaussianCentral{g}, nil
}

// Aggregate implements Channel. src is a simulation's: the noise is rounded to floating-point numbers, whatever it is.
func (c *GaussianCentral) Aggregate(cohort iter.Seq[Report], src protocol.Source) ([]Aggregate, error) {
	aggregates, err := c.sum(cohort, nil)
	if err != nil {
		return nil, err
	}
	noise := c.noise(src)
	for s := range aggregates {
		noise(s, aggregates[s].Sum)
	}
	c.setVariance(aggregates, 1)
	return aggregates, nil
}

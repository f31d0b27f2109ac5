package simulated

import (
	"iter"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Central is the trusted curator: one party sees every vector, and adds Gaussian noise once to what it publishes. Its
// error is what the shuffle protocol is measured against. It is a research baseline with
// floating-point noise, and does not protect anyone.
type Central struct{ gaussian }

// NewCentral calibrates the curator's noise to (epsilon, delta) for all statistics of a record together, under
// replacement of one record, with the analytic Gaussian mechanism. Errors wrap ErrChannel.
func NewCentral(statistics []Range, epsilon, delta float64) (*Central, error) {
	g, err := calibrate(statistics, epsilon, delta)
	if err != nil {
		return nil, err
	}
	return &Central{g}, nil
}

// Aggregate implements Channel.
func (c *Central) Aggregate(cohort iter.Seq[Report], src protocol.Source) ([]Aggregate, error) {
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

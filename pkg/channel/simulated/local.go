package simulated

import (
	"iter"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Local is local differential privacy: each device adds Gaussian noise of its own, enough for (epsilon, delta)
// against any reader of its report. No party is trusted, and the error of a sum grows with the square root of the
// cohort. It is a research baseline with floating-point noise, and does not protect anyone.
type Local struct{ gaussian }

// NewLocal calibrates the noise of every device to (epsilon, delta) for all its statistics together, with the analytic
// Gaussian mechanism. Errors wrap ErrChannel.
func NewLocal(statistics []Range, epsilon, delta float64) (*Local, error) {
	g, err := calibrate(statistics, epsilon, delta)
	if err != nil {
		return nil, err
	}
	return &Local{g}, nil
}

// Aggregate implements Channel.
func (c *Local) Aggregate(cohort iter.Seq[Report], src protocol.Source) ([]Aggregate, error) {
	aggregates, err := c.sum(cohort, c.noise(src))
	if err != nil {
		return nil, err
	}
	c.setVariance(aggregates, aggregates[0].Reports)
	return aggregates, nil
}

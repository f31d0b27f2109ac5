package device

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// ErrNoSchema says that the deployment announces no schema of features: arms are vectors.
var ErrNoSchema = errors.New("this deployment announces no schema of features: send arms as vectors of its dimension")

// schema opens the announced schema, nil where there is none. One that is malformed, or makes vectors of another
// dimension than the policy's, is an error: no device could decide under such an announcement.
func schema(a *plan.Announcement) (*feature.Schema, error) {
	if len(a.Schema) == 0 {
		return nil, nil
	}
	s, err := feature.Open(a.Schema)
	if err != nil {
		return nil, fmt.Errorf("device: the announced schema: %w", err)
	}
	if s.Dimension() != a.Policy.Dimension {
		return nil, fmt.Errorf("device: the announced schema makes vectors of %d numbers, "+
			"and the policy's dimension is %d", s.Dimension(), a.Policy.Dimension)
	}
	return s, nil
}

// Encode makes vectors of arms in their context, as the announced schema says. Their order is kept. ErrNoPolicy says
// that nothing was announced yet, ErrNoSchema that there is no schema, and feature.ErrFeatures what does not fit it.
// For Deposit the arms are known from here on, fit or not.
func (d *Device) Encode(context feature.Values, arms []feature.Arm) ([][]float64, error) {
	d.known()
	switch {
	case d.last == nil:
		return nil, ErrNoPolicy
	case d.last.Features == nil:
		return nil, ErrNoSchema
	}
	return d.last.Features.Encode(context, arms)
}

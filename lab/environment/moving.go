package environment

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/riffle-dp/riffle/internal/world"
)

// changes fills in the change of a specification whose other defaults are filled in, and refuses one that its kind does
// not have.
func (s Spec) changes() (Spec, error) {
	if s.Change == nil {
		return s, nil
	}
	if !slices.Contains([]string{Ball, Fixed, Changing, Unit}, s.Kind) || s.Kind == Changing &&
		s.Change.Kind == world.Arms {
		return s, fmt.Errorf("%w: environments of kind %q do not change by %q", ErrSpec, s.Kind, s.Change.Kind)
	}
	c, err := s.Change.Resolve(s.Dimension, s.Arms)
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	s.Change = &c
	return s, nil
}

// moving is what changes of a synthetic population.
type moving struct {
	world.Change
	first, towards []float64
	now            []float64
}

func newMoving(c world.Change, theta []float64, r *rand.Rand) *moving {
	m := &moving{Change: c, first: theta, now: make([]float64, len(theta))}
	if c.Kind != world.Arms {
		m.towards = world.Orthogonal(theta, r)
	}
	return m
}

// at is the parameter and what is offered of a person's arms when a share of the run is over. The parameter is valid
// until the next call.
func (m *moving) at(share float64, all [][]float64) (theta []float64, arms [][]float64) {
	if m.Kind == world.Arms {
		return m.first, m.Offered(all, share)
	}
	world.Turned(m.now, m.first, m.towards, m.Angle(share))
	return m.now, all
}

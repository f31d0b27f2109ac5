package world

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/riffle-dp/riffle/internal/population"
)

// The kinds of changes of a world.
const (
	Abrupt   = "abrupt"   // the true parameter turns at once
	Slow     = "slow"     // it turns at a steady rate, from a moment to the end
	Seasonal = "seasonal" // it swings to and fro
	Arms     = "arms"     // arms are withdrawn and new ones appear
)

// Change is how a world changes during a run, as a function of the share of the run that is over. The true parameter
// turns in a plane of its own per seed and keeps its norm. A zero field means its default.
type Change struct {
	Kind string `json:"kind"`
	// At is the share of the run after which Abrupt and Arms happen, default 0.5, and after which Slow begins, default
	// 0.
	At float64 `json:"at,omitempty"`
	// Turn is the angle between the first parameter and the one farthest from it, in degrees: default 90, at which what
	// was known says nothing any more. Above that, much of what was known is wrong.
	Turn float64 `json:"turn,omitempty"`
	// Period is the share of the run in which Seasonal swings to Turn and back; default 0.5.
	Period float64 `json:"period,omitempty"`
	// New and Withdrawn are numbers of arms of the kind Arms; default 1 each.
	New       int `json:"new,omitempty"`
	Withdrawn int `json:"withdrawn,omitempty"`
}

// Resolve checks the change for a world of so many dimensions and arms, and fills its defaults in. Errors wrap
// ErrSetting.
func (c Change) Resolve(dimension, arms int) (Change, error) {
	if kinds := []string{Abrupt, Slow, Seasonal, Arms}; !slices.Contains(kinds, c.Kind) {
		return c, fmt.Errorf("%w: change %q is none of %q", ErrSetting, c.Kind, kinds)
	}
	if c.Kind != Slow {
		c.At = cmp.Or(c.At, 0.5)
	}
	c.Turn, c.Period = cmp.Or(c.Turn, 90), cmp.Or(c.Period, 0.5)
	if c.Kind == Arms && c.New == 0 && c.Withdrawn == 0 {
		c.New, c.Withdrawn = 1, 1
	}
	switch {
	case !(c.At >= 0 && c.At < 1) || !(c.Period > 0 && c.Period <= 1):
		return c, fmt.Errorf("%w: a change at %v must be in [0, 1) and its period %v in (0, 1]: shares of the run",
			ErrSetting,
			c.At, c.Period)
	case !(c.Turn > 0 && c.Turn <= 180):
		return c, fmt.Errorf("%w: a turn of %v degrees must be in (0, 180]", ErrSetting, c.Turn)
	case c.Kind != Arms && (dimension < 2 || c.New != 0 || c.Withdrawn != 0):
		return c, fmt.Errorf("%w: the change %s needs 2 dimensions, and has no new or withdrawn arms", ErrSetting,
			c.Kind)
	case c.New < 0 || c.Withdrawn < 0 || c.New+c.Withdrawn > arms-2:
		return c, fmt.Errorf("%w: %d new and %d withdrawn of %d arms must leave 2 that stay", ErrSetting, c.New,
			c.Withdrawn,
			arms)
	}
	return c, nil
}

// AtOnce is the share of the run after which the world changes at once; 0 if it changes bit by bit, or c is nil.
func (c *Change) AtOnce() float64 {
	if c == nil || c.Kind != Abrupt && c.Kind != Arms {
		return 0
	}
	return cmp.Or(c.At, 0.5)
}

// Angle is how far the parameter has turned when a share of the run in [0, 1) is over, in radians. The change is
// resolved.
func (c Change) Angle(share float64) float64 {
	most := c.Turn * math.Pi / 180
	switch {
	case c.Kind == Abrupt && share >= c.At:
		return most
	case c.Kind == Slow && share > c.At:
		return most * (share - c.At) / (1 - c.At)
	case c.Kind == Seasonal:
		return most * (1 - math.Cos(2*math.Pi*share/c.Period)) / 2
	}
	return 0
}

// Offered are the arms that a person gets, out of all, when a share of the run is over: the first ones are new, those
// after them are withdrawn, and the rest stays. The change is resolved.
func (c Change) Offered(all [][]float64, share float64) [][]float64 {
	switch {
	case c.Kind != Arms:
		return all
	case share < c.At:
		return all[c.New:]
	}
	return slices.Concat(all[:c.New:c.New], all[c.New+c.Withdrawn:])
}

// Orthogonal draws a vector that is orthogonal to theta, of the same norm: the parameter turns towards it.
func Orthogonal(theta []float64, r *rand.Rand) []float64 {
	out, norm := make([]float64, len(theta)), math.Sqrt(population.Dot(theta, theta))
	for {
		population.Sphere(out, 1, r)
		for range 2 { // twice for rounding
			floats.AddScaled(out, -population.Dot(out, theta)/(norm*norm), theta)
		}
		if left := math.Sqrt(population.Dot(out, out)); left > 1e-3 {
			floats.Scale(norm/left, out)
			return out
		}
	}
}

// Turned writes theta, turned by an angle towards another vector that is orthogonal to it and of the same norm, into
// dst.
func Turned(dst, theta, towards []float64, angle float64) {
	sin, cos := math.Sincos(angle)
	for j, v := range theta {
		dst[j] = cos*v + sin*towards[j]
	}
}

package joint

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// ErrRelease wraps every reason to refuse a release, or records. Nothing has changed.
var ErrRelease = errors.New("joint: bad release")

// estimateGrid is the step of released estimates. They are rounded towards zero, so that none leaves its ball.
const estimateGrid = 0x1p-30

// Release is all that leaves the curator after a micro-batch: the noised node that the micro-batch completes in each
// tree, and the two estimates, old or new. All are whole numbers: steps of the node's grid, and of 2^-30.
type Release struct {
	V, H          []int64 // d(d+1)/2 each: the upper triangle, row by row, entries off the diagonal times sqrt 2
	First, Second []int64 // d each: theta_o, theta_tau
}

// ReleaseDim is the number of values of a release.
func (c Config) ReleaseDim() int { return 2*symmetric.Dim(c.Dimension) + 2*c.Dimension }

// Values are the release's whole numbers in the order V, H, First, Second, each below 2^53 in size.
func (r Release) Values() []float64 {
	out := make([]float64, 0, len(r.V)+len(r.H)+len(r.First)+len(r.Second))
	for _, part := range [][]int64{r.V, r.H, r.First, r.Second} {
		for _, v := range part {
			out = append(out, float64(v))
		}
	}
	return out
}

// ParseRelease is the inverse of Values. Errors wrap ErrRelease.
func (c Config) ParseRelease(values []float64) (Release, error) {
	if len(values) != c.ReleaseDim() {
		return Release{}, fmt.Errorf("%w: %d values, want %d", ErrRelease, len(values), c.ReleaseDim())
	}
	whole := make([]int64, len(values))
	for i, v := range values {
		if v != math.Trunc(v) || !(math.Abs(v) < mostSteps) {
			return Release{}, fmt.Errorf("%w: value %d is %v, not a whole number below 2^53", ErrRelease, i, v)
		}
		whole[i] = int64(v)
	}
	n, d := symmetric.Dim(c.Dimension), c.Dimension
	return Release{V: whole[:n:n], H: whole[n : 2*n : 2*n], First: whole[2*n : 2*n+d : 2*n+d],
		Second: whole[2*n+d:]}, nil
}

func onEstimateGrid(theta []float64) []int64 {
	out := make([]int64, len(theta))
	for i, v := range theta {
		out[i] = int64(v / estimateGrid)
	}
	return out
}

func fromGrid(steps []int64, grid float64) []float64 {
	out := make([]float64, len(steps))
	for i, v := range steps {
		out[i] = float64(v) * grid
	}
	return out
}

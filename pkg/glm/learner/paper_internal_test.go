package learner

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// A batch starts at most as far from theta* as the last set reaches in its longest direction, or the ball.
func TestStartErrorIsTheLastSetsReach(t *testing.T) {
	for name, c := range map[string]struct {
		stages []glm.Stage
		want   float64
	}{
		"warm-up":         {nil, 2},
		"the longest way": {[]glm.Stage{{Covariance: symmetric.Packed{.01, 0, .25}, Width: 3}}, 1.5},
		"the last set's": {[]glm.Stage{{Covariance: symmetric.Packed{1, 0, 1}, Width: 1},
			{Covariance: symmetric.Packed{.04, 0, .01}, Width: 5}}, 1},
		"wider than the ball":  {[]glm.Stage{{Covariance: symmetric.Packed{.01, 0, .25}, Width: 30}}, 4},
		"no shorter than zero": {[]glm.Stage{{Covariance: symmetric.Packed{-.01, 0, -.25}, Width: 30}}, 0},
	} {
		r := &paperRun{cfg: Config{Dimension: 2, Radius: 2}, stages: c.stages}
		if got, err := r.startError(); err != nil || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}

package estimate

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// AdaptiveSSP is AdaSSP: ridge regression on private sufficient statistics whose ridge is only as large as the smallest
// eigenvalue of the matrix leaves it to be, so that well-conditioned data are not shrunk.
//
// It is Algorithm 2 of Wang, "Revisiting differentially private linear regression: optimal and adaptive prediction and
// estimation in unbounded domain" (2018). Differences: the paper spends a third of the budget on the smallest
// eigenvalue, a third on the matrix and a third on the vector. Here a lower bound of the eigenvalue is read off the
// released matrix, which costs nothing (and needs no more than sums, so that it runs over every channel), and matrix
// and vector are one release, calibrated to both together. The paper's neighbours have one person more or less; here
// one person is replaced.
//
// Options: "lambda", the target of ridge plus eigenvalue, in units of the bound of the noise (default 1).
func AdaptiveSSP(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
	if err := s.Check(nil, []string{"lambda"}); err != nil {
		return nil, err
	}
	m, err := askMoments(s, people, ask)
	if err != nil {
		return nil, err
	}
	values, _, err := convex.Spectrum(m.matrix)
	if err != nil {
		return nil, fmt.Errorf("estimate: the released moments: %w", err)
	}
	target := math.Max(smallestRidge, s.Option("lambda", 1)*m.spread)
	lambda := math.Max(0, target-math.Max(0, values[0]-m.spread))
	return m.solve(lambda, target/2, s.Radius)
}

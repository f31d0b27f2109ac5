package glm

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/design"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Eliminate returns the indices of the arms that survive all stages, in the order given. A stage keeps the arms whose
// upper confidence bound reaches the largest lower bound among the remaining arms (Algorithm 1, lines 12-17) or, with
// Pairwise, the arms that the greedy one does not beat with confidence. The result is never empty. The arms must
// already lie in the unit ball.
func (p *Policy) Eliminate(arms [][]float64) ([]int, error) {
	survivors := make([]int, len(arms))
	for i := range survivors {
		survivors[i] = i
	}
	var upper, widths []float64
	var vectors [][]float64
	if len(p.Stages) > 0 && !p.Pairwise {
		scratch := make([]float64, 2*len(arms))
		upper, widths, vectors = scratch[:len(arms)], scratch[len(arms):], make([][]float64, 0, len(arms))
	}
	for j, stage := range p.Stages {
		if len(stage.Theta) != p.Dimension || len(stage.Covariance) != symmetric.Dim(p.Dimension) {
			return nil, fmt.Errorf("%w: stage %d has the wrong size", ErrPolicy, j)
		}
		if len(survivors) == 1 {
			break
		}
		if p.Pairwise {
			survivors = stage.undominated(arms, survivors)
			continue
		}
		vectors = vectors[:0]
		for _, a := range survivors {
			vectors = append(vectors, arms[a])
		}
		stage.halfWidths(widths, vectors)
		best := math.Inf(-1)
		for i, a := range survivors {
			middle, half := convex.Dot(arms[a], stage.Theta), widths[i]
			upper[i] = middle + half
			best = math.Max(best, middle-half)
		}
		if math.IsNaN(best) {
			return nil, fmt.Errorf("%w: stage %d has bounds that are not numbers", ErrPolicy, j)
		}
		kept := survivors[:0]
		for i, a := range survivors {
			if upper[i] >= best {
				kept = append(kept, a)
			}
		}
		survivors = kept
	}
	return survivors, nil
}

// undominated keeps the arms that the stage's greedy arm does not beat with confidence: those with
// (best - x).Theta <= HalfWidth(best - x). While the confidence set holds theta*, the best arm is kept.
func (s Stage) undominated(arms [][]float64, survivors []int) []int {
	const atOnce = 4
	d, n := len(s.Theta), len(survivors)
	scratch := make([]float64, n+atOnce*(d+1))
	values, widths := scratch[:n], scratch[n:n+atOnce]
	var differences [atOnce][]float64
	for i := range differences {
		differences[i] = scratch[n+atOnce+i*d : n+atOnce+(i+1)*d]
	}
	best, value := survivors[0], math.Inf(-1)
	for i, a := range survivors {
		values[i] = convex.Dot(arms[a], s.Theta)
		if values[i] > value {
			best, value = a, values[i]
		}
	}
	kept := survivors[:0]
	for start := 0; start < n; start += atOnce {
		now := survivors[start:min(start+atOnce, n)]
		for i, a := range now {
			for j, v := range arms[best] {
				differences[i][j] = v - arms[a][j]
			}
		}
		s.halfWidths(widths, differences[:len(now)])
		for i, a := range now {
			if a == best || value-values[start+i] <= widths[i] {
				kept = append(kept, a)
			}
		}
	}
	return kept
}

// admit checks the arms and returns them inside the unit ball, with the number of those that it scaled down. Only these
// are copied.
func (p *Policy) admit(arms [][]float64) ([][]float64, int, error) {
	if err := design.CheckArms(arms); err != nil {
		return nil, 0, err
	}
	if len(arms[0]) != p.Dimension || len(p.Theta) != p.Dimension {
		return nil, 0, fmt.Errorf("%w: the arms have dimension %d, the policy %d and its theta %d",
			ErrBadArm, len(arms[0]), p.Dimension, len(p.Theta))
	}
	if err := p.Structure.Validate(p.Dimension); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	for i, x := range arms {
		if !p.Structure.Fits(x) {
			return nil, 0, fmt.Errorf("%w: arm %d does not fit the announced structure: it is other than 0 in two "+
				"runs of coordinates of which an arm has at most one", ErrBadArm, i)
		}
	}
	if s := p.Scaling; s != nil && (len(s.Theta) != p.Dimension || len(s.Covariance) != symmetric.Dim(p.Dimension)) {
		return nil, 0, fmt.Errorf("%w: the scaling has the wrong size", ErrPolicy)
	}
	shortened := 0
	admitted := arms
	for i, x := range arms {
		unit, short := convex.ToUnitBall(x)
		if !short {
			continue
		}
		if shortened == 0 {
			admitted = append([][]float64(nil), arms...)
		}
		admitted[i] = unit
		shortened++
	}
	return admitted, shortened, nil
}

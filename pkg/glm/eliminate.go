package glm

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/design"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Eliminate returns the indices of the arms that survive all stages, and then all trees, in the order given. Each keeps
// the arms whose upper confidence bound reaches the largest lower bound among the remaining arms (Algorithm 1, lines
// 12-17). The result is never empty. The arms must already lie in the unit ball.
func (p *Policy) Eliminate(arms [][]float64) ([]int, error) {
	survivors := make([]int, len(arms))
	for i := range survivors {
		survivors[i] = i
	}
	var upper, widths []float64
	var vectors [][]float64
	if len(p.Stages) > 0 {
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
		vectors = vectors[:0]
		for _, a := range survivors {
			vectors = append(vectors, arms[a])
		}
		stage.halfWidths(widths, vectors)
		mean := func(z float64) float64 { return z }
		if stage.Means {
			f, err := family.New(p.Family, p.MaxReward)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrPolicy, err)
			}
			mean = f.Mean
		}
		best := math.Inf(-1)
		for i, a := range survivors {
			middle, half := mean(convex.Dot(arms[a], stage.Theta)), widths[i]
			upper[i] = middle + half
			best = math.Max(best, middle-half)
		}
		if math.IsNaN(best) {
			return nil, fmt.Errorf("%w: stage %d has bounds that are not numbers", ErrPolicy, j)
		}
		survivors = reaching(survivors, upper, best)
	}
	return p.eliminateByTrees(arms, survivors)
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

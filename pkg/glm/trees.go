package glm

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// MaxTrees bounds the trees of a policy, and with them the work of a decision. RegCB has one for each epoch that
// learned something, and each epoch has twice the people of the one before.
const MaxTrees = 32

// checkTrees refuses too many trees, those of another family than the linear one, and one that is not well formed.
func (p *Policy) checkTrees() error {
	if n := len(p.Trees); n > MaxTrees {
		return fmt.Errorf("%d trees, at most %d are allowed", n, MaxTrees)
	}
	if len(p.Trees) > 0 && p.Family != family.NameLinear {
		return fmt.Errorf("trees are for the family %s, not %s", family.NameLinear, p.Family)
	}
	for i := range p.Trees {
		if err := p.Trees[i].Validate(p.Dimension); err != nil {
			return fmt.Errorf("tree %d: %w", i, err)
		}
	}
	return nil
}

// score is the estimate of an arm that greedy play follows: <x, Theta>, and with trees the mean of the last of them.
func (p *Policy) score(x []float64) float64 {
	n := len(p.Trees)
	if n == 0 {
		return convex.Dot(x, p.Theta)
	}
	mean, _ := p.Trees[n-1].Predict(x, p.Radius)
	return mean
}

// eliminateByTrees goes on with Eliminate: each tree, in order, keeps the arms whose upper bound reaches the largest
// lower bound among those left.
func (p *Policy) eliminateByTrees(arms [][]float64, survivors []int) ([]int, error) {
	upper := make([]float64, len(survivors))
	for j := range p.Trees {
		if len(survivors) == 1 {
			break
		}
		best := math.Inf(-1)
		for i, a := range survivors {
			mean, bound := p.Trees[j].Predict(arms[a], p.Radius)
			upper[i] = mean + bound
			best = math.Max(best, mean-bound)
		}
		if math.IsNaN(best) {
			return nil, fmt.Errorf("%w: tree %d has bounds that are not numbers", ErrPolicy, j)
		}
		survivors = reaching(survivors, upper, best)
	}
	return survivors, nil
}

// reaching are the survivors whose upper bounds reach a limit, in their own memory.
func reaching(survivors []int, upper []float64, limit float64) []int {
	kept := survivors[:0]
	for i, a := range survivors {
		if upper[i] >= limit {
			kept = append(kept, a)
		}
	}
	return kept
}

package play

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Elimination drops the arms that some model's confidence interval says are not the best, model by model in their
// order, and lets another policy play what is left: lines 1 and 2 of Algorithm 4 (Confidence_based_Planning) of
// "Near-optimal private learning in linear contextual bandits", for the one context at hand.
type Elimination struct {
	Models []learn.Model // of the finished epochs, the oldest first
	// Among compares with the survivors only. Algorithm 4 compares with all arms, also those dropped before. Both keep
	// the best arm as long as the models' bounds hold.
	Among bool
	Then  learn.Policy
}

// Survivors are the indices of the arms that are left, ascending; never none. A model whose intervals would drop all
// arms, which happens only where a bound fails, is passed over (the paper does not say what to do).
func (e Elimination) Survivors(arms [][]float64) []int {
	left := make([]int, len(arms))
	for a := range arms {
		left[a] = a
	}
	value, bound := make([]float64, len(arms)), make([]float64, len(arms))
	for _, m := range e.Models {
		top := math.Inf(-1)
		for a, x := range arms {
			value[a], bound[a] = m.Predict(x), m.Bound(x)
			if !e.Among {
				top = math.Max(top, value[a]-bound[a])
			}
		}
		if e.Among {
			for _, a := range left {
				top = math.Max(top, value[a]-bound[a])
			}
		}
		var next []int
		for _, a := range left {
			if value[a]+bound[a] >= top {
				next = append(next, a)
			}
		}
		if len(next) > 0 {
			left = next
		}
	}
	return left
}

// Decide implements learn.Policy.
func (e Elimination) Decide(arms [][]float64, src protocol.Source) (learn.Choice, error) {
	left := e.Survivors(arms)
	some := make([][]float64, len(left))
	for i, a := range left {
		some[i] = arms[a]
	}
	choice, err := e.Then.Decide(some, src)
	if err != nil {
		return choice, err
	}
	choice.Arm = left[choice.Arm]
	return choice, nil
}

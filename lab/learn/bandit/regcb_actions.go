package bandit

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// NewRegCBActions is RegCB.Elimination as printed (see bandit.RegCB): an oracle for each of Setting.Arms actions, which
// are the places of arms in a person's list, and uniform play among the actions that are left. A report covers the
// oracles of all actions at once, and is zero but for the action played: the guarantee is that of one report.
func NewRegCBActions(s learn.Setting) (*learn.Learner, error) {
	return bandit.RegCBOracles(s, s.Arms, func(epochs [][]*layered.Tree) learn.Policy {
		return byAction{epochs: epochs, radius: s.Radius}
	})
}

// byAction is uniform play among the actions that no epoch's trees have ruled out, one tree for each action.
type byAction struct {
	epochs [][]*layered.Tree
	radius float64
}

// Decide implements learn.Policy. The tag is the action: the oracle that the record is for.
func (p byAction) Decide(arms [][]float64, src protocol.Source) (learn.Choice, error) {
	left := make([]int, len(arms))
	for a := range arms {
		left[a] = a
	}
	for _, trees := range p.epochs {
		if len(arms) > len(trees) {
			return learn.Choice{}, fmt.Errorf("bandit: %d arms, and oracles for %d", len(arms), len(trees))
		}
		least, upper := math.Inf(-1), make([]float64, len(arms))
		for _, a := range left {
			model := estimate.TreeModel{Tree: trees[a], Radius: p.radius}
			value, bound := model.Predict(arms[a]), model.Bound(arms[a])
			least, upper[a] = math.Max(least, value-bound), value+bound
		}
		left = slices.DeleteFunc(left, func(a int) bool { return upper[a] < least })
	}
	arm := left[int(protocol.Uniform(src)*float64(len(left)))]
	return learn.Choice{Arm: arm, Propensity: 1 / float64(len(left)), Tag: arm}, nil
}

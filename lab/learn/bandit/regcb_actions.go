package bandit

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/lab/learn/play"
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
	e := play.Elimination{Among: true, Then: play.Uniform{}}
	marked := make([][]float64, len(arms))
	for a, x := range arms {
		marked[a] = append(slices.Clone(x), float64(a))
	}
	for _, trees := range p.epochs {
		if len(arms) > len(trees) {
			return learn.Choice{}, fmt.Errorf("bandit: %d arms, and oracles for %d", len(arms), len(trees))
		}
		var models marks
		for _, t := range trees {
			models = append(models, estimate.TreeModel{Tree: t, Radius: p.radius})
		}
		e.Models = append(e.Models, models)
	}
	choice, err := e.Decide(marked, src)
	choice.Tag = choice.Arm
	return choice, err
}

// marks is a model for each action, of arms whose last coordinate is the action.
type marks []learn.Model

func (m marks) of(x []float64) (learn.Model, []float64) {
	last := len(x) - 1
	return m[int(x[last])], x[:last]
}

// Predict implements learn.Model.
func (m marks) Predict(x []float64) float64 {
	model, arm := m.of(x)
	return model.Predict(arm)
}

// Bound implements learn.Model.
func (m marks) Bound(x []float64) float64 {
	model, arm := m.of(x)
	return model.Bound(arm)
}

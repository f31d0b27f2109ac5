package bandit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/riffle-dp/riffle/lab/learn/play"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Options of RegCB; those of estimate.Layered are allowed as well.
const (
	// RegCBFirst is n_0, the people of the first epoch. The default is 64 for each question of an epoch: what such
	// epochs learn is nothing, but they cost next to nothing, too.
	RegCBFirst = "first"
	// RegCBExploit is play.Spanner.Exploit, with the estimate of the last epoch that learned anything; default 0.5, the
	// paper's is 0. Not for NewRegCBActions.
	RegCBExploit = "exploit"
)

const regCBLeast, regCBExploit = 64, .5

// NewRegCB is RegCB.Elimination, Algorithm 1 of "On the optimal regret of locally private linear contextual bandit",
// with layered regression (estimate.Layered) as its oracle, one for all actions. In epochs of n_0 2^tau people everyone
// plays among the actions that no finished epoch has ruled out.
//
// What differs: the paper has an oracle for each action and plays uniformly, which costs a factor A^2 in its regret
// (NewRegCBActions). One oracle for the features of all actions learns the same parameter from everyone's report, if
// the actions played span those that are left; so a barycentric spanner of these is played, as in "Near-optimal private
// learning in linear contextual bandits", for a factor of the dimension in place of A^2. Half of the people play what
// looks best instead (RegCBExploit), which costs the others' reports a factor 2 at most. A last epoch that the horizon
// would cut off asks no one: its people play by what is known, and report nothing.
//
// The guarantee is that of the oracle: each person answers one question of one epoch. With the default oracle it is
// pure epsilon. Contexts must be independent draws from one law.
func NewRegCB(s learn.Setting) (*learn.Learner, error) {
	exploit := s.Option(RegCBExploit, regCBExploit)
	if !(exploit >= 0 && exploit < 1) {
		return nil, fmt.Errorf("bandit: the option %s is %v; it must be in [0, 1)", RegCBExploit, exploit)
	}
	return startRegCB(s, 1, func(epochs [][]learn.Model) learn.Policy {
		models := make([]learn.Model, len(epochs))
		for i, m := range epochs {
			models[i] = m[0]
		}
		spanner := play.Spanner{}
		if len(models) > 0 {
			spanner = play.Spanner{Exploit: exploit, Score: models[len(models)-1].Predict}
		}
		return play.Elimination{Models: models, Among: true, Then: spanner}
	})
}

// NewRegCBActions is RegCB.Elimination as printed: an oracle for each of Setting.Arms actions, which are the places of
// arms in a person's list, and uniform play among the actions that are left. A report covers the oracles of all actions
// at once, and is zero but for the action played: the guarantee is that of one report.
func NewRegCBActions(s learn.Setting) (*learn.Learner, error) {
	return startRegCB(s, s.Arms, func(epochs [][]learn.Model) learn.Policy { return byAction(epochs) })
}

func startRegCB(s learn.Setting, oracles int, policy func(epochs [][]learn.Model) learn.Policy) (*learn.Learner,
	error) {
	if err := s.Check(estimate.LayeredVariants, append(slices.Clone(estimate.LayeredOptions), RegCBFirst,
		RegCBExploit)); err != nil {
		return nil, err
	}
	questions := 2*s.Dimension - 1
	first := s.Option(RegCBFirst, float64(regCBLeast*questions))
	if !(first >= float64(questions)) || first > float64(s.Horizon) || oracles < 1 {
		return nil, fmt.Errorf("bandit: a first epoch of %v people must have between %d and the horizon of %d, and "+
			"there must be arms: set the option %s", first, questions, s.Horizon, RegCBFirst)
	}
	oracle := s
	oracle.Options = maps.Clone(s.Options)
	delete(oracle.Options, RegCBFirst)
	delete(oracle.Options, RegCBExploit)
	return learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		var epochs [][]learn.Model
		left := s.Horizon
		for people := int(first); people <= left; people *= 2 {
			now := policy(slices.Clip(epochs))
			trees, learned, err := estimate.LayeredOracles(oracle, oracles, people,
				func(q learn.Question) (learn.Answer, error) {
					left -= q.People
					return ask(now, q)
				})
			if err != nil {
				return nil, err
			}
			if learned { // or they rule out nothing
				models := make([]learn.Model, len(trees))
				for i, t := range trees {
					models[i] = estimate.TreeModel{Tree: t, Radius: s.Radius}
				}
				epochs = append(epochs, models)
			}
		}
		return policy(epochs), nil
	})
}

// byAction is uniform play among the actions that no epoch's models have ruled out, one model for each action.
type byAction [][]learn.Model

// Decide implements learn.Policy. The tag is the action: the oracle that the record is for.
func (p byAction) Decide(arms [][]float64, src protocol.Source) (learn.Choice, error) {
	e := play.Elimination{Among: true, Then: play.Uniform{}}
	marked := make([][]float64, len(arms))
	for a, x := range arms {
		marked[a] = append(slices.Clone(x), float64(a))
	}
	for _, models := range p {
		if len(arms) > len(models) {
			return learn.Choice{}, fmt.Errorf("bandit: %d arms, and oracles for %d", len(arms), len(models))
		}
		e.Models = append(e.Models, marks(models))
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

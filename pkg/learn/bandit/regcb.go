package bandit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// regCBLeast is the default of First of RegCB for each question of an epoch: what such epochs learn is nothing, but
// they cost next to nothing, too.
const regCBLeast = 64

// RegCB is RegCB.Elimination, Algorithm 1 of "On the optimal regret of locally private linear contextual bandit",
// with layered regression (estimate.Layered) as its oracle, one for all actions. In epochs of n_0 2^tau people everyone
// plays among the actions that no finished epoch has ruled out.
//
// What differs: the paper has an oracle for each action and plays uniformly, which costs a factor A^2 in its regret
// (RegCBOracles). One oracle for the features of all actions learns the same parameter from everyone's report, if
// the actions played span those that are left; so a barycentric spanner of these is played, as in "Near-optimal private
// learning in linear contextual bandits", for a factor of the dimension in place of A^2. Half of the people play what
// looks best instead (Exploit), which costs the others' reports a factor 2 at most.
//
// Which questions are asked of how many people is fixed beforehand: it depends on the horizon alone. A last epoch that
// the horizon would cut off has the rest, if that is at least half as long; otherwise these people play by what is
// known, and report nothing.
//
// Options: First, n_0; Exploit, by the last epoch that learned anything, of which the paper has none; and those of
// estimate.Layered.
//
// The guarantee is that of the oracle: each person answers one question of one epoch. With the default oracle it is
// pure epsilon. Contexts must be independent draws from one law.
func RegCB(s learn.Setting) (*learn.Learner, error) {
	exploit := s.Option(Exploit, defaultExploit)
	if !(exploit >= 0 && exploit < 1) {
		return nil, fmt.Errorf("bandit: the option %s is %v; it must be in [0, 1)", Exploit, exploit)
	}
	return RegCBOracles(s, 1, func(epochs [][]*layered.Tree) learn.Policy {
		p := s.Policy(glm.RegCB, glm.PlaySpanner)
		for _, trees := range epochs[max(0, len(epochs)-glm.MaxTrees):] {
			p.Trees = append(p.Trees, *trees[0])
		}
		if len(epochs) > 0 && exploit > 0 {
			p.Explore = 1 - exploit
		}
		return learn.Data{Policy: p}
	})
}

// RegCBOracles is RegCB.Elimination with so many oracles, and with a policy that plays by the trees of the epochs that
// learned something, one for each oracle; Exploit is for that policy to follow.
func RegCBOracles(
	s learn.Setting, oracles int, policy func(epochs [][]*layered.Tree) learn.Policy,
) (*learn.Learner, error) {
	if err := s.Check(estimate.LayeredVariants, append(slices.Clone(estimate.LayeredOptions), First,
		Exploit)); err != nil {
		return nil, err
	}
	questions := estimate.LayeredQuestions(s.Dimension)
	first := s.Option(First, float64(regCBLeast*questions))
	if !(first >= float64(questions)) || first > float64(s.Horizon) || oracles < 1 {
		return nil, fmt.Errorf("bandit: a first epoch of %v people must have between %d and the horizon of %d, and "+
			"there must be arms: set the option %s", first, questions, s.Horizon, First)
	}
	oracle := s
	oracle.Options = maps.Clone(s.Options)
	delete(oracle.Options, First)
	delete(oracle.Options, Exploit)
	return learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		var epochs [][]*layered.Tree
		left := s.Horizon
		for size := int(first); left >= max(size/2, questions); size *= 2 {
			now := policy(slices.Clip(epochs))
			trees, learned, err := estimate.LayeredOracles(oracle, oracles, min(size, left),
				func(q learn.Question) (learn.Answer, error) {
					left -= q.People
					return ask(now, q)
				})
			if err != nil {
				return nil, err
			}
			if learned { // or they rule out nothing
				epochs = append(epochs, trees)
			}
		}
		return policy(epochs), nil
	})
}

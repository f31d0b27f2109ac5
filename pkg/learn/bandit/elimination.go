package bandit

import (
	"fmt"
	"maps"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/design"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// Options of the elimination bandits, by name in learn.Setting.Options; those of their regression are allowed, too.
const (
	// FirstEpoch is the size of the first epoch; 0 or less than the regression needs: what it needs.
	FirstEpoch = "first_epoch"
	// SpannerFactor is the largest coefficient of a spanner, from 1 to 2 (design.Spanner): 2; 1 in estimate.Literal.
	SpannerFactor = "spanner_factor"
	// Exploit is the share of people who play what looks best instead, in [0, 1): 0.5; 0 in estimate.Literal. The
	// paper's regret bound (Theorem D.2) then holds up to a factor 1/(1 - Exploit), since every arm of the spanner
	// keeps so much of its probability. Elimination alone begins only where bounds are below the gaps of arms, after
	// some 10^5 people in the setting's dimension 5.
	Exploit = "exploit"
)

const defaultExploit, literalFactor = 0.5, 1

// oracle is an L1 regression oracle: Definition 6 and Assumption 2 of "Near-optimal private learning in linear
// contextual bandits".
type oracle struct {
	// estimator learns the model of an epoch. previous is the model of the epoch before, nil in the first.
	estimator func(previous learn.Model) estimate.Estimator
	least     int // fewest people of an epoch
	// told is what the estimator is told in each of so many epochs.
	told func(s learn.Setting, epochs int) learn.Setting
}

// NewElimination is action elimination with L1 regression, "Near-optimal private learning in linear contextual bandits"
// by Chen, Li, Rakhlin and Simchi-Levi, 2025: Algorithm 3 with Algorithm 2, Theorem 5.1, where the channel adds noise
// once per batch (joint privacy), with Algorithm 8, Theorem 5.3, where every device does (local privacy), and without
// privacy where there is no noise. Over the channels shuffle and shares it has no counterpart in the literature.
//
// Contexts must be independent draws from one law: the theorems do not hold for adversarial ones.
//
// What differs (not in estimate.Literal, except for the first two): an epoch's policy uses all finished epochs, where
// the paper's index 0 means both the first guess and the first epoch; arms are compared with those that are left, not
// with all, which keeps the best arm as long, too; the first epoch is as long as the regression needs; each descent
// begins at the last estimate; Exploit; the failure probability of an epoch is the setting's over the number of epochs,
// where the paper has 1/T.
func NewElimination(s learn.Setting) (*learn.Learner, error) {
	own, told := divide(s)
	least, err := estimate.LeastL1(told)
	if err != nil {
		return nil, err
	}
	return own.start(glm.EliminationReweighted, told, oracle{least: least, told: epochFailure,
		estimator: func(previous learn.Model) estimate.Estimator {
			if linear, ok := previous.(estimate.Linear); ok && s.Variant != estimate.Literal {
				return estimate.WarmL1(linear.Theta)
			}
			return estimate.L1
		}})
}

// NewLinearElimination is action elimination with the reweighted linear regression: Algorithm 3 with Algorithm 12,
// Theorem 5.2, of the same paper, for linear rewards. It differs as NewElimination does. The failure probability at a
// point is delta/(T K): the paper prints 1/(delta T^2 K), which its proof cannot mean.
func NewLinearElimination(s learn.Setting) (*learn.Learner, error) {
	own, told := divide(s)
	return own.start(glm.EliminationLinear, told, oracle{least: linearLeast,
		told: func(s learn.Setting, epochs int) learn.Setting {
			s = epochFailure(s, epochs)
			options := map[string]float64{
				estimate.PointFailure: s.Failure / float64(s.Horizon) / float64(max(1, s.Arms)),
			}
			maps.Copy(options, s.Options)
			s.Options = options
			return s
		},
		estimator: func(learn.Model) estimate.Estimator { return estimate.ReweightedLinear }})
}

// linearLeast is the fewest people of an epoch of NewLinearElimination: four for each release of the literal variant.
const linearLeast = 44

// epochFailure is the setting with the failure probability of one of so many epochs.
func epochFailure(s learn.Setting, epochs int) learn.Setting {
	s.Failure /= float64(epochs)
	if s.Variant == estimate.Literal {
		s.Failure = 1 / float64(max(2, s.Horizon))
	}
	return s
}

// elimination holds the bandit's own options.
type elimination struct {
	first           int
	factor, exploit float64
}

// divide separates the bandit's own options from the regression's.
func divide(s learn.Setting) (elimination, learn.Setting) {
	e := elimination{factor: 1 + design.SpannerTolerance, exploit: defaultExploit}
	if s.Variant == estimate.Literal {
		e.factor, e.exploit = literalFactor, 0
	}
	e.first, e.factor = int(s.Option(FirstEpoch, 0)), s.Option(SpannerFactor, e.factor)
	e.exploit = s.Option(Exploit, e.exploit)
	told := maps.Clone(s.Options)
	for _, name := range []string{FirstEpoch, SpannerFactor, Exploit} {
		delete(told, name)
	}
	s.Options = told
	return e, s
}

// start is Algorithm 11 (the meta algorithm, Theorem D.2): epochs that double, one regression oracle for each, and
// Algorithm 4 in between. It is as private as the oracle: each person is in one epoch.
func (e elimination) start(profile glm.Profile, s learn.Setting, o oracle) (*learn.Learner, error) {
	if !(e.factor >= 1 && e.factor <= 2) || !(e.exploit >= 0 && e.exploit < 1) {
		return nil, fmt.Errorf("bandit: the spanner's factor %v must be in [1, 2], and exploit %v in [0, 1)", e.factor,
			e.exploit)
	}
	sizes, err := Doubling(s.Horizon, max(e.first, o.least))
	if err != nil {
		return nil, err
	}
	s = o.told(s, len(sizes))
	return learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		policy := s.Policy(profile, glm.PlaySpanner)
		policy.DesignTolerance = max(leastTolerance, e.factor-1)
		var last learn.Model
		for _, people := range sizes {
			m, err := o.estimator(last)(s, people, func(q learn.Question) (learn.Answer, error) {
				return ask(learn.Data{Policy: policy}, q)
			})
			if err != nil {
				return nil, err
			}
			linear, ok := m.(estimate.Linear)
			if !ok {
				return nil, fmt.Errorf("bandit: a model %T is no data", m)
			}
			last, policy = m, *policy.Clone()
			policy.Theta = linear.Theta
			if e.exploit > 0 {
				policy.Explore = 1 - e.exploit
			}
			if len(linear.Covariance) > 0 {
				policy.Stages = append(policy.Stages, linear.Stage)
			}
		}
		return learn.Data{Policy: policy}, nil
	})
}

// leastTolerance is the least tolerance that a policy can have.
const leastTolerance = 1e-12

// Doubling are the sizes of epochs T_1 = first, T_(j+1) = 2 T_j up to the horizon; a last one shorter than the first
// goes to the one before.
func Doubling(horizon, first int) ([]int, error) {
	if first < 1 || horizon < first {
		return nil, fmt.Errorf("bandit: a horizon of %d people is less than a first epoch of %d", horizon, first)
	}
	sizes, end := []int{first}, first
	for end < horizon {
		size := min(end, horizon-end)
		if size < first {
			sizes[len(sizes)-1] += size
		} else {
			sizes = append(sizes, size)
		}
		end += size
	}
	return sizes, nil
}

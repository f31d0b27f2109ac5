package bandit

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// The options of LinUCB, by name in learn.Setting.Options.
const (
	// First is the people of the first cohort, Growth the ratio of a cohort to the one before it, at least 1.
	First, Growth = "first", "growth"
	// Noise is R, by which rewards are sub-Gaussian: half of their range, 1, which every reward has.
	Noise = "noise"
	// Width is the factor of the practical width; not with Theory.
	Width = "width"
	// Theory is 1 for the shift and the width that are proved.
	Theory = "theory"
)

// Defaults of LinUCB.
const (
	defaultGrowth = 2.0
	defaultWidth  = 0.5
)

// LinUCB is linear optimistic play in batches: people of one cohort decide with the same confidence set, which the sums
// of xx' and xy over all cohorts before them give. It is the shuffle linear bandit of Chowdhury and Zhou, "Shuffle
// private linear contextual bandits" (2022), the local one of Zheng, Cai, Huang, Li and Wang, "Locally differentially
// private (contextual) bandits learning" (2020), and without noise LinUCB in batches, by the channel that answers. The
// set is SecondMoments.
//
// The sums are the Hessian and the gradient of the linear family at theta = 0, xx' and -xy, whose joint diameter is
// sqrt 4.5 (statistic.JointSpread finds it).
//
// Where it differs: the paper's batches are of one size, T^(3/5). Each release brings noise of the same variance, so
// that fewer batches have less: they double by default. Option Growth 1 has the paper's.
func LinUCB(s learn.Setting) (*learn.Learner, error) {
	if err := s.Check(nil, []string{First, Growth, Noise, Width, Theory}); err != nil {
		return nil, err
	}
	if s.Family.Name() != family.NameLinear {
		return nil, fmt.Errorf("bandit: LinUCB is for the family %s, not %s", family.NameLinear, s.Family.Name())
	}
	l := linUCB{setting: s, width: s.Option(Width, defaultWidth),
		SecondMoments: SecondMoments{Setting: s, Noise: s.Option(Noise, 1), Theory: s.Option(Theory, 0) != 0}}
	first, growth := s.Option(First, l.first()), s.Option(Growth, defaultGrowth)
	if !(first >= 1 && first <= 1<<31) || !(growth >= 1 && growth <= 1<<20) || !(l.width > 0) || !(l.Noise >= 0) {
		return nil, fmt.Errorf("bandit: the first cohort %v and growth %v must be at least 1, width %v positive, "+
			"noise %v at least 0", first, growth, l.width, l.Noise)
	}
	if err := l.statistics(); err != nil {
		return nil, err
	}
	return learn.Start(l.program(first, growth))
}

// linUCB is a run of LinUCB.
type linUCB struct {
	SecondMoments
	setting           learn.Setting
	width             float64
	hessian, gradient statistic.Statistic
	asked             []learn.Statistic
}

// first is the default of First: the paper's T^(3/5).
func (l *linUCB) first() float64 {
	return math.Max(1, math.Round(math.Pow(float64(l.setting.Horizon), 0.6)))
}

func (l *linUCB) statistics() (err error) {
	zero := make([]float64, l.setting.Dimension)
	if l.hessian, err = statistic.NewHessian(l.setting.Family, zero); err != nil {
		return err
	}
	if l.gradient, err = statistic.NewGradient(l.setting.Family, zero); err != nil {
		return err
	}
	l.hessian.Structure, l.gradient.Structure = l.setting.Structure, l.setting.Structure
	for _, of := range []statistic.Statistic{l.hessian, l.gradient} {
		s, err := learn.Announced(of)
		if err != nil {
			return err
		}
		l.asked = append(l.asked, s)
	}
	return nil
}

func (l *linUCB) program(first, growth float64) learn.Program {
	return func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		second, cross := mat.NewSymDense(l.setting.Dimension, nil), make([]float64, l.setting.Dimension)
		s, t := 0.0, 0.0 // variances
		policy, err := l.policy(second, cross, s, t)
		for left, size := l.setting.Horizon, first; left > 0 && err == nil; size *= growth {
			people := int(math.Min(float64(left), math.Round(size)))
			if rest := float64(left - people); rest < math.Min(size*growth, first) { // too few for another cohort
				people = left
			}
			left -= people
			a, err := ask(policy, learn.Question{Form: learn.Sums, People: people, Statistics: l.asked})
			if err != nil {
				return nil, err
			}
			second.AddSym(second, l.hessian.Matrix(a.Sums[0].Values))
			for i, v := range a.Sums[1].Values {
				cross[i] -= v
			}
			s += convex.MaxAbs(a.Sums[0].Variance) / 2 // what is released off the diagonal is sqrt 2 times the entry
			t += convex.MaxAbs(a.Sums[1].Variance)
			if policy, err = l.policy(second, cross, s, t); err != nil {
				return nil, err
			}
		}
		return policy, err
	}
}

// policy is optimistic play for the sums so far, whose noise has these variances.
func (l *linUCB) policy(second *mat.SymDense, cross []float64, s, t float64) (learn.Policy, error) {
	v := mat.NewSymDense(l.setting.Dimension, nil)
	v.CopySym(second)
	set, err := l.Confidence(v, cross, math.Sqrt(s), math.Sqrt(t))
	if err != nil {
		return nil, err
	}
	if !l.Theory {
		set.Width *= l.width
	}
	p := l.setting.Policy(glm.LinUCB, glm.PlayOptimistic)
	p.Theta, p.Optimism = set.Theta, &set
	return learn.Data{Policy: p}, nil
}

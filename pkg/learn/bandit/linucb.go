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
	// The paper's batches have T^(3/5) people.
	first := s.Option(First, math.Max(1, math.Round(math.Pow(float64(s.Horizon), 0.6))))
	l := &linUCB{width: s.Option(Width, defaultWidth), first: first, growth: s.Option(Growth, defaultGrowth),
		SecondMoments: SecondMoments{Setting: s, Noise: s.Option(Noise, 1), Theory: s.Option(Theory, 0) != 0},
		second:        mat.NewSymDense(s.Dimension, nil), cross: make([]float64, s.Dimension),
		left: s.Horizon, size: first}
	if !(first >= 1 && first <= 1<<31) || !(l.growth >= 1 && l.growth <= 1<<20) || !(l.width > 0) || !(l.Noise >= 0) {
		return nil, fmt.Errorf("bandit: the first cohort %v and growth %v must be at least 1, width %v positive, "+
			"noise %v at least 0", first, l.growth, l.width, l.Noise)
	}
	if err := l.statistics(); err != nil {
		return nil, err
	}
	return learn.StartState(l)
}

// linUCB is a run of LinUCB.
type linUCB struct {
	SecondMoments
	width, first, growth float64
	hessian, gradient    statistic.Statistic
	asked                []learn.Statistic

	second *mat.SymDense // sum of xx'
	cross  []float64     // sum of xy
	s, t   float64       // variances of the noise of an entry of second off the diagonal, and of cross
	left   int           // people who were not asked yet
	size   float64       // of the next cohort, as long as enough are left
}

func (l *linUCB) statistics() (err error) {
	zero := make([]float64, l.Setting.Dimension)
	if l.hessian, err = statistic.NewHessian(l.Setting.Family, zero); err != nil {
		return err
	}
	if l.gradient, err = statistic.NewGradient(l.Setting.Family, zero); err != nil {
		return err
	}
	l.hessian.Structure, l.gradient.Structure = l.Setting.Structure, l.Setting.Structure
	for _, of := range []statistic.Statistic{l.hessian, l.gradient} {
		s, err := learn.Announced(of)
		if err != nil {
			return err
		}
		l.asked = append(l.asked, s)
	}
	return nil
}

// people is the size of the next cohort.
func (l *linUCB) people() int {
	people := int(math.Min(float64(l.left), math.Round(l.size)))
	if rest := float64(l.left - people); rest < math.Min(l.size*l.growth, l.first) { // too few for another cohort
		return l.left
	}
	return people
}

// Next implements learn.State: optimistic play by the sums so far.
func (l *linUCB) Next() (learn.Step, error) {
	second := mat.NewSymDense(l.Setting.Dimension, nil)
	second.CopySym(l.second)
	set, err := l.Confidence(second, l.cross, math.Sqrt(l.s), math.Sqrt(l.t))
	if err != nil {
		return learn.Step{}, err
	}
	if !l.Theory {
		set.Width *= l.width
	}
	p := l.Setting.Policy(glm.LinUCB, glm.PlayOptimistic)
	p.Theta, p.Optimism = set.Theta, &set
	return learn.Step{Policy: learn.Data{Policy: p}, Done: l.left == 0,
		Question: learn.Question{Form: learn.Sums, People: l.people(), Statistics: l.asked}}, nil
}

// Absorb implements learn.State.
func (l *linUCB) Absorb(a learn.Answer) error {
	l.left, l.size = l.left-l.people(), l.size*l.growth
	l.second.AddSym(l.second, l.hessian.Matrix(a.Sums[0].Values))
	for i, v := range a.Sums[1].Values {
		l.cross[i] -= v
	}
	l.s += convex.MaxAbs(a.Sums[0].Variance) / 2 // what is released off the diagonal is sqrt 2 times the entry
	l.t += convex.MaxAbs(a.Sums[1].Variance)
	return nil
}

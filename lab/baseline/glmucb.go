package baseline

import (
	"math"

	"github.com/riffle-dp/riffle/internal/population"
)

// GLMUCB is GLM-UCB of Filippi, Cappe, Garivier and Szepesvari, "Parametric bandits: the generalized linear case"
// (2010), with the constants of the seed paper's experiments: ridge d, a width with kappa as a factor, for probit
// another sqrt(ln t).
type GLMUCB struct {
	inTheClear
	setting Setting
	fit     *fit
	design  *growing
	width   float64
	t       int
	chosen  []float64
}

// glmUCBRefit is how many rounds pass between refits. The published runs refit every round; every tenth gives the same
// regret to within a per cent for a tenth of the work.
const glmUCBRefit = 10

// NewGLMUCB starts GLM-UCB.
func NewGLMUCB(s Setting) (*GLMUCB, error) {
	if err := s.checkKappa(); err != nil {
		return nil, err
	}
	ridge := float64(s.Dimension)
	return &GLMUCB{setting: s, fit: newFit(s.Family, s.Dimension, ridge), design: newGrowing(s.Dimension, ridge),
		width: GLMUCBWidth(s)}, nil
}

// GLMUCBWidth is 2 L_mu sqrt(3 + 2 ln(1 + 2/ridge)) R kappa sqrt(2 d ln(2 d T/delta)).
func GLMUCBWidth(s Setting) float64 {
	d := float64(s.Dimension)
	root := math.Sqrt(2 * d * math.Log(2*d*float64(s.Horizon)/s.Failure))
	return 2 * s.slope() * math.Sqrt(3+2*math.Log1p(2/d)) * s.Family.MaxReward() * s.Kappa * root
}

// Choose implements simulate.Algorithm.
func (g *GLMUCB) Choose(arms [][]float64) (int, error) {
	g.t++
	width := g.width
	if g.setting.Family.Name() == "probit" {
		width *= math.Sqrt(math.Log(float64(g.t)))
	}
	a := best(arms, func(x []float64) float64 {
		return g.setting.Family.Mean(population.Dot(x, g.fit.theta)) + width*g.design.norm(x)
	})
	g.chosen = arms[a]
	return a, nil
}

// Learn implements simulate.Algorithm.
func (g *GLMUCB) Learn(reward float64) error {
	g.design.add(1, g.chosen)
	g.fit.add(g.chosen, reward)
	if g.t%glmUCBRefit == 0 {
		g.fit.refit()
	}
	return nil
}

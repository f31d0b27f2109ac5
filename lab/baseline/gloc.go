package baseline

import (
	"math"

	"github.com/riffle-dp/riffle/internal/population"
)

// GLOC is GLOC of Jun, Bhargava, Nowak and Willett, "Scalable generalized linear bandits: online computation and
// hashing" (2017), as in the seed paper's experiments: an online Newton iterate, rescaled to norm S, and optimism
// around it.
type GLOC struct {
	inTheClear
	setting Setting
	design  *growing
	theta   []float64
	curve   float64 // 1/kappa
	loss    float64 // B: the online learner's regret bound
	chosen  []float64
	step    []float64
}

// NewGLOC starts GLOC with ridge d.
func NewGLOC(s Setting) (*GLOC, error) {
	if err := s.checkKappa(); err != nil {
		return nil, err
	}
	ridge := float64(s.Dimension)
	return &GLOC{setting: s, design: newGrowing(s.Dimension, ridge), theta: make([]float64, s.Dimension),
		curve: 1 / s.Kappa, loss: 2 / s.Kappa * s.Radius * s.Radius * ridge, step: make([]float64, s.Dimension)}, nil
}

func (g *GLOC) radius() float64 {
	k, l, delta := g.curve, g.setting.slope(), g.setting.Failure
	ratio := l * l / k
	root := math.Sqrt(1 + 2*g.loss/k + 4*math.Pow(ratio, 4)/(delta*delta))
	return math.Sqrt(1 + 4/k*g.loss + 8*ratio*ratio*math.Log(2/delta*root))
}

// Choose implements simulate.Algorithm.
func (g *GLOC) Choose(arms [][]float64) (int, error) {
	radius := g.radius()
	a := best(arms, func(x []float64) float64 {
		return g.setting.Family.Mean(population.Dot(x, g.theta)) + radius*g.design.norm(x)
	})
	g.chosen = arms[a]
	return a, nil
}

// Learn implements simulate.Algorithm.
func (g *GLOC) Learn(reward float64) error {
	x := g.chosen
	g.design.add(1, x)
	residual := g.setting.Family.Mean(population.Dot(x, g.theta)) - reward
	g.loss += residual * residual * g.design.square(x) / (2 * g.curve)
	g.design.solve(g.step, x)
	length := 0.0
	for i, v := range g.step {
		g.theta[i] -= residual * v / g.curve
		length += g.theta[i] * g.theta[i]
	}
	if length > 0 {
		for i := range g.theta {
			g.theta[i] *= g.setting.Radius / math.Sqrt(length)
		}
	}
	return nil
}

package bandit

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// GreedySGD is the earlier private bandit with generalized linear rewards: the single-parameter algorithm with
// stochastic gradients of Han, Liang, Wang and Zhang, "Generalized linear bandits with local differential privacy"
// (2021). Every person plays greedily by the current estimate, reports the noisy gradient of their own loss at it, and
// the estimate moves against the report:
//
//	theta <- Proj_S( theta - g / (curvature (t + t0)) ).
//
// The paper assumes that contexts explore by themselves (a bound from below of their covariance's smallest eigenvalue,
// in every direction and under greedy play); where they do not, nothing makes it explore.
//
// The paper was not at hand. Its abstract and its followers give the estimator, the greedy play and the local noise;
// the step and the offset t0, which keeps the first steps inside the ball, are chosen here. The residual is clipped to
// the range that it has for arms and parameters in their balls, so that a gradient's diameter is 2 max |mu - r|.
//
// Options: curvature (default mu'(0)/d, the mean curvature of arms on the sphere); warmup (people who play uniformly
// first, default the square root of the horizon).
func GreedySGD(s learn.Setting) (*learn.Learner, error) {
	if err := s.Check(nil, []string{"curvature", "warmup"}); err != nil {
		return nil, err
	}
	curvature := s.Option("curvature", s.Family.Variance(0)/float64(s.Dimension))
	warmup := int(s.Option("warmup", math.Sqrt(float64(s.Horizon))))
	if !(curvature > 0) || warmup < 0 {
		return nil, fmt.Errorf("bandit: curvature %v must be positive and warmup %d not negative", curvature, warmup)
	}
	return learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		ball := convex.Ball{Radius: s.Radius}
		theta := make([]float64, s.Dimension)
		play := func(play glm.Play) learn.Policy {
			p := s.Policy("", play)
			p.Theta = slices.Clone(theta)
			return learn.Data{Policy: p}
		}
		// The first step moves theta by about the radius if the gradient has the size of its diameter.
		g := sgdGradient(s, theta)
		offset := g.Diameter / (curvature * s.Radius)
		for t := range s.Horizon {
			policy := play(glm.PlayGreedy)
			if t < warmup {
				policy = play(glm.PlayUniform)
			}
			answer, err := ask(policy, learn.Question{Form: learn.Sums, People: 1,
				Statistics: []learn.Statistic{sgdGradient(s, theta)}})
			if err != nil {
				return nil, err
			}
			next := append([]float64(nil), theta...)
			for i, v := range answer.Sums[0].Values {
				next[i] -= v / (curvature * (float64(t) + 1 + offset))
			}
			if theta, err = ball.Project(nil, next); err != nil {
				return nil, fmt.Errorf("bandit: %w", err)
			}
		}
		return play(glm.PlayGreedy), nil
	})
}

// sgdGradient is (mu(<x,theta>) - r) x for arms in the unit ball and |theta| <= S.
func sgdGradient(s learn.Setting, theta []float64) learn.Statistic {
	f, d := s.Family, s.Dimension
	most := max(f.Mean(s.Radius)-f.MinReward(), f.MaxReward()-f.Mean(-s.Radius))
	at, read := append([]float64(nil), theta...), newLinearRecord(s)
	g := learn.Statistic{Name: "gradient", Diameter: 2 * most, Lower: make([]float64, d), Upper: make([]float64, d)}
	for i := range d {
		g.Lower[i], g.Upper[i] = -most, most
	}
	g.Vector = func(dst []float64, r learn.Record) []float64 {
		x, y := read.arm(r.Arm), r.Reward
		if math.IsNaN(y) {
			y = f.MinReward()
		}
		residual := f.Mean(convex.Dot(x, at)) - max(f.MinReward(), min(y, f.MaxReward()))
		scale := max(-most, min(most, residual))
		for _, v := range x {
			dst = append(dst, scale*v)
		}
		return dst
	}
	return g
}

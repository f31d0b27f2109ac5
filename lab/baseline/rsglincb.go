package baseline

import (
	"errors"
	"math"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/convex"
)

// RSGLinCB is RS-GLinCB of Sawarni, Das, Barman and Sinha, "Generalized linear bandits with limited adaptivity" (2024),
// called RS-GLinUCB in the seed paper's tables, with the constants of the public code: rarely switching, exploration
// rounds while some arm is uncertain in the metric of V, then elimination by the exploration estimate and optimism in
// the metric of a matrix that is frozen between switches.
type RSGLinCB struct {
	inTheClear
	setting            Setting
	threshold          float64
	eliminate, widen   float64 // gamma sqrt(kappa), beta
	v, h, frozen       *growing
	explored, everyone *log
	first, second      []float64 // theta_o, theta_tau
	middle             []float64 // their mean
	exploring          bool
	chosen             []float64
}

const (
	rsRidge     = 0.5  // lambda of V and H
	rsFitRidge  = 1e-5 // of the estimates
	rsGrowth    = 0.5  // a switch when det H has grown by this share
	rsThreshold = 100  // Criterion I: this over kappa R^4 S^2 d
)

// log is what a fit is made of.
type log struct {
	arms    [][]float64
	rewards []float64
}

func (l *log) add(x []float64, r float64) {
	l.arms, l.rewards = append(l.arms, x), append(l.rewards, r)
}

// NewRSGLinCB starts RS-GLinCB.
func NewRSGLinCB(s Setting) (*RSGLinCB, error) {
	if err := s.checkKappa(); err != nil {
		return nil, err
	}
	d, r := float64(s.Dimension), s.Family.MaxReward()
	root := math.Sqrt(d * math.Log(float64(s.Horizon)/s.Failure))
	zero := func() []float64 { return make([]float64, s.Dimension) }
	start := func() *growing { return newGrowing(s.Dimension, rsRidge) }
	return &RSGLinCB{setting: s, threshold: rsThreshold / (s.Kappa * math.Pow(r, 4) * s.Radius * s.Radius * d),
		eliminate: r * s.Radius * root * math.Sqrt(s.Kappa), widen: 4 * root,
		v: start(), h: start(), frozen: start(), explored: &log{}, everyone: &log{}, first: zero(), second: zero(),
		middle: zero()}, nil
}

// Choose implements simulate.Algorithm.
func (b *RSGLinCB) Choose(arms [][]float64) (int, error) {
	a := best(arms, b.v.square)
	if b.exploring = b.v.square(arms[a]) > b.threshold; !b.exploring {
		if b.h.log >= b.frozen.log+math.Log1p(rsGrowth) {
			b.frozen = b.h.clone()
			if err := b.refit(&b.second, b.everyone); err != nil {
				return 0, err
			}
		}
		lowest := math.Inf(-1)
		for _, x := range arms {
			lowest = math.Max(lowest, population.Dot(x, b.first)-b.eliminate*b.v.norm(x))
		}
		a = best(arms, func(x []float64) float64 {
			if population.Dot(x, b.first)+b.eliminate*b.v.norm(x) < lowest {
				return math.Inf(-1)
			}
			return population.Dot(x, b.middle) + b.widen*b.frozen.norm(x)
		})
	}
	b.chosen = append([]float64(nil), arms[a]...)
	return a, nil
}

// Learn implements simulate.Algorithm.
func (b *RSGLinCB) Learn(reward float64) error {
	b.everyone.add(b.chosen, reward)
	if b.exploring {
		b.v.add(1, b.chosen)
		b.explored.add(b.chosen, reward)
		return b.refit(&b.first, b.explored)
	}
	b.h.add(b.setting.Family.Variance(population.Dot(b.chosen, b.first))/math.E, b.chosen)
	return nil
}

func (b *RSGLinCB) refit(theta *[]float64, l *log) error {
	loss, err := convex.NewGLMLoss(b.setting.Family, b.setting.Dimension, l.arms, l.rewards, rsFitRidge)
	if err != nil {
		return err
	}
	// A handful of records can be separable: the fit then ends far out, as that of the public code does.
	result, err := convex.Minimize(loss, convex.NewtonConfig{Start: *theta, Tolerance: 1e-7})
	if err != nil && !errors.Is(err, convex.ErrNotConverged) {
		return err
	}
	*theta = result.Theta
	for i := range b.middle {
		b.middle[i] = (b.first[i] + b.second[i]) / 2
	}
	return nil
}

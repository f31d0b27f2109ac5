package baseline

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Fresh is a yardstick, not a real algorithm: it shows what a private learner could make of its budget at best. It
// plays greedily by an estimate from the sum of the scores of all people so far, with the Gaussian noise of one release
// of one record, drawn afresh as if nothing had been released before. It gives the whole budget to the score, knows
// every Hessian exactly, and linearises at the true parameter.
//
// With cohorts (First > 0) it uses every record once, in cohorts of First, First*Growth, .. people, and pools their
// releases by precision. It still has the exact Hessian, the whole budget and the true parameter to linearise at.
type Fresh struct {
	setting    Setting
	theta      []float64 // the truth
	noise      float64   // standard deviation of each coordinate of a released score
	first      float64   // people of the current cohort; 0: always fresh
	growth     float64
	normal     *rand.Rand
	hessian    *mat.SymDense // of the current cohort, or of all people
	score      []float64
	pooled     *mat.Dense // information of finished cohorts and the prior
	target     []float64  // pooled information times estimate
	estimate   []float64
	chosen     []float64
	count      int // in the current cohort
	until      int
	everything int
}

// NewFresh needs the true parameter. diameter is that of the score. It is at least 1, its value for an estimate of
// zero.
func NewFresh(s Setting, theta []float64, epsilon, delta, diameter float64, first int, growth float64) (*Fresh, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(theta) != s.Dimension || first < 0 || first > 0 && !(growth >= 1) || !(diameter > 0) {
		return nil, fmt.Errorf("%w: parameter of dimension %d, cohorts from %d growing by %v, diameter %v", ErrSetting,
			len(theta), first, growth, diameter)
	}
	f := &Fresh{setting: s, theta: theta, first: float64(first), growth: growth, normal: rand.New(s.Source),
		hessian: mat.NewSymDense(s.Dimension, nil), score: make([]float64, s.Dimension),
		pooled: mat.NewDense(s.Dimension, s.Dimension, nil),
		target: make([]float64, s.Dimension), estimate: make([]float64, s.Dimension), until: max(1, first)}
	if epsilon > 0 {
		mu, err := privacy.MuFor(epsilon, delta)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSetting, err)
		}
		f.noise = diameter / mu
	}
	for i := range s.Dimension {
		f.pooled.Set(i, i, float64(s.Dimension)/(s.Radius*s.Radius))
		f.estimate[i] = f.normal.NormFloat64()
	}
	return f, nil
}

// Choose implements simulate.Algorithm.
func (f *Fresh) Choose(arms [][]float64) (int, error) {
	a := best(arms, func(x []float64) float64 { return population.Dot(x, f.estimate) })
	f.chosen = arms[a]
	return a, nil
}

// Learn implements simulate.Algorithm.
func (f *Fresh) Learn(reward float64) error {
	z := population.Dot(f.chosen, f.theta)
	f.hessian.SymRankOne(f.hessian, f.setting.Family.Variance(z),
		mat.NewVecDense(len(f.chosen), append([]float64(nil), f.chosen...)))
	for i, v := range f.chosen {
		f.score[i] += (reward - f.setting.Family.Mean(z)) * v
	}
	f.everything++
	if f.count++; f.count < f.until {
		return nil
	}
	return f.release()
}

// release estimates from what was gathered. The score observes H (theta* - theta*) with covariance H + noise^2 I.
func (f *Fresh) release() error {
	d := f.setting.Dimension
	covariance := mat.NewSymDense(d, nil)
	covariance.CopySym(f.hessian)
	for i := range d {
		covariance.SetSym(i, i, covariance.At(i, i)+f.noise*f.noise+1e-9)
	}
	var gain, information mat.Dense // H R^-1, H R^-1 H
	var factor mat.Cholesky
	if !factor.Factorize(covariance) {
		return fmt.Errorf("%w: a covariance that is not positive definite", ErrSetting)
	}
	if err := factor.SolveTo(&gain, f.hessian); err != nil { // R^-1 H
		return fmt.Errorf("%w: %w", ErrSetting, err)
	}
	information.Mul(f.hessian, &gain)
	observed := mat.NewVecDense(d, nil)
	observed.MulVec(f.hessian, mat.NewVecDense(d, f.theta))
	for i := range d {
		observed.SetVec(i, observed.AtVec(i)+f.score[i]+f.noise*f.normal.NormFloat64())
	}
	var added, estimate mat.VecDense
	added.MulVec(gain.T(), observed)
	var pooled mat.Dense
	pooled.Add(f.pooled, &information)
	target := make([]float64, d)
	for i := range target {
		target[i] = f.target[i] + added.AtVec(i)
	}
	if err := estimate.SolveVec(&pooled, mat.NewVecDense(d, target)); err != nil {
		return fmt.Errorf("%w: %w", ErrSetting, err)
	}
	for i := range f.estimate {
		f.estimate[i] = estimate.AtVec(i)
	}
	if f.first == 0 {
		f.until = f.everything + max(1, f.everything/20)
		return nil
	}
	f.pooled, f.target, f.count = &pooled, target, 0
	f.hessian.Zero()
	clear(f.score)
	f.first *= f.growth
	f.until = int(math.Round(f.first))
	return nil
}

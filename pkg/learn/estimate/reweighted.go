package estimate

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// The reweighted objective of "Near-optimal private learning in linear contextual bandits", Eq. (3), for a
// normalization (U, lambda), rewards y with mean nu(<x, theta>), theta = U w, and W = {w : ||U w|| <= radius}:
//
//	L_U(w) = E[(nu's integral at <Ux, w> - y <Ux, w>)/||Ux||] + mu lambda/2 w'Uw
//	gradient = E[Ux/||Ux|| (nu(<Ux, w>) - y)] + mu lambda U w
//
// Under Eq. (2) its Hessian lies in [mu/2, 2 L] I on W, whatever the covariance of the arms, and its minimum over W is
// within 4 lambda radius of U^-1 theta* (Lemma 4.1). The paper prints L lambda in the objective and mu lambda in its
// algorithms and in the proof of that lemma; mu gives what the lemma says.

// The part of the gradient that one record adds is statistic.ReweightedGradient at theta = U w. The regularizer's part
// is public and added by the curator.

// Descent is projected gradient descent on the reweighted objective, each step on other people.
type Descent struct {
	Normalization Normalization
	Batches       int
	// Step is the step size of batch k.
	Step func(k int) float64
	// Start is a theta to begin at; nil: 0.
	Start []float64
	// Noise, if not nil, replaces the channel's.
	Noise mechanism.Noise
}

// Run descends over so many people: "Near-optimal private learning in linear contextual bandits", Algorithm 7 (joint
// privacy) where the channel adds noise once per batch, Algorithm 10 (local privacy) where every device does. It
// returns theta = U w after the last batch, and the standard deviation of the last gradient's noise.
//
// What differs: the device of Algorithm 10 adds the regularizer's public part before its noise; here the curator adds
// it, which has the same law. A step of w can begin elsewhere than at 0 (post-processing of what was released).
func (p Descent) Run(l Link, people int, ask learn.Asker) (theta []float64, deviation float64, err error) {
	u := p.Normalization.U
	d := u.SymmetricDim()
	square := mat.NewSymDense(d, nil) // ||U w|| <= radius
	square.SymOuterK(1, u)
	domain := convex.Ellipsoid{Centre: make([]float64, d), Matrix: square, Radius: l.radius}
	w := make([]float64, d)
	if p.Start != nil {
		if w, err = p.begin(domain); err != nil {
			return nil, 0, err
		}
	}
	if theta, err = p.point(l, w); err != nil {
		return nil, 0, err
	}
	for k := range p.Batches {
		asked, err := p.Normalization.Statistic(statistic.ReweightedGradient, l.family, theta)
		if err != nil {
			return nil, 0, err
		}
		asked.Noise = p.Noise
		answer, err := ask(learn.Question{Form: learn.Sums, People: part(people, p.Batches, k),
			Statistics: []learn.Statistic{asked}})
		if err != nil {
			return nil, 0, err
		}
		var gradient []float64
		gradient, deviation = answer.Mean(0)
		for i, t := range theta { // theta = U w
			w[i] -= p.Step(k) * (gradient[i] + l.least*p.Normalization.Lambda*t)
		}
		if w, err = domain.Project(w, w); err != nil {
			return nil, 0, fmt.Errorf("estimate: batch %d of the descent: %w", k, err)
		}
		if theta, err = p.point(l, w); err != nil {
			return nil, 0, err
		}
	}
	return theta, deviation, nil
}

// point is theta = U w, in the ball to the last digit.
func (p Descent) point(l Link, w []float64) ([]float64, error) {
	theta := p.Normalization.Apply(nil, w)
	return convex.Ball{Radius: l.radius}.Project(theta, theta)
}

// begin is the w of the start, in the domain.
func (p Descent) begin(domain convex.Ellipsoid) ([]float64, error) {
	inverse, err := convex.MapSpectrum(p.Normalization.U, func(v, _ float64) float64 { return 1 / v })
	if err != nil {
		return nil, err
	}
	return domain.Project(nil, multiply(nil, rowsOf(inverse), p.Start))
}

// ConstantStep is the paper's step, 1/(4 L): the last iterate averages over some seven batches.
func ConstantStep(l Link) func(int) float64 { return func(int) float64 { return 1 / (4 * l.most) } }

// AveragingStep is 1/(L + mu k/2): batches count in proportion to their number, so that nearly all of them are averaged
// over. On average the Hessian is between mu and L at the normalization's fixed point, and the error of the start falls
// like k^-2; Eq. (2) allows mu/2 and 2 L, where it falls like 1/k and the first step may be undone by the projection.
func AveragingStep(l Link) func(int) float64 {
	return func(k int) float64 { return 1 / (l.most + l.least*float64(k)/2) }
}

package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Rounds of the logistic fit.
const (
	// newtonRounds of Newton's method come near enough for the last one to be a correction of the noise alone, at
	// probabilities between about 2 and 98 %.
	newtonRounds = 6
	// lastRound is the share of the budget that the last round has: its noise is that of the result.
	lastRound = 0.6
	// mostLogit bounds the norm of a point in between, which early noise might carry away.
	mostLogit = 8
	// longestStep is the norm of the last step up to which it is a correction: beyond it there are no intervals.
	longestStep = 0.5
)

// Logistic is logistic regression of a target of 0 and 1 on features with an intercept, with confidence intervals. It
// is Newton's method with noise, by a curator: each round releases the gradient and the Hessian of the likelihood at a
// public point. The last round is one Newton step from a point near the maximum, and its noise, whose law is public, is
// in the standard errors. The rounds compose to the budget as zCDP.
//
// Standard errors: let the last step go from a to b = a + M^-1 (g + e), M = H + E. As the gradient at a is that at the
// truth plus H (truth - a), up to the second order in truth - a, b - truth = M^-1 (r + e - E (b - a)) at first order,
// where r, the gradient at the truth, has the covariance H. The rest is as in Linear.
//
// What is assumed is as for Linear, but for the residuals, whose variance is p(1-p).
func (f Fit) Logistic(rows [][]float64, target []float64) (Fitted, error) {
	f.Target = Range{Low: 0, High: 1}
	if err := f.check(rows, target); err != nil {
		return Fitted{}, err
	}
	if f.Local {
		return Fitted{},
			fmt.Errorf("%w: a logistic regression asks every row several times, which is too much noise in the "+
				"trust local", ErrFit)
	}
	for i, y := range target {
		if y != 0 && y != 1 {
			return Fitted{}, fmt.Errorf("%w: the target of row %d is neither 0 nor 1", ErrFit, i+1)
		}
	}
	moved, noises, err := f.newtonNoises()
	if err != nil {
		return Fitted{}, err
	}
	theta := make([]float64, len(f.Features)+1)
	var spent []privacy.Guarantee
	var last newtonStep
	for round, noise := range noises {
		spent = append(spent, noise.Guarantee(moved))
		if last, err = f.newton(rows, target, theta, noise); err != nil {
			return Fitted{}, err
		}
		if round < newtonRounds-1 {
			theta, err = (convex.Ball{Radius: mostLogit}).Project(theta, last.to)
			if err != nil {
				return Fitted{}, fmt.Errorf("%w: %w", ErrFit, err)
			}
		}
	}
	out := Fitted{Rows: len(rows), Guarantee: privacy.Compose(spent...)}
	err = f.conclude(&out, theta, last)
	return out, err
}

// newtonNoises are the noises of the rounds, and the move that they hide.
func (f Fit) newtonNoises() (mechanism.Sensitivity, []mechanism.Noise, error) {
	moved := newtonMove(len(f.Features))
	rho, err := mechanism.Budget(f.Epsilon, f.Delta)
	if err != nil {
		return moved, nil, fmt.Errorf("%w: %w", ErrFit, err)
	}
	noises := make([]mechanism.Noise, newtonRounds)
	for round := range noises {
		part := rho * (1 - lastRound) / (newtonRounds - 1)
		if round == newtonRounds-1 {
			part = rho * lastRound
		}
		if noises[round], err = mechanism.ForRho(moved, part*(1-1e-12)); err != nil {
			return moved, nil, fmt.Errorf("%w: %w", ErrFit, err)
		}
	}
	return moved, noises, nil
}

// conclude makes coefficients and intervals of the last step, from theta.
func (f Fit) conclude(out *Fitted, theta []float64, last newtonStep) error {
	step := make([]float64, len(theta))
	for i := range step {
		step[i] = last.to[i] - theta[i]
	}
	short := convex.Norm(step) <= longestStep
	out.Reliable = last.reliable && short
	f.Target = Range{Low: -1, High: 1} // logits have no units
	if !last.reliable {
		var err error
		if out.Weak, err = weakColumns(last.hessian, last.variance); err != nil {
			return err
		}
		// The gradient's noise has twice the variance of the linear fit's vector.
		set, err := newFieller(last.hessian, last.gradient, 1, 2*last.variance, f.quantile())
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFit, err)
		}
		if out.Bounded = set.bounded && short; out.Bounded {
			f.describeSet(out, theta, set)
			return nil
		}
	}
	f.describe(out, last.to, sandwich(last.inverse, last.hessian, 1),
		sandwich(last.inverse, stepCovariance(step, last.variance), 1))
	return nil
}

// newtonMove is how far the replacement of one row can move what a round releases, gradient and Hessian as one vector.
//
// Proof: let w = (1, z) with |w|^2 <= d = k+1, and e = |y - p|. The gradient (y - p) w has norm e sqrt(d) at most, and
// the Hessian p(1-p) ww' = e(1-e) ww' has norm e(1-e) d. Two gradients with e and e' are at most (e+e') sqrt(d) apart,
// of which the square is at most 2(e^2 + e'^2) d; the squared distance of two positive semidefinite matrices is at most
// the sum of their squared norms. So the squared distance of all is at most f(e) + f(e') with f(e) = 2de^2 + d^2 e^2
// (1-e)^2. f' = 2de (2 + d (1-e)(1-2e)), and (1-e)(1-2e) >= -1/8, so f rises up to f(1) = 2d if d <= 16. In any case it
// is at most 2d + d^2/16. Rounding to the grid is added.
func newtonMove(features int) mechanism.Sensitivity {
	d := float64(features + 1)
	dim := (features + 1) * (features + 4) / 2
	square := 4 * d
	if d > 16 {
		square += d * d / 8
	}
	return mechanism.Sensitivity{Dim: dim, L2: (math.Sqrt(square) + math.Sqrt(float64(dim))*rowGrid) * (1 + 1e-12)}
}

// newtonRow is what a row adds: the gradient, and the upper triangle of the Hessian with entries off the diagonal times
// sqrt 2.
func newtonRow(dst, w, theta []float64, y float64) []float64 {
	p := 1 / (1 + math.Exp(-convex.Dot(w, theta)))
	dst = dst[:0]
	for _, a := range w {
		dst = append(dst, (y-p)*a)
	}
	for i, a := range w {
		dst = append(dst, p*(1-p)*a*a)
		for _, b := range w[i+1:] {
			dst = append(dst, math.Sqrt2*p*(1-p)*a*b)
		}
	}
	mechanism.Quantize(dst, rowGrid)
	return dst
}

// newtonStep is a released step.
type newtonStep struct {
	to       []float64
	inverse  *mat.Dense    // of the noised Hessian, with the ridge
	hessian  *mat.SymDense // noised
	gradient []float64     // noised
	variance float64       // of the noise
	reliable bool
}

func (f Fit) newton(rows [][]float64, target, theta []float64, noise mechanism.Noise) (newtonStep, error) {
	d := len(theta)
	sums, one, w := make([]float64, newtonMove(d-1).Dim), []float64(nil), make([]float64, d)
	for i, row := range rows {
		w[0] = 1
		for j, v := range row {
			w[j+1] = f.Features[j].unit(v)
		}
		one = newtonRow(one, w, theta, target[i])
		for j, v := range one {
			sums[j] += v
		}
	}
	noise.Add(sums, f.Noise)
	f.tell(sums)
	out := newtonStep{to: append([]float64(nil), theta...), hessian: symmetric.FromTriangle(sums[d:], d, isometric),
		variance: noise.Deviation() * noise.Deviation()}
	out.gradient = sums[:d]
	var err error
	if out.inverse, out.reliable, err = ridged(out.hessian, out.variance); err != nil {
		return out, err
	}
	for i := range out.to {
		for j, v := range sums[:d] {
			out.to[i] += out.inverse.At(i, j) * v
		}
	}
	return out, nil
}

// stepCovariance is that of e - E step, for the noise e of the gradient and E of the Hessian.
func stepCovariance(step []float64, variance float64) *mat.SymDense {
	c := mat.NewSymDense(len(step), nil)
	for i, a := range step {
		own := variance * (1 + a*a)
		for j, b := range step {
			if i != j {
				own += variance / 2 * b * b
				c.SetSym(i, j, variance/2*a*b)
			}
		}
		c.SetSym(i, i, own)
	}
	return c
}

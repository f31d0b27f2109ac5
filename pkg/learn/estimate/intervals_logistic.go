package estimate

import (
	"fmt"
	"math"
	"slices"

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
	// localRounds are those where every row is noised on its own. No measurement chose the number; with it, intervals
	// were held against the truth (internal/evaluate/fit).
	localRounds = 3
	// lastRound is the share of the budget that the last round has: its noise is that of the result.
	lastRound = 0.6
	// mostLogit bounds the norm of a point in between, which early noise might carry away.
	mostLogit = 8
	// longestStep is the norm of the last step up to which it is a correction: beyond it there are no intervals.
	longestStep = 0.5
)

// Logistic is logistic regression of a target of 0 and 1 on features with an intercept, with confidence intervals. It
// is Newton's method with noise: each round releases the gradient and the Hessian of the likelihood at a public point,
// as sums over all rows, so that any channel can carry it. The last round is one Newton step from a point near the
// maximum, and its noise, whose law is public, is in the standard errors. The rounds compose to the budget.
//
// Standard errors: let the last step go from a to b = a + M^-1 (g + e), M = H + E. As the gradient at a is that at the
// truth plus H (truth - a), up to the second order in truth - a, b - truth = M^-1 (r + e - E (b - a)) at first order,
// where r, the gradient at the truth, has the covariance H. The rest is as in Linear.
//
// What is assumed is as for Linear, but for the residuals, whose variance is p(1-p).
func (f Fit) Logistic(rows [][]float64, target []float64) (Fitted, error) {
	f.Groups = 0
	last, guarantee, err := f.descend(rows, target, nil)
	if err != nil {
		return Fitted{}, err
	}
	out := Fitted{Rows: len(rows), Guarantee: guarantee}
	err = f.conclude(&out, last[0])
	return out, err
}

// descend is all rounds, for each group by itself.
func (f Fit) descend(rows [][]float64, target []float64, group []int) ([]newtonStep, privacy.Guarantee, error) {
	f.Target = Range{Low: 0, High: 1}
	if err := f.check(rows, target); err != nil {
		return nil, privacy.NoGuarantee(), err
	}
	for i, y := range target {
		if y != 0 && y != 1 {
			return nil, privacy.NoGuarantee(), fmt.Errorf("%w: the target of row %d is neither 0 nor 1", ErrFit, i+1)
		}
	}
	shares := f.rounds()
	planned, err := f.plan(f.newtonVector(), shares, len(rows))
	if err == nil {
		err = f.spend(planned)
	}
	if err != nil {
		return nil, privacy.NoGuarantee(), err
	}
	steps := make([]newtonStep, planned.blocks)
	for g := range steps {
		steps[g].to = make([]float64, len(f.Features)+1)
	}
	for round := range shares {
		if err := f.newton(planned, round, steps, rows, target, group); err != nil {
			return nil, privacy.NoGuarantee(), err
		}
	}
	return steps, planned.guarantee, nil
}

// rounds are the shares of the budget that the rounds have.
func (f Fit) rounds() []float64 {
	n := newtonRounds
	if f.Local {
		n = localRounds
	}
	shares := slices.Repeat([]float64{(1 - lastRound) / float64(n-1)}, n)
	shares[n-1] = lastRound
	return shares
}

// conclude makes coefficients and intervals of the last step.
func (f Fit) conclude(out *Fitted, last newtonStep) error {
	step := make([]float64, len(last.from))
	for i := range step {
		step[i] = last.to[i] - last.from[i]
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
			f.describeSet(out, last.from, set)
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

// newtonVector is newtonRow with its bounds: |y - p| is at most 1, and p(1-p) at most 1/4. A row that goes to another
// group moves no more: the proof of newtonMove counts the vectors as if they were orthogonal, but for the gradients,
// for which it counts more.
func (f Fit) newtonVector() rowVector {
	d := len(f.Features) + 1
	v := rowVector{name: "gradient and Hessian", moved: newtonMove(len(f.Features)),
		lower: slices.Repeat([]float64{-1}, d), upper: slices.Repeat([]float64{1}, d)}
	for i := range d {
		v.lower, v.upper = append(v.lower, 0), append(v.upper, 0.25)
		for range d - 1 - i {
			v.lower, v.upper = append(v.lower, -math.Sqrt2/4), append(v.upper, math.Sqrt2/4)
		}
	}
	return v
}

// newtonStep is a released step of one group.
type newtonStep struct {
	from, to []float64
	inverse  *mat.Dense    // of the noised Hessian, with the ridge
	hessian  *mat.SymDense // noised
	gradient []float64     // noised
	variance float64       // of the noise
	reliable bool
	first    *newtonStep // that of the first round, at 0
}

// newton is a round: the next step of every group, from where its last one ended.
func (f Fit) newton(planned releases, round int, steps []newtonStep, rows [][]float64, target []float64,
	group []int,
) error {
	d, of := len(f.Features)+1, groupOf(group)
	for g := range steps {
		from, err := (convex.Ball{Radius: mostLogit}).Project(make([]float64, d), steps[g].to)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFit, err)
		}
		steps[g].from = from
	}
	w := make([]float64, d)
	sums, err := f.release(planned, round, len(rows), of, func(dst []float64, row int) []float64 {
		w[0] = 1
		for j, v := range rows[row] {
			w[j+1] = f.Features[j].unit(v)
		}
		return newtonRow(dst, w, steps[of(row)].from, target[row])
	})
	if err != nil {
		return err
	}
	variance := f.variance(planned, round, len(rows))
	for g, last := range steps {
		own := sums[g*planned.block:][:planned.block]
		next := newtonStep{from: last.from, to: slices.Clone(last.from), gradient: own[:d], variance: variance,
			hessian: symmetric.FromTriangle(own[d:], d, isometric), first: last.first}
		if next.inverse, next.reliable, err = ridged(next.hessian, variance); err != nil {
			return err
		}
		for i := range next.to {
			for j, v := range next.gradient {
				next.to[i] += next.inverse.At(i, j) * v
			}
		}
		if steps[g] = next; round == 0 {
			steps[g].first = &next
		}
	}
	return nil
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

package glm

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// spread is what earlier tests said of how much more sums vary than one decision's model says: the mean of their
// statistics, each over its degrees of freedom.
type spread struct {
	sum     float64 // of the statistics
	freedom int     // of all of them together
}

// unchanged tests that a cohort's gradient fits what was known before it. To first order the gradient is
//
//	g = H (theta - theta*) + e,
//
// and if the parameter is what it was, theta - theta* has the covariance W^-1 of the estimate, which is of earlier cohorts
// and independent of e, and e has that of sampling, H (the information equality, practicalRun), and of the noise. So
// q = g' (H W^-1 H + H + v I)^-1 g has the chi-square distribution with d degrees of freedom; its upper tail at q is the
// p-value.
//
// Where a report holds several decisions, those of one person are alike for reasons that the model does not know, and
// sums vary more. How much more, earlier tests show: their mean statistic over that of the model. So q over this mean is
// compared with the F distribution as well, and the larger p-value counts: it is valid if either is.
func (r *practicalRun) unchanged(values []float64, vectors *mat.Dense, gradient []float64, noise float64) (
	p float64, after spread, err error,
) {
	if r.age == 0 && !r.informed() {
		return 0, r.spread, nil
	}
	d := len(values)
	sampling := make([]float64, d)
	for i, h := range values {
		sampling[i] = h + noise
	}
	h := convex.FromSpectrum(values, vectors)
	var product, known mat.Dense
	off := mat.NewSymDense(d, nil)
	off.CopySym(r.covariance)
	if r.bias != nil {
		off.AddSym(off, r.bias)
	}
	product.Mul(h, off)
	known.Mul(&product, h)
	total := convex.FromSpectrum(sampling, vectors)
	for i := range d {
		for j := i; j < d; j++ {
			total.SetSym(i, j, total.At(i, j)+(known.At(i, j)+known.At(j, i))/2)
		}
	}
	if mat.Trace(total) == 0 {
		return 0, r.spread, nil
	}
	inverted, err := inverse(total)
	if err != nil {
		return 0, r.spread, err
	}
	q := NewSymmetric(inverted).Form(gradient)
	if math.IsNaN(q) {
		return 0, r.spread, fmt.Errorf("%w: the gradient cannot be tested", ErrAggregate)
	}
	q = math.Min(math.Max(q, 0), 1e12) // no distribution can tell larger ones from each other
	k := float64(d)
	p = mathext.GammaIncRegComp(k/2, q/2)
	after = r.spread
	if r.cfg.Practical.Decisions > 1 && after.freedom > 0 && after.sum > 0 {
		m := float64(after.freedom)
		ratio := q / k / (after.sum / m)
		p = math.Max(p, mathext.RegIncBeta(m/2, k/2, m/(m+k*ratio)))
	}
	p = math.Max(p, leastLikely)
	if p >= r.cfg.Practical.Alarm { // a changed world says nothing of how much sums vary
		after.sum, after.freedom = after.sum+q, after.freedom+d
	}
	return p, after, nil
}

// leastLikely is the smallest p-value that is told apart from 0, which means that nothing was tested.
const leastLikely = 1e-300

// steepness is how fast the logarithm of mu' changes at most, over |z| <= S: by it the Newton step, which takes mu' for
// constant, is wrong.
func steepness(f Family, radius float64) float64 {
	const cells = 200
	width, most := 2*radius/cells, 0.0
	last := f.Variance(-radius)
	for i := 1; i <= cells; i++ {
		v := f.Variance(-radius + float64(i)*width)
		if v > 0 && last > 0 {
			most = math.Max(most, math.Abs(math.Log(v/last))/width)
		}
		last = v
	}
	return most
}

// biased is the second moment of what a step's curvature leaves in the estimate, beside the errors that the covariance has.
// A step Delta is wrong by about steepness/2 |Delta| of itself, in its own direction for the most part. Of an earlier bias
// there is left what is left of the earlier information.
func (r *practicalRun) biased(next knowledge, before *mat.SymDense, kept float64) *mat.SymDense {
	d := len(next.theta)
	out := mat.NewSymDense(d, nil)
	if r.bias != nil && kept > 0 {
		var left, moved, all mat.Dense
		left.Mul(next.covariance, before)
		moved.Mul(&left, r.bias)
		all.Mul(&moved, left.T())
		for i := range d {
			for j := i; j < d; j++ {
				out.SetSym(i, j, (all.At(i, j)+all.At(j, i))/2)
			}
		}
	}
	step := make([]float64, d)
	for i, v := range next.theta {
		step[i] = v - r.theta[i]
	}
	size := convex.Norm(step)
	wrong := r.steep / 2 * size
	for i := range d {
		for j := i; j < d; j++ {
			v := step[i] * step[j]
			if i == j {
				v += size * size / float64(d)
			}
			out.SetSym(i, j, out.At(i, j)+wrong*wrong*v)
		}
	}
	return out
}

package learner

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// testUnchanged tests that a cohort's gradient fits what was known before it. To first order the gradient is
//
//	g = H (theta - theta*) + e,
//
// and if the parameter is what it was, theta - theta* has the covariance W^-1 of the estimate, which is of earlier
// cohorts and independent of e, and e has that of sampling, phi H (practicalRun), and of the
// noise. The curvature of mu leaves an error B in the estimate, too (biased). So
//
//	q = g' (H (W^-1 + B) H + phi H + v I)^-1 g
//
// has at most the chi-square distribution with d degrees of freedom; its upper tail at q is the p-value.
//
// A configuration without anything of deployments that last is not tested.
//
// Where a report holds several decisions, those of one person are alike for reasons that the model does not know, and
// sums vary more. How much more, earlier tests show: the mean of their q, taken without B so as not to be too small,
// over d. So q over this mean is compared with the F distribution as well, whose second number of degrees of freedom
// is that of a weighted mean, and the larger p-value counts: it is valid if either is.
func (r *practicalRun) testUnchanged(values []float64, vectors *mat.Dense, gradient []float64, noise float64) (
	p float64, after spread, err error,
) {
	if after = r.spread; !r.cfg.Practical.lasts() || r.age == 0 && !r.prior.given {
		return 0, after, nil
	}
	off := mat.NewSymDense(len(values), nil)
	off.CopySym(r.covariance)
	sampling := make([]float64, len(values))
	for i, h := range values {
		sampling[i] = r.score.Dispersion()*h + noise
	}
	plain, err := distance(values, vectors, off, gradient, sampling)
	q := plain
	if err == nil && r.bias != nil {
		off.AddSym(off, r.bias)
		q, err = distance(values, vectors, off, gradient, sampling)
	}
	if err != nil {
		return 0, after, err
	}
	k := float64(len(values))
	p = mathext.GammaIncRegComp(k/2, q/2)
	if r.cfg.Practical.Decisions > 1 && after.sum > 0 {
		m := k * after.weight * after.weight / after.square
		ratio := q * after.weight / after.sum
		p = math.Max(p, mathext.RegIncBeta(m/2, k/2, m/(m+k*ratio)))
	}
	if p = math.Max(p, leastLikely); p >= r.cfg.Practical.Alarm { // a changed world says nothing of how much sums vary
		after = after.and(plain)
	}
	return p, after, nil
}

// distance is g' (H C H + E)^-1 g for the eigenvalues and eigenvectors of H and E, 0 if the matrix is 0.
func distance(
	values []float64, vectors *mat.Dense, covariance *mat.SymDense, gradient, sampling []float64,
) (float64, error) {
	d := len(values)
	h, total := convex.FromSpectrum(values, vectors), convex.FromSpectrum(sampling, vectors)
	var known mat.Dense
	known.Product(h, covariance, h)
	for i := range d {
		for j := i; j < d; j++ {
			total.SetSym(i, j, total.At(i, j)+(known.At(i, j)+known.At(j, i))/2)
		}
	}
	if mat.Trace(total) == 0 {
		return 0, nil
	}
	inverted, err := inverse(total)
	if err != nil {
		return 0, err
	}
	q := symmetric.Pack(inverted).Form(gradient)
	if math.IsNaN(q) {
		return 0, fmt.Errorf("%w: the gradient cannot be tested", ErrAggregate)
	}
	return math.Min(math.Max(q, 0), 1e12), nil // no distribution can tell larger ones from each other
}

// leastLikely is the smallest p-value that is told apart from 0, which means that nothing was tested.
const leastLikely = 1e-300

// steepness is how fast the logarithm of mu' changes at most, over |z| <= S: by it the Newton step, which takes mu' for
// constant, is wrong.
func steepness(f family.Family, radius float64) float64 {
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

// biased is the second moment of what a step's curvature leaves in the estimate, beside the errors that the
// covariance has. A step Delta is wrong by about steepness/2 |Delta| of itself, in its own direction for the most
// part. Of an earlier bias there is left what is left of the earlier information.
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

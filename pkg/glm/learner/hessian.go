package learner

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// spectrum is an estimate of a cohort's Hessian.
type spectrum struct {
	values  []float64  // eigenvalues, not negative
	vectors *mat.Dense // the eigenvectors, as columns
	// kept is the share of the release's deviation from what it was shrunk towards that the estimate kept, in [0, 1]:
	// about the share of the release's noise that is left.
	kept float64
}

// estimate makes the estimate of a released Hessian. Where arms lie in disjoint runs it is shrunk run by run towards
// one shape, that of all runs together: people's contexts are the same whichever option they got. Otherwise it is
// shrunk towards a multiple of the identity. Runs are lists of coordinates, equally many of each, of which those at one
// place belong together. variance and ceiling are those of shrunk.
func estimate(h *mat.SymDense, released int, runs [][]int, variance, ceiling float64) (spectrum, error) {
	if len(runs) == 0 {
		return shrunk(h, released, variance, ceiling)
	}
	d, p := h.SymmetricDim(), len(runs[0])
	sum := mat.NewSymDense(p, nil)
	for _, run := range runs {
		sum.AddSym(sum, block(h, run))
	}
	all, err := shrunk(sum, released/len(runs), variance*float64(len(runs)), ceiling)
	if err != nil {
		return spectrum{}, err
	}
	shape := convex.FromSpectrum(all.values, all.vectors)
	if total := mat.Trace(shape); total > 1e-300 {
		shape.ScaleSym(1/total, shape)
	} else { // nothing is known of it
		for i := range p {
			shape.SetSym(i, i, 1/float64(p))
		}
	}
	targets, spread := make([]*mat.SymDense, len(runs)), 0.0
	deviation := math.Sqrt(variance)
	for b, run := range runs {
		own := block(h, run)
		trace := math.Min(math.Max(mat.Trace(own), deviation*math.Sqrt(float64(p))), ceiling)
		targets[b] = mat.NewSymDense(p, nil)
		targets[b].ScaleSym(trace, shape)
		spread += squared(own, targets[b])
	}
	kept := unexplained(spread, variance*float64(released-len(runs)))
	out := spectrum{make([]float64, d), mat.NewDense(d, d, nil), kept}
	for b, run := range runs {
		values, vectors, err := mixed(block(h, run), targets[b], kept, deviation, ceiling)
		if err != nil {
			return spectrum{}, err
		}
		for j, to := range run {
			out.values[to] = values[j]
			for i, from := range run {
				out.vectors.Set(from, to, vectors.At(i, j))
			}
		}
	}
	return out, nil
}

// block is the part of h at some coordinates.
func block(h mat.Symmetric, at []int) *mat.SymDense {
	b := mat.NewSymDense(len(at), nil)
	for i := range at {
		for j := i; j < len(at); j++ {
			b.SetSym(i, j, h.At(at[i], at[j]))
		}
	}
	return b
}

// shrunk is an estimate of the true Hessian from its noisy release. variance is the noise variance of each of the
// released coordinates (diagonal entries; half of it off the diagonal; the other entries are 0 and not noisy), ceiling
// the largest possible trace.
//
// The mean eigenvalue m is known d times better than the rest. The deviation from m*I is multiplied by the share of its
// squared Frobenius norm that the noise does not explain (empirical Bayes, as James and Stein 1961). A noisy Hessian
// has negative eigenvalues; they are raised to the standard deviation of the noise, at most 5 % of m. Without noise the
// matrix comes back as it was.
func shrunk(h *mat.SymDense, released int, variance, ceiling float64) (spectrum, error) {
	d := h.SymmetricDim()
	deviation := math.Sqrt(variance)
	m := mat.Trace(h) / float64(d)
	m = math.Min(math.Max(m, deviation/math.Sqrt(float64(d))), ceiling/float64(d))
	target := mat.NewSymDense(d, nil)
	for i := range d {
		target.SetSym(i, i, m)
	}
	kept := unexplained(squared(h, target), variance*float64(released-1))
	values, vectors, err := mixed(h, target, kept, deviation, ceiling)
	return spectrum{values, vectors, kept}, err
}

// squared is the squared Frobenius norm of a - b.
func squared(a, b mat.Symmetric) float64 {
	sum, d := 0.0, a.SymmetricDim()
	for i := range d {
		for j := range d {
			v := a.At(i, j) - b.At(i, j)
			sum += v * v
		}
	}
	return sum
}

// unexplained is the share of a squared norm that noise of this expected squared norm does not explain.
func unexplained(spread, noise float64) float64 {
	if spread <= noise {
		return 0
	}
	return 1 - noise/spread
}

// mixed is the spectrum of kept h + (1 - kept) target, eigenvalues raised to the deviation of the noise, which is at
// most 5 % of the target's mean, and lowered to the ceiling.
func mixed(h, target mat.Symmetric, kept, deviation, ceiling float64) ([]float64, *mat.Dense, error) {
	d := h.SymmetricDim()
	estimate, trace := mat.NewSymDense(d, nil), 0.0
	for i := range d {
		trace += target.At(i, i)
		for j := i; j < d; j++ {
			estimate.SetSym(i, j, kept*h.At(i, j)+(1-kept)*target.At(i, j))
		}
	}
	values, vectors, err := convex.Spectrum(estimate)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrAggregate, err)
	}
	floor := math.Max(0, math.Min(deviation, 0.05*trace/float64(d)))
	for i, v := range values {
		values[i] = math.Min(math.Max(v, floor), math.Max(ceiling, floor))
	}
	return values, vectors, nil
}

package baseline

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// fit is a maximum likelihood fit that keeps up with a growing log: the minimum of the family's loss plus penalty
// |theta|^2 by Newton's method from the last estimate. For probit the loss is the matching one, with score (mu - r)x,
// as everywhere in Riffle.
type fit struct {
	family  family.Family
	d       int
	penalty float64
	arms    []float64 // row-major
	rewards []float64
	theta   []float64
}

func newFit(family family.Family, d int, penalty float64) *fit {
	return &fit{family: family, d: d, penalty: penalty, theta: make([]float64, d)}
}

func (f *fit) add(x []float64, reward float64) {
	f.arms, f.rewards = append(f.arms, x...), append(f.rewards, reward)
}

const (
	fitSteps     = 50
	fitTolerance = 1e-6 // of the Newton step's length
	fitStride    = 2.0  // longest Newton step: mu' falls off too fast to trust the model further out
)

// refit moves theta to the minimum.
func (f *fit) refit() {
	gradient, hessian := make([]float64, f.d), make([]float64, f.d*f.d)
	for range fitSteps {
		for i := range gradient {
			gradient[i] = 2 * f.penalty * f.theta[i]
		}
		clear(hessian)
		for k, r := range f.rewards {
			x := f.arms[k*f.d : (k+1)*f.d]
			z := population.Dot(x, f.theta)
			residual, w := f.family.Mean(z)-r, f.family.Variance(z)
			for i, v := range x {
				if v == 0 { // most numbers of an arm, where options have blocks of their own
					continue
				}
				gradient[i] += residual * v
				row := hessian[i*f.d:]
				for j := 0; j <= i; j++ {
					row[j] += w * v * x[j]
				}
			}
		}
		h := mat.NewSymDense(f.d, nil)
		for i := range f.d {
			for j := 0; j <= i; j++ {
				h.SetSym(j, i, hessian[i*f.d+j])
			}
			h.SetSym(i, i, h.At(i, i)+2*f.penalty)
		}
		var factor mat.Cholesky
		var step mat.VecDense
		if !factor.Factorize(h) || factor.SolveVecTo(&step, mat.NewVecDense(f.d, gradient)) != nil &&
			mat.Norm(&step, 2) == 0 {
			return
		}
		length := mat.Norm(&step, 2)
		scale := math.Min(1, fitStride/length)
		if !(length < math.Inf(1)) {
			return
		}
		for i := range f.theta {
			f.theta[i] -= scale * step.AtVec(i)
		}
		if length < fitTolerance {
			return
		}
	}
}

package population

import (
	"fmt"
	"iter"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// fitRidge is the weight of |theta|^2/2 in the loss that Fit minimises: far too small to be seen in a fit to a hundred
// people, yet it keeps the fit finite where arms separate the rewards or span less than the whole space.
const fitRidge = 1e-3

// fitTolerance is the residual, relative to the loss's scale, at which the fit ends. Below about 1e-8 a step lowers the
// loss by less than the loss's rounding, and a search for a lower value would only pass over the people again and
// again.
const fitTolerance = 1e-7

// Fit returns the parameter that fits the rewards of all arms of all people best: the minimum of the family's loss. It
// sees every reward, played or not, and adds no noise: it is the non-private reference for a private policy, and never
// part of one. It makes some ten to twenty passes over the people and holds one person at a time.
func Fit(people iter.Seq2[Person, error], dim int, family family.Family) ([]float64, error) {
	if dim < 1 {
		return nil, fmt.Errorf("%w: dimension %d", ErrOption, dim)
	}
	l := &streamLoss{people: people, dim: dim, family: family}
	result, err := convex.Minimize(l, convex.NewtonConfig{Tolerance: fitTolerance})
	switch {
	case l.err != nil:
		return nil, l.err
	case err != nil:
		return nil, fmt.Errorf("population: fit to all rewards: %w", err)
	}
	return result.Theta, nil
}

// streamLoss is the loss of all arms of all people; unlike convex.GLMLoss it holds no records. It implements
// convex.Objective, which has no room for errors: the first one is kept, and the value is NaN from then on.
type streamLoss struct {
	people iter.Seq2[Person, error]
	dim    int
	family family.Family
	err    error
}

func (l *streamLoss) Dim() int { return l.dim }

func (l *streamLoss) Evaluate(theta, gradient []float64, hessian *mat.SymDense) float64 {
	value := fitRidge / 2 * Dot(theta, theta)
	for i := range gradient {
		gradient[i] = fitRidge * theta[i]
	}
	var curvature []float64 // upper triangle, row by row
	if hessian != nil {
		curvature = make([]float64, l.dim*l.dim)
	}
	records := 0
	for p, err := range l.people {
		if err != nil {
			return l.fail(err)
		}
		for a, x := range p.Arms {
			if len(x) != l.dim {
				return l.fail(fmt.Errorf("%w: arm of dimension %d for a fit of dimension %d", ErrOption, len(x), l.dim))
			}
			records++
			z := Dot(x, theta)
			value += family.Loss(l.family, z, p.Rewards[a])
			if gradient != nil {
				residual := l.family.Mean(z) - p.Rewards[a]
				for i, v := range x {
					gradient[i] += residual * v
				}
			}
			if hessian != nil {
				addOuter(curvature, x, l.family.Variance(z))
			}
		}
	}
	if records == 0 {
		return l.fail(ErrEmpty)
	}
	if hessian != nil {
		for i := range l.dim {
			curvature[i*l.dim+i] += fitRidge
			for j := i; j < l.dim; j++ {
				hessian.SetSym(i, j, curvature[i*l.dim+j])
			}
		}
	}
	return value
}

// addOuter adds w x x' to an upper triangle stored by rows of a full matrix.
func addOuter(triangle, x []float64, w float64) {
	for i, u := range x {
		row := triangle[i*len(x) : (i+1)*len(x)]
		for j := i; j < len(x); j++ {
			row[j] += w * u * x[j]
		}
	}
}

func (l *streamLoss) fail(err error) float64 {
	if l.err == nil {
		l.err = err
	}
	return math.NaN()
}

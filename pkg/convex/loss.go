package convex

import (
	"fmt"

	"gonum.org/v1/gonum/mat"
)

// Link is the part of a reward family on which a generalized linear model's loss depends: the log-partition m, the mean
// mu = m' and its derivative mu' >= 0.
type Link interface {
	LogPartition(z float64) float64
	Mean(z float64) float64
	Variance(z float64) float64
}

// Objective is a twice differentiable convex function.
type Objective interface {
	// Dim is the number of variables.
	Dim() int
	// Evaluate returns the value at theta and, where they are not nil, overwrites the gradient and the Hessian.
	Evaluate(theta, gradient []float64, hessian *mat.SymDense) float64
}

// GLMLoss is the loss of a generalized linear model on records in the clear, for fits without privacy: the sum over the
// records of m(<x,theta>) - r<x,theta>, plus Ridge/2 |theta|^2. Build it with NewGLMLoss.
type GLMLoss struct {
	link    Link
	arms    [][]float64
	rewards []float64
	ridge   float64
	dim     int
}

// NewGLMLoss checks and shares the records: arms of dimension dim with their rewards. There may be none.
func NewGLMLoss(link Link, dim int, arms [][]float64, rewards []float64, ridge float64) (*GLMLoss, error) {
	if link == nil || dim < 1 || !(ridge >= 0) || !IsFinite(ridge) {
		return nil, fmt.Errorf("%w: a loss needs a link, dimension %d must be at least 1, the ridge %v at least 0",
			ErrParameter, dim, ridge)
	}
	if err := checkVector("the rewards", rewards, len(arms)); err != nil {
		return nil, err
	}
	for i, x := range arms {
		if err := checkVector(fmt.Sprintf("arm %d", i), x, dim); err != nil {
			return nil, err
		}
	}
	return &GLMLoss{link: link, arms: arms, rewards: rewards, ridge: ridge, dim: dim}, nil
}

// Dim implements Objective.
func (l *GLMLoss) Dim() int { return l.dim }

// Evaluate implements Objective.
func (l *GLMLoss) Evaluate(theta, gradient []float64, hessian *mat.SymDense) float64 {
	value := l.ridge / 2 * Dot(theta, theta)
	for j := range gradient {
		gradient[j] = l.ridge * theta[j]
	}
	var triangle []float64
	if hessian != nil {
		triangle = make([]float64, l.dim*l.dim)
	}
	for i, x := range l.arms {
		z := Dot(x, theta)
		value += l.link.LogPartition(z) - l.rewards[i]*z
		if gradient != nil {
			residual := l.link.Mean(z) - l.rewards[i]
			for j, v := range x {
				gradient[j] += residual * v
			}
		}
		if hessian != nil {
			w := l.link.Variance(z)
			for j, u := range x {
				row := triangle[j*l.dim:]
				for k := j; k < l.dim; k++ {
					row[k] += w * u * x[k]
				}
			}
		}
	}
	if hessian != nil {
		for j := range l.dim {
			triangle[j*l.dim+j] += l.ridge
			for k := j; k < l.dim; k++ {
				hessian.SetSym(j, k, triangle[j*l.dim+k])
			}
		}
	}
	return value
}

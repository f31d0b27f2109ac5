package family

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Environment is a synthetic population with a known parameter, on which learners are tested. It takes its random words
// from the caller and keeps no state, so that a run is a function of its source.
type Environment struct {
	Family Family
	Theta  []float64 // theta*
	// Draw makes the arm set of the next person, with every arm in the unit ball. It may return the same set every
	// time.
	Draw func(src protocol.Source) [][]float64
}

// NewBallEnvironment is the population of the public experiments: every person gets count arms drawn uniformly from the
// unit ball, and theta* is uniform on the sphere of the given radius.
func NewBallEnvironment(family Family, dimension, count int, radius float64, src protocol.Source) (*Environment,
	error) {
	if dimension < 1 || count < 1 || !(radius >= 0) || math.IsInf(radius, 0) {
		return nil, fmt.Errorf("glm: environment of dimension %d with %d arms and parameter norm %v",
			dimension, count, radius)
	}
	draw := func(src protocol.Source) [][]float64 {
		arms := make([][]float64, count)
		for i := range arms {
			arms[i] = drawSphere(dimension, math.Pow(protocol.Uniform(src), 1/float64(dimension)), src)
		}
		return arms
	}
	return &Environment{Family: family, Theta: drawSphere(dimension, radius, src), Draw: draw}, nil
}

// Means are the expected rewards of the arms.
func (e *Environment) Means(arms [][]float64) []float64 {
	means := make([]float64, len(arms))
	for i, x := range arms {
		means[i] = e.Family.Mean(convex.Dot(x, e.Theta))
	}
	return means
}

// Reward draws the reward of an arm from the family: a coin of probability mu for logistic and probit, -1 or 1 with
// mean mu for linear (mu brought into [-1, 1]), the truncated Poisson and Gaussian laws for the others.
func (e *Environment) Reward(arm []float64, src protocol.Source) float64 {
	z := convex.Dot(arm, e.Theta)
	largest := e.Family.MaxReward()
	switch f := e.Family.(type) {
	case Poisson:
		// P(k) = e^{kz - m(z)}/k!
		u, log := protocol.Uniform(src), -e.Family.LogPartition(z)
		for k := 0.0; k < largest; k++ {
			if u -= math.Exp(log); u < 0 {
				return k
			}
			log += z - math.Log(k+1)
		}
		return largest
	case Gaussian:
		// Rejection from the uniform law on [-1, 1]; the density exp(azt - 2t^2) has its peak at az/4 moved into it.
		z *= f.a
		peak := math.Min(math.Max(z/4, -1), 1)
		for {
			t := 2*protocol.Uniform(src) - 1
			if protocol.Uniform(src) < math.Exp((t-peak)*(z-2*(t+peak))) {
				return largest * (1 + t) / 2
			}
		}
	case Linear: // the law with the largest variance
		if protocol.Uniform(src) < (1+e.Family.Mean(z))/2 {
			return 1
		}
		return -1
	default:
		if protocol.Uniform(src) < e.Family.Mean(z) {
			return 1
		}
		return 0
	}
}

func drawSphere(dimension int, radius float64, src protocol.Source) []float64 {
	x := make([]float64, dimension)
	for length := 0.0; length == 0; length = convex.Norm(x) {
		for i := 0; i < dimension; i += 2 { // Box and Muller
			r := math.Sqrt(-2 * math.Log(1-protocol.Uniform(src)))
			sin, cos := math.Sincos(2 * math.Pi * protocol.Uniform(src))
			x[i] = r * cos
			if i+1 < dimension {
				x[i+1] = r * sin
			}
		}
	}
	length := convex.Norm(x)
	for i := range x {
		x[i] *= radius / length
	}
	return x
}

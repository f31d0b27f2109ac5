package joint

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Row is what is kept of a record for estimation: an arm in the unit ball and a reward in range.
type Row struct {
	Arm    []float64
	Reward float64
}

// Set is a closed convex set of parameters: convex.Ball, convex.Ellipsoid, convex.Both.
type Set interface {
	Project(dst, x []float64) ([]float64, error)
}

// Descent is noisy full-batch projected gradient descent ("Shuffle and joint differential privacy for generalized
// linear contextual bandits", Lemma U.4) on the sum of the rows' losses plus Ridge/2 |theta|^2.
//
// What differs from the paper: the noise is on the sum of the gradients, not on their mean, and it and the steps are
// public numbers that do not depend on how many rows there are. That number is private here: it changes when one
// record is replaced by one that explores. There is no stopping early, and no rows cost as much as many.
type Descent struct {
	Family     family.Family
	Start      []float64
	Set        Set // of the iterates; nil: all parameters
	Iterations int
	Skip       int // the result is the mean of the iterates after this many steps
	Ridge      float64
	Step       func(k int) float64 // of the k-th step, from 1; public
	// Noise is what is added to the sum of the gradients at a point.
	Noise func(theta []float64) (mechanism.Noise, error)
	Clip  float64 // of each row's gradient, l2; 0: none, since rows are bounded
}

// Run takes all the steps. Its result is a function of the noised sums alone.
func (d Descent) Run(rows []Row, src protocol.Source) ([]float64, error) {
	theta := append([]float64(nil), d.Start...)
	mean, sum := make([]float64, len(theta)), make([]float64, len(theta))
	var err error
	if theta, err = d.project(theta); err != nil {
		return nil, err
	}
	for k := 1; k <= d.Iterations; k++ {
		noise, err := d.Noise(theta)
		if err != nil {
			return nil, err
		}
		d.gradient(sum, theta, rows)
		noise.Add(sum, src)
		step := d.Step(k)
		for j := range theta {
			theta[j] -= step * (sum[j] + d.Ridge*theta[j])
		}
		if theta, err = d.project(theta); err != nil {
			return nil, err
		}
		if k > d.Skip {
			for j, v := range theta {
				mean[j] += v / float64(d.Iterations-d.Skip)
			}
		}
	}
	return mean, nil
}

func (d Descent) project(theta []float64) ([]float64, error) {
	if d.Set == nil {
		return theta, nil
	}
	projected, err := d.Set.Project(nil, theta)
	if err != nil {
		return nil, fmt.Errorf("joint: the projection of an iterate: %w", err)
	}
	return projected, nil
}

func (d Descent) gradient(sum, theta []float64, rows []Row) {
	clear(sum)
	for _, r := range rows {
		factor := d.Family.Mean(convex.Dot(r.Arm, theta)) - r.Reward
		if d.Clip > 0 {
			if size := math.Abs(factor) * convex.Norm(r.Arm); size > d.Clip {
				factor *= d.Clip / size
			}
		}
		for j, v := range r.Arm {
			sum[j] += factor * v
		}
	}
}

// gradientSensitivity bounds how far one record moves a sum of gradients at theta when it is replaced, and makes room
// for a record that leaves one sum and enters another of equal budget: with N the largest gradient and D the largest
// distance of two, replacing costs D^2/2 at one sum and moving N^2/2 at both, so that max(D, sqrt 2 N) covers either;
// the rounding of each coordinate counts twice for the same reason (see leaf). D is the diameter of the ball that
// encloses all gradients at theta (statistic.EnclosingBall), between R and 2R, where the paper takes 2R.
func gradientSensitivity(f family.Family, theta []float64) mechanism.Sensitivity {
	size := convex.Norm(theta)
	_, radius := statistic.EnclosingBall(f, size)
	longest := math.Max(f.Mean(size)-f.MinReward(), f.MaxReward()-f.Mean(-size))
	return mechanism.Sensitivity{Dim: 2 * len(theta), L2: math.Max(2*radius, math.Sqrt2*longest) * (1 + 1e-12)}
}

package environment

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/riffle-dp/riffle/internal/population"
)

// adversary draws the arm sets of Adversarial, a sequence that is fixed before the run and changes over time so that
// early data say nothing about later decisions.
//
// A random orthonormal basis q_1..q_d belongs to the seed. The people are divided into phases of equal length; q_i with
// i = phase mod d decides in a phase, and an arm of a person is
//
//	x = a q_i + c,   a uniform in [-1, 1]/sqrt(2),   c of norm 1/sqrt(2), the same for all arms of the person.
//
// c is uniform on the sphere in the span of the directions that decided before (0 in the first phase). So all of an
// arm's length that earlier phases know is common to the arms: it moves the reward, and in a family that is not linear
// its noise and slope, but not the decision; and what decides has never been seen before its phase. A learner that
// explores in its first epochs only, or whose epochs grow so that one covers several phases, decides blindly. The
// contexts of a phase are independent and identically distributed, those of the run are not.
type adversary struct {
	spec   Spec
	people int
	basis  [][]float64
}

func (s Spec) adversary(people int, pool *rand.Rand) *adversary {
	a := &adversary{spec: s, people: people}
	for len(a.basis) < s.Dimension { // Gram and Schmidt, twice for rounding
		q := make([]float64, s.Dimension)
		population.Sphere(q, 1, pool)
		for range 2 {
			for _, b := range a.basis {
				floats.AddScaled(q, -population.Dot(q, b), b)
			}
			floats.Scale(1/math.Sqrt(population.Dot(q, q)), q)
		}
		a.basis = append(a.basis, q)
	}
	return a
}

// draw makes the arms of the i-th person, from 0.
func (a *adversary) draw(i int, r *rand.Rand) [][]float64 {
	phase := i * a.spec.Phases / a.people
	direction := a.basis[phase%len(a.basis)]
	common := make([]float64, a.spec.Dimension)
	var before [][]float64
	for j, q := range a.basis {
		if j < phase && j != phase%len(a.basis) {
			before = append(before, q)
		}
	}
	if len(before) > 0 {
		weights := make([]float64, len(before))
		population.Sphere(weights, math.Sqrt2/2, r)
		for j, q := range before {
			floats.AddScaled(common, weights[j], q)
		}
	}
	arms := make([][]float64, a.spec.Arms)
	for k := range arms {
		arms[k] = append([]float64(nil), common...)
		floats.AddScaled(arms[k], (2*r.Float64()-1)*math.Sqrt2/2, direction)
	}
	return arms
}

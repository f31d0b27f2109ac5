package family_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// The parabola that touches the loss at z and -z with the curvature of z lies above the loss everywhere (Jaakkola and
// Jordan), and of the logistic and the probit family one with less curvature does not.
func TestCurvatureIsThatOfTheLeastParabolaAbove(t *testing.T) {
	for _, c := range []familyCase{{"logistic", 1}, {"probit", 1}, {"gaussian", 5}, {"linear", 1}, {"poisson", 1}} {
		f := c.build(t)
		for _, at := range []float64{0.5, -0.5, 1, -2, 3, 6} {
			above := func(curvature float64) (least float64) {
				least = math.Inf(1)
				for z := -12.0; z <= 12; z += 0.05 {
					parabola := f.LogPartition(at) + f.Mean(0)*(z-at) + curvature/2*(z*z-at*at)
					least = math.Min(least, parabola-f.LogPartition(z))
				}
				return least
			}
			if least := above(family.Curvature(f, at)); least < -1e-9 {
				t.Errorf("%v: the parabola of %v is below the loss by %v", c, at, -least)
			}
			if least := above(0.99 * family.Curvature(f, at)); least > -1e-6 {
				t.Errorf("%v: a parabola of less curvature than that of %v is above the loss, too: %v", c, at, least)
			}
		}
	}
}

// The curvature is the mean of mu' between 0 and the score, on both sides of the score where the formula changes, and
// mu' itself where the response is not symmetric. A NaN is not hidden.
func TestCurvatureIsTheMeanSlope(t *testing.T) {
	scores := []float64{0, 1e-300, 1e-12, 1e-5, 0.0049999, 0.005, 0.0050001, 0.01, 0.1, 1, 3, 10, 40, 700}
	symmetric := 0
	for _, c := range []familyCase{{"logistic", 1}, {"probit", 1}, {"linear", 1}, {"poisson", 1}, {"poisson", 5},
		{"gaussian", 1}} {
		f := c.build(t)
		for _, size := range scores {
			for _, z := range []float64{size, -size} {
				got := family.Curvature(f, z)
				if !f.Symmetric() {
					if got != f.Variance(z) {
						t.Errorf("%v: %v at %v, mu' is %v", c, got, z, f.Variance(z))
					}
					continue
				}
				symmetric++
				want := f.Variance(0)
				if size > 0 && size <= 10 {
					want = quad.Fixed(func(u float64) float64 { return f.Variance(u * z) }, 0, 1, 80, nil, 0)
				} else if size > 10 {
					want = (f.Mean(z) - f.Mean(0)) / z
				}
				if math.Abs(got-want) > 1e-12 {
					t.Errorf("%v: %v at %v, the mean slope is %v", c, got, z, want)
				}
				if !(got >= 0 && got <= f.MaxVariance(size)*(1+1e-12)) {
					t.Errorf("%v: %v at %v, the largest slope up to there is %v", c, got, z, f.MaxVariance(size))
				}
			}
		}
		if !math.IsNaN(family.Curvature(f, math.NaN())) {
			t.Errorf("%v: a NaN is hidden", c)
		}
	}
	if symmetric == 0 {
		t.Error("no family was symmetric")
	}
}

// The second derivative of the curvature is at most a third of the bound of Smoothness, from which the cells of the
// sensitivity bounds are made.
func TestCurvatureIsAsSmoothAsStated(t *testing.T) {
	const h = 0.01
	for _, c := range []familyCase{{"logistic", 1}, {"probit", 1}, {"gaussian", 5}, {"linear", 1}, {"poisson", 1}} {
		f := c.build(t)
		_, third := f.Smoothness(8)
		for z := -7.9; z <= 7.9; z += 0.013 {
			second := (family.Curvature(f, z+h) - 2*family.Curvature(f, z) + family.Curvature(f, z-h)) / (h * h)
			if math.Abs(second) > third/3+1e-6 {
				t.Errorf("%v: second derivative %v at %v, at most %v", c, second, z, third/3)
			}
		}
	}
}

// Flatness is the share by which mu' is below the curvature, at the largest score.
func TestFlatnessIsTheLargestShareBelow(t *testing.T) {
	for _, c := range []familyCase{{"logistic", 1}, {"probit", 1}, {"gaussian", 5}} {
		f := c.build(t)
		for _, size := range []float64{0.1, 1, 3} {
			got := family.Flatness(f, size)
			want := 1 - f.Variance(size)*size/(f.Mean(size)-f.Mean(0))
			if math.Abs(got-want) > 1e-12 || !(got > 0 && got < 1) {
				t.Errorf("%v: %v up to %v, want %v", c, got, size, want)
			}
			for z := 0.0; z <= size; z += size / 50 {
				if share := 1 - f.Variance(z)/family.Curvature(f, z); share > got+1e-12 {
					t.Errorf("%v: %v at %v, %v up to %v", c, share, z, got, size)
				}
			}
		}
	}
	for _, c := range []familyCase{{"linear", 1}, {"poisson", 5}} {
		if got := family.Flatness(c.build(t), 3); got != 0 {
			t.Errorf("%v: %v, want 0", c, got)
		}
	}
	if got := family.Flatness(family.Logistic{}, 0); got != 0 {
		t.Errorf("up to 0: %v", got)
	}
}

// Flatness is the largest share by which the slope is below the curvature anywhere up to the score: 0 at a score of 0,
// and where they are the same.
func TestFlatnessIsTheLargestShare(t *testing.T) {
	for _, c := range []familyCase{{"logistic", 1}, {"probit", 1}, {"linear", 1}, {"poisson", 1}, {"poisson", 5},
		{"gaussian", 1}} {
		f := family.Bounded(c.build(t))
		for _, S := range []float64{0, 1e-300, 0.001, 0.1, 1, 3, 10, 50} {
			want := 0.0
			for i := range 101 {
				z := S * float64(i) / 100
				want = math.Max(want, 1-f.Variance(z)/family.Curvature(f, z))
			}
			got := family.Flatness(f, S)
			if !(math.Abs(got-want) <= 1e-9) {
				t.Errorf("%v: %v up to %v, want %v", c, got, S, want)
			}
			if same := !f.Symmetric() || c.name == "linear"; S >= 0.1 && same != (got == 0) {
				t.Errorf("%v: %v up to %v", c, got, S)
			}
		}
	}
}

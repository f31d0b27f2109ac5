package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
)

// The prior weights sum to 1 for every number of rounds, and the rates are those of Wang, Lu and Zhang with diameter
// 2D.
func TestPriorsSumToOne(t *testing.T) {
	for _, rounds := range []int{1, 2, 3, 100, 20000, 1 << 20} {
		m, err := NewMaler(Domain{Dimension: 2, Radius: 2, Gradient: 5}, rounds)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		m.experts(func(e *expert) { sum += math.Exp(e.log) })
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("%d rounds: the priors sum to %v", rounds, sum)
		}
		if want := int(math.Ceil(math.Log2(float64(rounds))/2)) + 1; len(m.strong) != want || m.strong[0].rate != 0.01 {
			t.Errorf("%d rounds: %d rates, the first %v", rounds, len(m.strong), m.strong[0].rate)
		}
	}
}

// Each step of an exp-concave expert satisfies the conditions of the projection in its metric: S(y - z) = m z with
// m >= 0 for the point y before and z after, m = 0 inside; and the kept inverse is the metric's.
func TestExpConcaveStepIsAProjection(t *testing.T) {
	const d, radius = 3, 0.4
	m, err := NewMaler(Domain{Dimension: d, Radius: radius, Gradient: 4}, 500)
	if err != nil {
		t.Fatal(err)
	}
	r, outside := rand.New(rand.NewPCG(4, 4)), 0
	e := &m.curved[0]
	for range 500 {
		g := []float64{1 + r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		q, old := make([]float64, d), append([]float64(nil), e.point...)
		v := slices.Clone(m.point)
		along(v, e.point, -1)
		clipped, err := m.domain.clip(g)
		if err != nil {
			t.Fatal(err)
		}
		along(q, clipped, e.rate-2*square(e.rate)*convex.Dot(v, clipped))
		if err := m.Update(g); err != nil {
			t.Fatal(err)
		}
		moved := mat.NewVecDense(d, nil) // S(y - z) = S(old - z) - q/b
		difference := mat.NewVecDense(d, old)
		difference.SubVec(difference, mat.NewVecDense(d, e.point))
		moved.MulVec(e.shape, difference)
		moved.AddScaledVec(moved, -1/curvature, mat.NewVecDense(d, q))
		factor := convex.Dot(moved.RawVector().Data, e.point) / convex.Dot(e.point, e.point)
		if convex.Norm(e.point) < radius*(1-1e-9) {
			factor = 0
		} else {
			outside++
		}
		for j := range d {
			if gap := moved.AtVec(j) - factor*e.point[j]; math.Abs(gap) > 1e-7 || factor < -1e-9 {
				t.Fatalf("gap %v with factor %v", gap, factor)
			}
		}
	}
	var product mat.Dense
	product.Mul(e.shape, mat.NewDense(d, d, e.inverse))
	for i := range d {
		for j := range d {
			want := 0.0
			if i == j {
				want = 1
			}
			if math.Abs(product.At(i, j)-want) > 1e-9 {
				t.Errorf("metric times inverse is %v at (%d, %d)", product.At(i, j), i, j)
			}
		}
	}
	if outside == 0 {
		t.Error("no step left the ball: the test shows nothing")
	}
}

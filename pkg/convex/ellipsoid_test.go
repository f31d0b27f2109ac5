package convex_test

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

// The projection z of x satisfies the conditions of Karush, Kuhn and Tucker: z lies in the ellipsoid, and x - z is
// nu A(z - centre) with nu >= 0, and nu = 0 inside. Projecting again changes nothing.
func TestEllipsoidProjectionIsTheNearestPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 5).Draw(t, "d")
		e := convex.Ellipsoid{Centre: vector(d, 2).Draw(t, "centre"), Matrix: semidefinite(t, d, false),
			Radius: rapid.Float64Range(0.1, 10).Draw(t, "radius")}
		x := vector(d, 20).Draw(t, "x")
		z, err := e.Project(nil, x)
		if err != nil {
			t.Fatal(err)
		}
		from := minus(z, e.Centre)
		outward := times(e.Matrix, from)
		size := math.Sqrt(math.Max(0, floats.Dot(from, outward)))
		if size > e.Radius*(1+1e-9) {
			t.Fatalf("size %v in a set of radius %v", size, e.Radius)
		}
		gap := minus(x, z)
		if norm := floats.Norm(gap, 2); norm > 1e-9*(1+floats.Norm(x, 2)) {
			if size < e.Radius*(1-1e-9) {
				t.Fatalf("moved by %v to the inside", norm)
			}
			nu := floats.Dot(gap, outward) / floats.Dot(outward, outward)
			rest := append([]float64(nil), gap...)
			floats.AddScaled(rest, -nu, outward)
			if nu < 0 || floats.Norm(rest, 2) > 1e-7*norm {
				t.Fatalf("multiplier %v, residual %v of %v", nu, floats.Norm(rest, 2), norm)
			}
		}
		again, err := e.Project(nil, z)
		if err != nil || floats.Distance(again, z, 2) > 1e-9*(1+floats.Norm(z, 2)) {
			t.Fatalf("projected twice %v, once %v: %v", again, z, err)
		}
	})
}

// On the ball and half of a wide ellipsoid the nearest point of the intersection is known.
func TestIntersectionOfTwoSets(t *testing.T) {
	narrow := convex.Ellipsoid{Centre: []float64{0, 0}, Matrix: mat.NewSymDense(2, []float64{100, 0, 0, 1e-8}),
		Radius: 1}
	both := convex.Both{convex.Ball{Radius: 2}, narrow}
	z, err := both.Project(nil, []float64{3, 4})
	if err != nil || floats.Norm(z, 2) > 2 || math.Abs(z[0]-0.1) > 1e-6 || math.Abs(z[1]-math.Sqrt(4-0.01)) > 1e-6 {
		t.Errorf("%v, %v", z, err)
	}
	inside, err := both.Project(nil, []float64{0.01, 1})
	if err != nil || inside[0] != 0.01 || inside[1] != 1 {
		t.Errorf("a point inside went to %v, %v", inside, err)
	}
}

func TestBadEllipsoidsAreRefused(t *testing.T) {
	one := mat.NewSymDense(1, []float64{1})
	for _, e := range []convex.Ellipsoid{{}, {Centre: []float64{0}, Matrix: one}, {Centre: []float64{0, 0}, Matrix: one,
		Radius: 1}, {Centre: []float64{0}, Matrix: mat.NewSymDense(1, []float64{-1}), Radius: 1}} {
		if _, err := e.Project(nil, []float64{3}); !errors.Is(err, convex.ErrParameter) &&
			!errors.Is(err, convex.ErrDimension) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	e := convex.Ellipsoid{Centre: []float64{0}, Matrix: one, Radius: 1}
	if _, err := e.Project(nil, []float64{math.NaN()}); !errors.Is(err, convex.ErrNotFinite) {
		t.Error(err)
	}
}

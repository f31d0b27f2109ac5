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

func vector(d int, size float64) *rapid.Generator[[]float64] {
	return rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(-size, size)), d, d)
}

// semidefinite draws Q diag(values) Q' with eigenvalues over many magnitudes, zeros included.
func semidefinite(t *rapid.T, d int, zeros bool) *mat.SymDense {
	raw := mat.NewDense(d, d, rapid.SliceOfN(rapid.Float64Range(-1, 1), d*d, d*d).Draw(t, "basis"))
	for i := range d {
		raw.Set(i, i, raw.At(i, i)+3)
	}
	var qr mat.QR
	qr.Factorize(raw)
	q := new(mat.Dense)
	qr.QTo(q)
	values := make([]float64, d)
	for i := range values {
		values[i] = math.Pow(10, rapid.Float64Range(-4, 4).Draw(t, "exponent"))
		if zeros && rapid.IntRange(0, 4).Draw(t, "zero") == 0 {
			values[i] = 0
		}
	}
	a := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			sum := 0.0
			for k := range d {
				sum += q.At(i, k) * values[k] * q.At(j, k)
			}
			a.SetSym(i, j, sum)
		}
	}
	return a
}

func times(a mat.Symmetric, x []float64) []float64 {
	y := make([]float64, len(x))
	for i := range y {
		for j := range x {
			y[i] += a.At(i, j) * x[j]
		}
	}
	return y
}

func minus(x, y []float64) []float64 {
	z := append([]float64(nil), x...)
	floats.Sub(z, y)
	return z
}

func norm2(x []float64) float64 { return floats.Norm(x, 2) }

// A projection lies in the ball, comes back unchanged to the bit, and is optimal: <x-y, w-y> <= 0 for every w inside.
func TestBallProjectionIsTheNearestPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 6).Draw(t, "d")
		ball := convex.Ball{Radius: rapid.Float64Range(0, 5).Draw(t, "radius")}
		x := vector(d, 10).Draw(t, "x")
		y, err := ball.Project(nil, x)
		if err != nil {
			t.Fatal(err)
		}
		if norm2(y) > ball.Radius*(1+1e-15) {
			t.Fatalf("norm %v above the radius %v", norm2(y), ball.Radius)
		}
		again, err := ball.Project(nil, y)
		if err != nil || !floats.Equal(y, again) {
			t.Fatalf("projected again: %v, %v, was %v", again, err, y)
		}
		if norm2(x) <= ball.Radius && !floats.Equal(x, y) {
			t.Fatalf("moved %v, a point inside, to %v", x, y)
		}
		w, err := ball.Project(nil, vector(d, 10).Draw(t, "w"))
		if err != nil {
			t.Fatal(err)
		}
		if v := floats.Dot(minus(x, y), minus(w, y)); v > 1e-12 {
			t.Fatalf("not the nearest point: %v", v)
		}
	})
}

func TestBallProjectionOfExtremeNumbers(t *testing.T) {
	for _, x := range [][]float64{{math.MaxFloat64, -math.MaxFloat64}, {1e-320, 1}, {5e-324, 0}, {1e200, 1e-200}} {
		y, err := convex.Ball{Radius: 0.5}.Project(nil, x)
		if err != nil || !(norm2(y) <= 0.5) {
			t.Errorf("%v: %v, %v", x, y, err)
		}
	}
	for _, radius := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := (convex.Ball{Radius: radius}).Project(nil, []float64{1}); !errors.Is(err, convex.ErrParameter) {
			t.Errorf("radius %v: %v", radius, err)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
		if _, err := (convex.Ball{Radius: 1}).Project(nil, []float64{0, bad}); !errors.Is(err, convex.ErrNotFinite) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// The minimum y satisfies (H + nu I)y = b with nu >= 0, and nu = 0 or y lies on the sphere.
func TestMinimizeQuadraticMeetsItsOptimalityCondition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 6).Draw(t, "d")
		h := semidefinite(t, d, true)
		b := vector(d, 100).Draw(t, "b")
		radius := rapid.Float64Range(0.01, 10).Draw(t, "radius")
		y, err := convex.MinimizeQuadratic(h, b, radius)
		if err != nil {
			t.Fatal(err)
		}
		if norm2(y) > radius*(1+1e-15) {
			t.Fatalf("norm %v above %v", norm2(y), radius)
		}
		excess := minus(b, times(h, y)) // = nu y
		nu := 0.0
		if norm2(y) > radius*(1-1e-9) {
			nu = floats.Dot(excess, y) / floats.Dot(y, y)
		}
		kkt := append([]float64(nil), excess...)
		floats.AddScaled(kkt, -nu, y)
		scale := math.Max(1, math.Max(norm2(b), mat.Trace(h)*norm2(y)))
		if nu < -1e-9*scale || norm2(kkt) > 1e-9*scale {
			t.Fatalf("KKT residual %v at scale %v, nu %v", norm2(kkt), scale, nu)
		}
	})
	// Without a ball it is the linear solve; a singular matrix then has no minimum.
	y, err := convex.MinimizeQuadratic(mat.NewSymDense(2, []float64{2, 0, 0, 4}), []float64{2, 2}, math.Inf(1))
	if err != nil || norm2(minus(y, []float64{1, 0.5})) > 1e-15 {
		t.Errorf("%v, %v", y, err)
	}
	for name, h := range map[string]*mat.SymDense{
		"singular":   mat.NewSymDense(2, []float64{2, 0, 0, 0}),
		"indefinite": mat.NewSymDense(2, []float64{1, 2, 2, 1}),
	} {
		if _, err := convex.MinimizeQuadratic(h, []float64{2, 2}, math.Inf(1)); !errors.Is(err, convex.ErrParameter) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Any numbers give an error or a feasible, finite point.
func FuzzProjections(f *testing.F) {
	f.Add(1.0, 0.5, 2.0, 3.0, 4.0, 1.0)
	f.Add(1e-300, 0.0, 1e300, 1e150, -1e150, 1e-5)
	f.Fuzz(func(t *testing.T, a, b, c, x, y, radius float64) {
		p := []float64{x, y}
		if q, err := (convex.Ball{Radius: radius}).Project(nil, p); err == nil && !(norm2(q) <= radius*(1+1e-15)) {
			t.Errorf("ball: %v", q)
		}
		m := mat.NewSymDense(2, []float64{a, b, b, c})
		if q, err := convex.MinimizeQuadratic(m, p, radius); err == nil && !(norm2(q) <= radius*(1+1e-15)) {
			t.Errorf("quadratic: %v", q)
		}
	})
}

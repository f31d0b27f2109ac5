package protocol_test

import (
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

func TestSymVecOrder(t *testing.T) {
	m := mat.NewSymDense(3, []float64{1, 2, 3, 2, 4, 5, 3, 5, 6})
	r := math.Sqrt2
	want := []float64{1, 2 * r, 3 * r, 4, 5 * r, 6}
	if got := protocol.SymVec(nil, m); !floats.Equal(got, want) {
		t.Errorf("SymVec = %v, want %v", got, want)
	}
	if got := protocol.SymOuter(nil, 2, []float64{1, 3}); !floats.EqualApprox(got, []float64{2, 6 * r, 18}, 1e-15) {
		t.Errorf("SymOuter = %v", got)
	}
	for d, want := range []int{0, 1, 3, 6, 10, 15} {
		if got := protocol.SymDim(d); got != want {
			t.Errorf("SymDim(%d) = %d, want %d", d, got, want)
		}
	}
	for _, n := range []int{0, 2, 4, 5, 7, 14} {
		if got, err := protocol.SymMat(nil, make([]float64, n)); !errors.Is(err, protocol.ErrVector) {
			t.Errorf("SymMat of %d entries = %v, %v; want ErrVector", n, got, err)
		}
	}
}

// A18: there and back (the diagonal exactly, the rest up to one unit in the last place: no scaling by sqrt 2 in binary floating
// point is undone exactly for all numbers), l2 norm = Frobenius norm, ||x||^2 for an outer product.
func TestA18SymmetricRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 40).Draw(t, "d")
		m := mat.NewSymDense(d, nil)
		for i := range d {
			for j := i; j < d; j++ {
				m.SetSym(i, j, rapid.Float64Range(-1e6, 1e6).Draw(t, "entry"))
			}
		}
		v := protocol.SymVec(nil, m)
		if len(v) != protocol.SymDim(d) {
			t.Fatalf("%d entries, want %d", len(v), protocol.SymDim(d))
		}
		if got, want := floats.Norm(v, 2), mat.Norm(m, 2); math.Abs(got-want) > 1e-13*want { // gonum's norm 2 is Frobenius's
			t.Fatalf("norm %v, Frobenius norm %v", got, want)
		}
		back, err := protocol.SymMat(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		for i := range d {
			for j := range d {
				got, want := back[i*d+j], m.At(i, j)
				if got != back[j*d+i] || (i == j && got != want) || math.Abs(got-want) > math.Nextafter(math.Abs(want), math.Inf(1))-math.Abs(want) {
					t.Fatalf("entry (%d, %d): %v came back as %v", i, j, want, got)
				}
			}
		}
		x := make([]float64, d)
		for i := range x {
			x[i] = rapid.Float64Range(-1, 1).Draw(t, "x")
		}
		weight := rapid.Float64Range(0, 3).Draw(t, "weight")
		outer := protocol.SymOuter(nil, weight, x)
		var product mat.SymDense
		product.SymOuterK(weight, mat.NewDense(d, 1, x))
		if !floats.EqualApprox(outer, protocol.SymVec(nil, &product), 1e-14) {
			t.Fatalf("SymOuter %v", outer)
		}
		if got, want := floats.Norm(outer, 2), weight*floats.Dot(x, x); math.Abs(got-want) > 1e-13*(1+want) {
			t.Fatalf("||w xx'|| = %v, w ||x||^2 = %v", got, want)
		}
	})
}

// A18: the noise of a released matrix has twice the variance on the diagonal that it has off it. Within 3 % over 40000 releases
// (a ratio of sample variances of 120000 entries each: standard error 0.6 %, false alarm below 1e-6 by five standard errors).
func TestA18NoiseOfAMatrix(t *testing.T) {
	const d, reports, releases = 3, 20, 40_000
	e := uniform(protocol.SymDim(d), -1, 1, 4, 5, protocol.BiasHalf)
	src := seeded("matrix noise", 0)
	levels, err := e.Round(nil, make([]float64, protocol.SymDim(d)), src) // level 4 exactly: noise is all the error
	if err != nil {
		t.Fatal(err)
	}
	var diagonal, off float64
	ones := make([]uint64, len(levels))
	for range releases {
		for j := range ones {
			ones[j] = reports * uint64(levels[j])
		}
		if err := e.AddNoise(ones, reports, src); err != nil {
			t.Fatal(err)
		}
		v, err := e.Decode(ones, reports)
		if err != nil {
			t.Fatal(err)
		}
		m, err := protocol.SymMat(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		for i := range d {
			diagonal += m[i*d+i] * m[i*d+i]
			for j := range i {
				off += m[i*d+j] * m[i*d+j]
			}
		}
	}
	if ratio := diagonal / off; math.Abs(ratio/2-1) > 0.03 {
		t.Errorf("variance on the diagonal over variance off it: %v, want 2", ratio)
	}
}

package symmetric_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

func TestTriangleIsRowMajorWithScaledOffDiagonals(t *testing.T) {
	r := math.Sqrt2
	got := symmetric.AppendOuter(nil, 2, []float64{1, 3, -1}, math.Sqrt2)
	if want := []float64{2, 6 * r, -2 * r, 18, -6 * r, 2}; !floats.EqualApprox(got, want, 1e-14) {
		t.Errorf("2 xx' = %v, want %v", got, want)
	}
	m := symmetric.FromTriangle([]float64{1, 2 * r, 3 * r, 4, 5 * r, 6}, 3, math.Sqrt2)
	if want := mat.NewSymDense(3, []float64{1, 2, 3, 2, 4, 5, 3, 5, 6}); !mat.EqualApprox(m, want, 1e-15) {
		t.Errorf("matrix %v, want %v", mat.Formatted(m), mat.Formatted(want))
	}
	for d, want := range []int{0, 1, 3, 6, 10, 15} {
		if got := symmetric.Dim(d); got != want {
			t.Errorf("TriangleDim(%d) = %d, want %d", d, got, want)
		}
	}
}

// A matrix survives the way through its vector: the diagonal exactly, the rest up to one unit in the last place
// (scaling by sqrt 2 cannot be undone exactly for all numbers). The vector's norm is the Frobenius norm, and w ||x||^2
// for w xx'.
func TestTriangleRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 40).Draw(t, "d")
		m := mat.NewSymDense(d, nil)
		var v []float64
		for i := range d {
			for j := i; j < d; j++ {
				entry := rapid.Float64Range(-1e6, 1e6).Draw(t, "entry")
				m.SetSym(i, j, entry)
				if i != j {
					entry *= math.Sqrt2
				}
				v = append(v, entry)
			}
		}
		if len(v) != symmetric.Dim(d) {
			t.Fatalf("%d entries, want %d", len(v), symmetric.Dim(d))
		}
		// mat.Norm(m, 2) is the Frobenius norm.
		if got, want := floats.Norm(v, 2), mat.Norm(m, 2); math.Abs(got-want) > 1e-13*want {
			t.Fatalf("norm %v, Frobenius norm %v", got, want)
		}
		back := symmetric.FromTriangle(v, d, math.Sqrt2)
		for i := range d {
			for j := range d {
				got, want := back.At(i, j), m.At(i, j)
				ulp := math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want)
				if (i == j && got != want) || math.Abs(got-want) > ulp {
					t.Fatalf("entry (%d, %d): %v came back as %v", i, j, want, got)
				}
			}
		}
		x := make([]float64, d)
		for i := range x {
			x[i] = rapid.Float64Range(-1, 1).Draw(t, "x")
		}
		weight := rapid.Float64Range(0, 3).Draw(t, "weight")
		outer := symmetric.AppendOuter(nil, weight, x, math.Sqrt2)
		var product mat.SymDense
		product.SymOuterK(weight, mat.NewDense(d, 1, x))
		if !mat.EqualApprox(symmetric.FromTriangle(outer, d, math.Sqrt2), &product, 1e-14) {
			t.Fatalf("outer product %v", outer)
		}
		if got, want := floats.Norm(outer, 2), weight*floats.Dot(x, x); math.Abs(got-want) > 1e-13*(1+want) {
			t.Fatalf("||w xx'|| = %v, w ||x||^2 = %v", got, want)
		}
	})
}

// The noise of a released matrix has twice the variance on the diagonal that it has off it. Within 3 % over 40000
// releases (a ratio of sample variances of 120000 entries each: standard error 0.6 %, false alarm below 1e-6 by five
// standard errors).
func TestNoiseOfAReleasedMatrix(t *testing.T) {
	const d, reports, releases = 3, 20, 40_000
	e := protocol.Encoding{Scale: 4, NoiseBits: 5, Bias: protocol.BiasHalf}
	for range symmetric.Dim(d) {
		e.Coordinates = append(e.Coordinates, protocol.Coordinate{Offset: -1, Levels: 8})
	}
	src := rand.NewChaCha8([32]byte{18})
	ones := make([]uint64, len(e.Coordinates))
	var diagonal, off float64
	for range releases {
		for j := range ones {
			ones[j] = reports * 4 // every device at level 4, the exact 0: noise is all the error
		}
		if err := e.AddNoise(ones, reports, src); err != nil {
			t.Fatal(err)
		}
		v, err := e.Decode(ones, reports, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := symmetric.FromTriangle(v, d, math.Sqrt2)
		for i := range d {
			diagonal += m.At(i, i) * m.At(i, i)
			for j := range i {
				off += m.At(i, j) * m.At(i, j)
			}
		}
	}
	if ratio := diagonal / off; math.Abs(ratio/2-1) > 0.03 {
		t.Errorf("variance on the diagonal over variance off it: %v, want 2", ratio)
	}
}

package convex

import (
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

// For matrices with entries of any size, tiny blocks included: no panic, orthonormal vectors, and the matrix back to
// rounding.
func TestSpectrumOfAnySymmetricMatrix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.IntRange(1, 7).Draw(rt, "d")
		m := mat.NewSymDense(d, nil)
		largest := 0.0
		for i := range d {
			for j := i; j < d; j++ {
				v := rapid.Float64Range(-1, 1).Draw(rt, "mantissa")
				v *= math.Pow(10, rapid.Float64Range(-300, 10).Draw(rt, "exponent"))
				m.SetSym(i, j, v)
				largest = math.Max(largest, math.Abs(v))
			}
		}
		values, vectors, err := Spectrum(m)
		if err != nil {
			rt.Fatal(err)
		}
		back := FromSpectrum(values, vectors)
		for i := range d {
			for j := range d {
				unit := 0.0
				for k := range d {
					unit += vectors.At(k, i) * vectors.At(k, j)
				}
				if math.Abs(back.At(i, j)-m.At(i, j)) > 1e-12*largest*float64(d) {
					rt.Fatalf("entry (%d, %d) is %v, came back as %v", i, j, m.At(i, j), back.At(i, j))
				}
				if want := map[bool]float64{true: 1}[i == j]; math.Abs(unit-want) > 1e-12 {
					rt.Fatalf("vectors %d and %d have inner product %v", i, j, unit)
				}
			}
		}
	})
}

func TestSpectrumRefusesWhatIsNotFinite(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, _, err := Spectrum(mat.NewSymDense(2, []float64{1, v, v, 1})); !errors.Is(err, ErrNotFinite) {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// A matrix times its inverse is the identity; one that is singular or has a negative eigenvalue is refused.
func TestInverse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.IntRange(1, 7).Draw(rt, "d")
		m := mat.NewSymDense(d, nil)
		for i := range d {
			m.SetSym(i, i, 1)
		}
		for range d {
			x := rapid.SliceOfN(rapid.Float64Range(-3, 3), d, d).Draw(rt, "x")
			m.SymRankOne(m, 1, mat.NewVecDense(d, x))
		}
		inverse, err := Inverse(m)
		if err != nil {
			rt.Fatal(err)
		}
		var product mat.Dense
		product.Mul(m, inverse)
		for i := range d {
			product.Set(i, i, product.At(i, i)-1)
		}
		if off := mat.Norm(&product, 2); !(off < 1e-9) {
			rt.Fatalf("the product is %v away from the identity", off)
		}
	})
	for _, m := range [][]float64{{1, 2, 2, 1}, {1, 1, 1, 1}, {1, 0, 0, 1e-17}} {
		if _, err := Inverse(mat.NewSymDense(2, m)); !errors.Is(err, ErrParameter) {
			t.Errorf("%v: %v", m, err)
		}
	}
}

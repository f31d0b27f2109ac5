package design_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/glm/design"
)

// spannerArms draws arms with duplicates, zeros and linear dependencies, and their rank by an independent computation.
func spannerArms(rng *rand.Rand) (arms [][]float64, rank int) {
	d, k := 1+rng.IntN(6), 1+rng.IntN(12)
	span := 1 + rng.IntN(d)
	base := make([][]float64, span)
	for i := range base {
		for range d {
			base[i] = append(base[i], rng.NormFloat64())
		}
	}
	for range k {
		x := make([]float64, d)
		switch rng.IntN(6) {
		case 0: // zero
		case 1:
			if len(arms) > 0 {
				copy(x, arms[rng.IntN(len(arms))])
				break
			}
			fallthrough
		default:
			for _, b := range base {
				w := rng.NormFloat64()
				for i := range x {
					x[i] += 0.1 * w * b[i]
				}
			}
		}
		arms = append(arms, x)
	}
	m := mat.NewDense(k, d, nil)
	for i, x := range arms {
		m.SetRow(i, x)
	}
	var svd mat.SVD
	svd.Factorize(m, mat.SVDNone)
	values := svd.Values(nil)
	for _, v := range values {
		if v > 1e-8*values[0] {
			rank++
		}
	}
	return arms, rank
}

// Every arm is a combination of the spanner's with small coefficients, by an independent least squares.
func TestASpannerSpansWithSmallCoefficients(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		arms, rank := spannerArms(rng)
		for _, tolerance := range []float64{0, 1e-12, 0.25} {
			picked, err := design.Spanner(arms, design.Options{Tolerance: tolerance})
			if err != nil {
				t.Fatal(err)
			}
			if again, err := design.Spanner(arms, design.Options{Tolerance: tolerance}); err != nil ||
				!slices.Equal(picked, again) {
				t.Fatalf("%v, then %v, %v", picked, again, err)
			}
			if rank == 0 {
				if !slices.Equal(picked, []int{0}) {
					t.Fatalf("of zero arms %v", picked)
				}
				continue
			}
			if len(picked) != rank {
				t.Fatalf("%d arms of rank %d from %v", len(picked), rank, arms)
			}
			if tolerance == 0 {
				tolerance = 1
			}
			d := len(arms[0])
			basis := mat.NewDense(d, rank, nil)
			for i, a := range picked {
				basis.SetCol(i, arms[a])
			}
			for _, x := range arms {
				var g mat.VecDense
				if err := g.SolveVec(basis, mat.NewVecDense(d, slices.Clone(x))); err != nil {
					t.Fatal(err)
				}
				var back mat.VecDense
				back.MulVec(basis, &g)
				for i, v := range x {
					if math.Abs(back.AtVec(i)-v) > 1e-7 {
						t.Fatalf("arm %v is %v from the spanner", x, back.RawVector().Data)
					}
				}
				if g := mat.Norm(&g, math.Inf(1)); g > 1+tolerance+1e-6 {
					t.Fatalf("a coefficient of %v with tolerance %v", g, tolerance)
				}
			}
		}
	}
}

func TestSpannerRefusesBadArmsAndOptions(t *testing.T) {
	good := [][]float64{{1, 0}, {0, 1}}
	for _, c := range []struct {
		name string
		arms [][]float64
		opts design.Options
		want error
	}{
		{"no arms", nil, design.Options{}, design.ErrNoArms},
		{"ragged", [][]float64{{1, 0}, {1}}, design.Options{}, design.ErrBadArm},
		{"NaN", [][]float64{{1, math.NaN()}}, design.Options{}, design.ErrBadArm},
		{"tolerance", good, design.Options{Tolerance: 2}, nil},
		{"NaN tolerance", good, design.Options{Tolerance: math.NaN()}, nil},
		{"steps", good, design.Options{MaxSteps: -1}, nil},
	} {
		if _, err := design.Spanner(c.arms, c.opts); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

package play_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/lab/learn/play"
)

// armSet draws arms with duplicates, zeros and linear dependencies, and its rank by an independent computation.
func armSet(rng *rand.Rand) (arms [][]float64, rank int) {
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
		arms, rank := armSet(rng)
		for _, factor := range []float64{1, 2} {
			picked := play.BarycentricSpanner(arms, factor)
			if again := play.BarycentricSpanner(arms, factor); !slices.Equal(picked, again) {
				t.Fatalf("%v, then %v", picked, again)
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
				if g := mat.Norm(&g, math.Inf(1)); g > factor+1e-6 {
					t.Fatalf("a coefficient of %v at factor %v", g, factor)
				}
			}
		}
	}
}

// Propensities are the frequencies, with and without exploitation. 40 000 draws have a standard error of at most
// 0.0025; the limit of 4.5 of them is passed by chance less than once in 10 000 tests.
func TestPropensitiesOfSpannerPlay(t *testing.T) {
	arms := [][]float64{{1, 0}, {0.2, 0.2}, {0, 1}, {0.1, 0}}
	for _, p := range []play.Spanner{{}, {Exploit: 0.3, Score: func(x []float64) float64 { return x[0] }},
		{Exploit: 0.3, Score: func(x []float64) float64 { return -x[0] - x[1] }}} {
		src, count, propensity := rand.NewChaCha8([32]byte{3}), map[int]float64{}, map[int]float64{}
		const draws = 40_000
		for range draws {
			c, err := p.Decide(arms, src)
			if err != nil {
				t.Fatal(err)
			}
			count[c.Arm]++
			propensity[c.Arm] = c.Propensity
		}
		sum := 0.0
		for a, n := range count {
			sum += propensity[a]
			if math.Abs(n/draws-propensity[a]) > 0.0115 {
				t.Errorf("arm %d with propensity %v in a share %v", a, propensity[a], n/draws)
			}
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("propensities sum to %v", sum)
		}
	}
}

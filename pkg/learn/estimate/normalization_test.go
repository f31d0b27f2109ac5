package estimate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// normalizer is E[U x x' U/||U x||] + lambda U, whose distance from I is what Eq. (2) bounds.
func normalizer(sorts []sort, u *mat.SymDense, lambda float64) *mat.SymDense {
	d := u.SymmetricDim()
	out := mat.NewSymDense(d, nil)
	out.ScaleSym(lambda, u)
	for _, s := range sorts {
		var v mat.VecDense
		v.MulVec(u, mat.NewVecDense(d, append([]float64(nil), s.x...)))
		if n := mat.Norm(&v, 2); n > 0 {
			out.SymRankOne(out, s.share/n, &v)
		}
	}
	return out
}

func extremes(t *testing.T, m *mat.SymDense) (least, most float64) {
	t.Helper()
	values, _, err := convex.Spectrum(m)
	if err != nil {
		t.Fatal(err)
	}
	return values[0], values[len(values)-1]
}

func constant(lambda float64) estimate.Schedule {
	return func(int, int, float64) float64 { return lambda }
}

func fixedPoint(t *testing.T, sorts []sort, lambda float64, steps int) estimate.Normalization {
	t.Helper()
	c := newCrowd(t, sorts, false, math.Inf(1), 1)
	c.exact = true
	n, err := estimate.Normalize(len(sorts[0].x), 100*steps, steps, constant(lambda), math.Sqrt2, nil, c.ask)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// randomSorts are arms of random scales along the axes, up to norm 1.
func randomSorts(rng *rand.Rand, d, k int) []sort {
	xs := make([][]float64, k)
	for i := range xs {
		xs[i] = unit(rng, d)
		length := rng.Float64()
		for j := range xs[i] {
			xs[i][j] *= length * math.Pow(0.4, float64(j))
		}
	}
	return linearSorts(xs, nil, make([]float64, d))
}

func unit(rng *rand.Rand, d int) []float64 {
	x := make([]float64, d)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	n := convex.Norm(x)
	for i := range x {
		x[i] /= n
	}
	return x
}

// Without noise the iteration ends at the fixed points that can be computed by hand, and is equivariant.
func TestNormalizationsFixedPoint(t *testing.T) {
	one := linearSorts([][]float64{{0.8}, {-0.1}, {0}}, nil, []float64{0})
	if n := fixedPoint(t, one, 0.01, 30); math.Abs(n.U.At(0, 0)-1/(0.3+0.01)) > 1e-8 {
		t.Errorf("in dimension 1: %v", n.U.At(0, 0))
	}
	rare := linearSorts([][]float64{{1, 0}, {0, 1}}, []float64{0.99, 0.01}, []float64{0, 0})
	n := fixedPoint(t, rare, 1e-3, 36)
	if math.Abs(n.U.At(0, 0)-1/0.991) > 1e-7 || math.Abs(n.U.At(1, 1)-1/0.011) > 1e-7 || math.Abs(n.U.At(0, 1)) > 1e-7 {
		t.Errorf("of a rare direction: %v", mat.Formatted(n.U))
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 3 {
		d, lambda := 2+rng.IntN(4), math.Pow(10, -1-2*rng.Float64())
		sorts := randomSorts(rng, d, 40)
		n := fixedPoint(t, sorts, lambda, 30)
		trace := lambda * mat.Trace(n.U)
		for _, s := range sorts {
			trace += s.share * n.Norm(s.x)
		}
		if math.Abs(trace-float64(d)) > 1e-7 {
			t.Errorf("E ||Ux|| + lambda tr U is %v in dimension %d", trace, d)
		}
		before, after := 0.0, 0.0 // log-eigenvalues at least halve in each step
		for k := range 6 {
			low, high := extremes(t, normalizer(sorts, fixedPoint(t, sorts, lambda, k+1).U, lambda))
			after = math.Max(-math.Log(low), math.Log(high))
			if k > 0 && after > before/2+1e-9 {
				t.Errorf("step %d: the largest log-eigenvalue is %v after %v", k, after, before)
			}
			before = after
		}
		reflect := func(x []float64) []float64 { // in the hyperplane orthogonal to (1, .., 1)
			mean := 0.0
			for _, v := range x {
				mean += v / float64(d)
			}
			out := make([]float64, d)
			for i, v := range x {
				out[i] = v - 2*mean
			}
			return out
		}
		turned := make([]sort, len(sorts))
		for i, s := range sorts {
			turned[i] = sort{x: reflect(s.x), share: s.share}
		}
		other := fixedPoint(t, turned, lambda, 30)
		for _, s := range sorts {
			if a, b := n.Norm(s.x), other.Norm(reflect(s.x)); math.Abs(a-b) > 1e-8*a {
				t.Errorf("||Ux|| is %v, and of turned data %v", a, b)
			}
		}
	}
}

// scaled is the instance of 300 unit vectors, in dimension 5, with very different lengths along the axes.
func scaled(theta []float64) []sort {
	rng, scales := rand.New(rand.NewPCG(9, 9)), []float64{1, 0.5, 0.2, 0.1, 0.05}
	xs := make([][]float64, 300)
	for i := range xs {
		xs[i] = unit(rng, 5)
		for j := range xs[i] {
			xs[i][j] *= scales[j]
		}
	}
	return linearSorts(xs, nil, theta)
}

// With noise Eq. (2) holds with the default lambda: jointly private at 10^4 people, locally at 10^7, epsilon 1. A wrong
// exponent, no guard against negative eigenvalues or no lambda leave these limits.
func TestNormalizationWithNoise(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	sorts := scaled(make([]float64, 5))
	for _, c := range []struct {
		local  bool
		people int
	}{{false, 1e4}, {true, 1e7}} {
		low, high := math.Inf(1), 0.0
		for seed := range uint64(10) {
			crowd := newCrowd(t, sorts, c.local, 1, seed)
			schedule := estimate.NoiseSchedule(0.5, 5, 5, 2*c.people, 0.05)
			n, err := estimate.Normalize(5, c.people, 5, schedule, math.Sqrt2, nil, crowd.ask)
			if err != nil {
				t.Fatal(err)
			}
			a, b := extremes(t, normalizer(sorts, n.U, n.Lambda))
			low, high = math.Min(low, a), math.Max(high, b)
		}
		t.Logf("local %v: eigenvalues in [%.3f, %.3f]", c.local, low, high)
		if low < 0.5 || high > 2 {
			t.Errorf("local %v: eigenvalues in [%v, %v] leave [1/2, 2]", c.local, low, high)
		}
	}
}

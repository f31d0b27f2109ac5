package bandit

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

func lucbSetting(epsilon, delta float64) learn.Setting {
	return learn.Setting{Family: family.Linear{}, Dimension: 2, Arms: 5, Horizon: 1000, Radius: 1,
		Epsilon: epsilon, Delta: delta,
		Failure: 0.01, Noise: rand.NewChaCha8([32]byte{1})}
}

// The center is the theta that minimises |theta|^2 + sum (<x, theta_t> - <x, theta>)^2, and the inverse stays one over
// 20 000 additions.
func TestCenterAndInverse(t *testing.T) {
	const n, d = 20_000, 3
	g, r := newGrowing(d, 1), rand.New(rand.NewPCG(3, 4))
	u, moments := make([]float64, d), mat.NewSymDense(d, nil)
	for i := range d {
		moments.SetSym(i, i, 1)
	}
	for range n {
		x := []float64{r.NormFloat64(), r.NormFloat64(), 0.01 * r.NormFloat64()}
		predicted := r.NormFloat64()
		if err := g.add(x); err != nil {
			t.Fatal(err)
		}
		for i, v := range x {
			u[i] += predicted * v
		}
		moments.SymRankOne(moments, 1, mat.NewVecDense(d, x))
	}
	var direct mat.VecDense
	if err := direct.SolveVec(moments, mat.NewVecDense(d, u)); err != nil {
		t.Fatal(err)
	}
	set := g.around(u, 1)
	inverse := set.Covariance.Dense(d)
	for i := range d {
		if math.Abs(set.Theta[i]-direct.AtVec(i)) > 1e-9 {
			t.Errorf("center %v, want %v", set.Theta, direct.RawVector().Data)
		}
		for j := range d {
			entry := 0.0
			for k := range d {
				entry += moments.At(i, k) * inverse.At(k, j)
			}
			if want := map[bool]float64{true: 1}[i == j]; math.Abs(entry-want) > 1e-8 {
				t.Errorf("entry %d, %d of V times its inverse is %v", i, j, entry)
			}
		}
	}
	if want := mat.LogDet; math.Abs(g.logDet-func() float64 { v, _ := want(moments); return v }()) > 1e-6 {
		t.Errorf("ln det %v", g.logDet)
	}
}

// The score of an arm is the largest inner product over the ellipsoid: none of 20 000 points of its surface has more,
// and one comes within 1 %.
func TestScoreIsTheMaximumOverTheEllipsoid(t *testing.T) {
	g, r := newGrowing(2, 1), rand.New(rand.NewPCG(5, 6))
	for range 10 {
		if err := g.add([]float64{r.NormFloat64(), 3 * r.NormFloat64()}); err != nil {
			t.Fatal(err)
		}
	}
	set := g.around([]float64{1, -2}, 1.5)
	x, best := []float64{0.6, -0.7}, math.Inf(-1)
	for i := range 20_000 {
		angle := 2 * math.Pi * float64(i) / 20_000
		v := []float64{math.Cos(angle), math.Sin(angle)}
		length := 0.0
		for a := range 2 {
			for b := range 2 {
				length += v[a] * v[b] * g.matrix.At(a, b)
			}
		}
		point := []float64{set.Theta[0] + 1.5*v[0]/math.Sqrt(length), set.Theta[1] + 1.5*v[1]/math.Sqrt(length)}
		best = max(best, convex.Dot(x, point))
	}
	if score := convex.Dot(x, set.Theta) + set.HalfWidth(x); best > score+1e-9 || best < score-1e-4 {
		t.Errorf("score %v, largest over the surface %v", score, best)
	}
}

// Half the noise of the joint bandit's tree gives more than its guarantee, and its own noise less, for the sensitivity
// of a whole stream.
func TestJointBudget(t *testing.T) {
	for _, epsilon := range []float64{0.2, 1, 10} {
		s := lucbSetting(epsilon, 1e-5)
		statistic := newLinearRecord(s).moments()
		noise, err := jointNoise(s, statistic, 1000)
		if err != nil {
			t.Fatal(err)
		}
		of := mechanism.Sensitivity{Dim: 10 * statistic.Dim(), L2: math.Sqrt(4.5 * 10)} // a leaf of 1000 is in 10 nodes
		if delta := noise.Guarantee(of).Delta(epsilon); !(delta <= 1e-5 && delta > 0.98e-5) {
			t.Errorf("epsilon %v: delta %v", epsilon, delta)
		}
		half := mechanism.Gaussian{Sigma: noise.Deviation() / 2}
		if delta := half.Guarantee(of).Delta(epsilon); delta < 5e-5 {
			t.Errorf("epsilon %v: with half the noise delta is %v", epsilon, delta)
		}
	}
}

package estimate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// objective is L_U without its regularizer.
func objective(sorts []sort, f family.Family, low float64, n estimate.Normalization, w []float64) float64 {
	theta, sum := n.Apply(nil, w), 0.0
	for _, s := range sorts {
		y := s.one + (1-s.one)*low
		sum += s.share * family.Loss(f, convex.Dot(s.x, theta), y) / n.Norm(s.x)
	}
	return sum
}

// gradientAt is the statistic of the descent at theta.
func gradientAt(t *testing.T, n estimate.Normalization, f family.Family, theta []float64) learn.Statistic {
	t.Helper()
	s, err := n.Statistic(statistic.ReweightedGradient, f, theta)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func expected(sorts []sort, low float64, s learn.Statistic) []float64 {
	mean := make([]float64, s.Dim())
	for _, k := range sorts {
		for i, y := range []float64{1, low} {
			for j, v := range s.Vector(nil, learn.Record{Arm: k.x, Reward: y}) {
				mean[j] += k.share * []float64{k.one, 1 - k.one}[i] * v
			}
		}
	}
	return mean
}

// The statistic's mean is the gradient of the objective, by central differences; and under an exact normalization the
// Hessian, with the regularizer's, is between mu/2 and 2 L.
func TestReweightedGradientAndHessian(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for _, family := range []family.Family{family.Linear{}, family.Logistic{}} {
		for range 5 {
			d, lambda := 2+rng.IntN(3), 0.01
			sorts := randomSorts(rng, d, 30)
			for i := range sorts {
				sorts[i].one = rng.Float64()
			}
			n := fixedPoint(t, sorts, lambda, 12)
			w, low := make([]float64, d), family.MinReward()
			for i := range w {
				w[i] = 0.02 * rng.NormFloat64()
			}
			gradient := func(w []float64) []float64 {
				return expected(sorts, low, gradientAt(t, n, family, n.Apply(nil, w)))
			}
			g, hessian := gradient(w), mat.NewSymDense(d, nil)
			const h = 1e-5
			for i := range w {
				up, down := append([]float64(nil), w...), append([]float64(nil), w...)
				up[i], down[i] = up[i]+h, down[i]-h
				slope := (objective(sorts, family, low, n, up) - objective(sorts, family, low, n, down)) / (2 * h)
				if math.Abs(slope-g[i]) > 1e-6 {
					t.Errorf("%s: the gradient's coordinate %d is %v, by differences %v", family.Name(), i, g[i], slope)
				}
				a, b := gradient(up), gradient(down)
				for j := range w {
					hessian.SetSym(i, j, (a[j]-b[j])/(2*h))
				}
			}
			mu, most := family.Variance(1), family.MaxVariance(1)
			hessian.AddSym(hessian, scaledBy(mu*lambda, n.U))
			if least, largest := extremes(t, hessian); least < mu/2 || largest > 2*most {
				t.Errorf("%s: eigenvalues of the Hessian in [%v, %v]", family.Name(), least, largest)
			}
		}
	}
}

func scaledBy(f float64, m *mat.SymDense) *mat.SymDense {
	out := mat.NewSymDense(m.SymmetricDim(), nil)
	out.ScaleSym(f, m)
	return out
}

// Without noise the descent comes within 4 lambda of U^-1 theta* (Lemma 4.1), by either step and from any start, and
// one who gets the regularizer's factor or the projection wrong does not.
func TestDescentWithoutNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for range 5 {
		d, lambda := 2+rng.IntN(3), 0.02
		theta := unit(rng, d)
		base := randomSorts(rng, d, 30)
		xs := make([][]float64, len(base))
		for i, s := range base {
			xs[i] = s.x
		}
		sorts := linearSorts(xs, nil, theta)
		n := fixedPoint(t, sorts, lambda, 12)
		link, err := estimate.NewLink(linearSetting(d, 100, 1))
		if err != nil {
			t.Fatal(err)
		}
		var inverse mat.Dense
		if err := inverse.Inverse(n.U); err != nil {
			t.Fatal(err)
		}
		for _, start := range [][]float64{nil, unit(rng, d)} {
			for _, step := range []func(int) float64{estimate.ConstantStep(link), estimate.AveragingStep(link)} {
				c := newCrowd(t, sorts, false, math.Inf(1), 1)
				c.exact = true
				descent := estimate.Descent{Normalization: n, Batches: 150, Step: step, Start: start}
				got, deviation, err := descent.Run(link, 1500, c.ask)
				if err != nil {
					t.Fatal(err)
				}
				var gap mat.VecDense
				diff := mat.NewVecDense(d, nil)
				for i := range theta {
					diff.SetVec(i, got[i]-theta[i])
				}
				gap.MulVec(&inverse, diff)
				if mat.Norm(&gap, 2) > 4*lambda+1e-3 || deviation != 0 {
					t.Errorf("||w - w*|| is %v, 4 lambda is %v", mat.Norm(&gap, 2), 4*lambda)
				}
				if convex.Norm(got) > 1+1e-9 {
					t.Errorf("||theta|| is %v", convex.Norm(got))
				}
			}
		}
	}
}

// The descent ends where the gradient of the objective with its regularizer is zero, which is not where the gradient of
// the data's part is.
func TestDescentsEnd(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 42))
	base := randomSorts(rng, 3, 30)
	xs := make([][]float64, len(base))
	for i, s := range base {
		xs[i] = s.x
	}
	sorts, lambda := linearSorts(xs, nil, []float64{0.4, 0.3, -0.2}), 0.05
	n := fixedPoint(t, sorts, lambda, 12)
	link, err := estimate.NewLink(linearSetting(3, 100, 1))
	if err != nil {
		t.Fatal(err)
	}
	c := newCrowd(t, sorts, false, math.Inf(1), 1)
	c.exact = true
	descent := estimate.Descent{Normalization: n, Batches: 200, Step: estimate.ConstantStep(link)}
	theta, _, err := descent.Run(link, 2000, c.ask)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range expected(sorts, -1, gradientAt(t, n, family.Linear{}, theta)) {
		if math.Abs(g+lambda*theta[i]) > 1e-9 || math.Abs(g) < 1e-3 {
			t.Errorf("coordinate %d: the gradient is %v, lambda theta %v", i, g, lambda*theta[i])
		}
	}
}

// However large the noise, every point of the descent is in the ball, and the matrix is finite and positive definite.
func TestReweightingInMuchNoise(t *testing.T) {
	sorts := caseTwo(1000)
	for seed := range uint64(20) {
		c := newCrowd(t, sorts, true, 0.5, seed)
		n, err := estimate.Normalize(2, 1000, 5, estimate.NoiseSchedule(0.02, 2, 5, 1000, 0.05), math.Sqrt2, nil, c.ask)
		if err != nil {
			t.Fatal(err)
		}
		least, most := extremes(t, n.U)
		if !(least > 1e-3*most) || !convex.IsFinite(most) {
			t.Errorf("eigenvalues in [%v, %v]", least, most)
		}
		link, err := estimate.NewLink(linearSetting(2, 1000, 1))
		if err != nil {
			t.Fatal(err)
		}
		for batches := range 4 {
			theta, _, err := estimate.Descent{Normalization: n, Batches: batches + 1,
				Step: estimate.ConstantStep(link)}.
				Run(link, 1000, c.ask)
			if err != nil {
				t.Fatal(err)
			}
			if norm := convex.Norm(theta); !(norm <= 1+1e-9) {
				t.Errorf("||theta|| is %v after %d batches", norm, batches+1)
			}
		}
	}
}

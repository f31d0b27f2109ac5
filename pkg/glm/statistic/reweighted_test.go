package statistic_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// normalization is a random root of a condition up to the square root of the one given, times a scale.
func normalization(rng *rand.Rand, d int, condition, scale float64) symmetric.Packed {
	var qr mat.QR
	var q mat.Dense
	random := mat.NewDense(d, d, nil)
	random.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, random)
	qr.Factorize(random)
	qr.QTo(&q)
	m := mat.NewSymDense(d, nil)
	for j := range d {
		m.SymRankOne(m, scale*math.Pow(condition, -0.5*float64(j)/math.Max(1, float64(d-1))), q.ColView(j))
	}
	return symmetric.Pack(m)
}

func reweighted(f family.Response, root symmetric.Packed, theta []float64) []statistic.Statistic {
	var all []statistic.Statistic
	for _, k := range []statistic.Kind{statistic.Normalization, statistic.ReweightedGradient,
		statistic.ReweightedLinear} {
		all = append(all, statistic.Statistic{Kind: k, Family: f, Theta: theta, ArmDim: len(theta),
			Normalization: root})
	}
	return all
}

// For matrices of any condition and scale the bounds hold under attack, and in two dimensions or more each diameter is
// reached, that of the reweighted gradient by matrices of large condition.
func TestReweightedBoundsHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 1))
	reached := map[string]float64{}
	for _, c := range []familyCase{{"linear", 1}, {"logistic", 1}, {"poisson", 5}} {
		f := c.build(t)
		for _, d := range []int{1, 2, 3, 5} {
			for _, condition := range []float64{1, 100, 1e12} {
				root := normalization(rng, d, condition, math.Pow(10, 6*rng.Float64()-3))
				for _, s := range reweighted(f, root, theta(rng, d, 2*rng.Float64())) {
					broken, dist, _ := attack(t, s, bounds(t, s), rng.Uint64(), 400)
					if broken != "" {
						t.Errorf("%v %s d=%d condition %v: %s", c, s.Kind, d, condition, broken)
					}
					if name := fmt.Sprint(c, s.Kind, d); d > 1 {
						reached[name] = math.Max(reached[name], dist)
					}
				}
			}
		}
	}
	for name, share := range reached {
		t.Logf("%s: %.3f of the diameter", name, share)
		if share < 0.93 {
			t.Errorf("%s: the attack reaches only %.3f of the diameter", name, share)
		}
	}
}

// The bounds hold where Ux is nothing but rounding error, and for entries as large and as small as there can be.
func TestReweightedBoundsHoldForAnyMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 2))
	const d = 3
	f := familyCase{"linear", 1}.build(t)
	for i := range 600 {
		root := normalization(rng, d, 1e16, 1e3)
		switch i % 4 {
		case 0: // indefinite
			root[0] = -root[0]
		case 1:
			for j := range root {
				root[j] = symmetric.MaxEntry * float64(rng.IntN(3)-1)
			}
		case 2:
			for j := range root {
				root[j] = math.Pow(10, -400*rng.Float64())
			}
		}
		for _, s := range reweighted(f, root, theta(rng, d, 1)) {
			b := bounds(t, s)
			for range 30 {
				u, err := s.Vector(nil, randomRecord(rng, d, -1, 1))
				if err != nil {
					t.Fatal(err)
				}
				r := randomRecord(rng, d, -1, 1)
				if rng.IntN(2) == 0 { // where the matrix is least
					r.Arm = []float64{1e-9 * rng.NormFloat64(), 0, 0}
				}
				v, err := s.Vector(nil, r)
				if err != nil {
					t.Fatal(err)
				}
				if broken := violation(b, u, v); broken != "" {
					t.Fatalf("%s of %v: %s", s.Kind, root, broken)
				}
			}
		}
	}
}

// Where rounding makes |Ux| too small, as along the eigenvectors of the least eigenvalue, a normalization's vector is
// no longer than it can be.
func TestNormalizationsOfIllConditionedMatricesAreNoLonger(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 6))
	const d = 3
	for range 4000 {
		root := normalization(rng, d, math.Pow(10, 13+3*rng.Float64()), 1e6)
		_, basis, err := convex.Spectrum(root.Dense(d))
		if err != nil {
			t.Fatal(err)
		}
		s := reweighted(nil, root, make([]float64, d))[0]
		v, err := s.Vector(nil, statistic.Record{Arm: mat.Col(nil, 0, basis)})
		if err != nil {
			t.Fatal(err)
		}
		if n := convex.Norm(v); n > 1+1e-14 {
			t.Fatalf("a vector has the norm 1 + %v", n-1)
		}
	}
}

// The vectors are those of their definitions, by products of dense matrices.
func TestReweightedVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 3))
	const d = 4
	f := familyCase{"linear", 1}.build(t)
	for range 100 {
		root, at := normalization(rng, d, 1e3, 2), theta(rng, d, 1.5)
		r := randomRecord(rng, d, -1, 1)
		r.Arm = scaled(randomDirection(rng, d), rng.Float64())
		var y, ux mat.VecDense
		y.MulVec(root.Dense(d), mat.NewVecDense(d, r.Arm))
		ux.MulVec(root.Dense(d), &y)
		length := mat.Norm(&ux, 2)
		z := mat.Dot(mat.NewVecDense(d, r.Arm), mat.NewVecDense(d, at))
		var gradient, linear []float64
		for i := range d {
			gradient = append(gradient, ux.AtVec(i)/length*(z-r.Reward))
			linear = append(linear, ux.AtVec(i)/length*r.Reward)
		}
		for i := range d {
			linear = append(linear, scaled(r.Arm, ux.AtVec(i)/length)...)
		}
		linear = symmetric.AppendOuter(linear, 1/length/length, ux.RawVector().Data, math.Sqrt2)
		for i, want := range [][]float64{symmetric.AppendOuter(nil, 1/length, y.RawVector().Data, math.Sqrt2), gradient,
			linear} {
			s := reweighted(f, root, at)[i]
			got, err := s.Vector(nil, r)
			if err != nil || len(got) != s.Dim() || len(got) != len(want) {
				t.Fatalf("%s has %d numbers, not %d: %v", s.Kind, len(got), len(want), err)
			}
			for j, v := range want {
				near(t, string(s.Kind), got[j], v, 1e-12)
			}
		}
	}
}

// A clipped gradient is bounded at every point, and tightly in two dimensions or more, with the prediction of a linear
// model clipped to [-2, 2].
func TestClippedBoundsHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 4))
	for _, c := range []familyCase{{"linear", 1}, {"logistic", 1}, {"poisson", 5}} {
		f := c.build(t)
		for _, d := range []int{1, 2, 3, 5} {
			for _, size := range []float64{0, 0.5, 1, 3, 5, 1e4} {
				s := statistic.Statistic{Kind: statistic.ClippedGradient, Family: f, Theta: theta(rng, d, size),
					ArmDim: d}
				b := bounds(t, s)
				broken, dist, spread := attack(t, s, b, rng.Uint64(), 1000)
				if broken != "" {
					t.Errorf("%v d=%d |theta|=%v: %s", c, d, size, broken)
				}
				if dist < 0.93 || spread < 0.75 {
					t.Errorf("%v d=%d |theta|=%v: the attack reaches only %.3f of the diameter, %.3f of a range", c, d,
						size, dist, spread)
				}
			}
		}
	}
	far := statistic.Statistic{Kind: statistic.ClippedGradient, Family: family.Linear{}, Theta: []float64{40, 0},
		ArmDim: 2}
	for _, r := range []struct{ arm, reward, want float64 }{{1, -1, 3}, {-1, 1, 3}, {0.01, 1, -0.006}} {
		v, err := far.Vector(nil, statistic.Record{Arm: []float64{r.arm, 0}, Reward: r.reward})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "clipped gradient", v[0], r.want, 1e-12)
	}
}

// Where nothing is clipped a clipped gradient is a gradient, and so are its bounds.
func TestClippedBoundsAreThoseOfGradients(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 5))
	for _, size := range []float64{0, 0.5, 1, 2} {
		s := statistic.Statistic{Kind: statistic.ClippedGradient, Family: family.Linear{}, Theta: theta(rng, 3, size),
			ArmDim: 3}
		g := s
		g.Kind = statistic.Gradient
		near(t, fmt.Sprint("diameter at |theta| = ", size), bounds(t, s).Diameter/bounds(t, g).Diameter, 1, 2e-3)
	}
}

// What a device must be told is checked.
func TestReweightedStatisticsAreChecked(t *testing.T) {
	good := statistic.Statistic{Kind: statistic.ReweightedGradient, Family: family.Linear{}, Theta: []float64{0, 0},
		ArmDim: 2, Normalization: symmetric.Packed{1, 0, 1}}
	for name, change := range map[string]func(*statistic.Statistic){
		"no matrix":    func(s *statistic.Statistic) { s.Normalization = nil },
		"a small one":  func(s *statistic.Statistic) { s.Normalization = symmetric.Packed{1} },
		"not a number": func(s *statistic.Statistic) { s.Normalization = symmetric.Packed{1, math.NaN(), 1} },
		"infinite":     func(s *statistic.Statistic) { s.Normalization = symmetric.Packed{1, 0, math.Inf(1)} },
		"no point":     func(s *statistic.Statistic) { s.Theta = nil },
		"a far point":  func(s *statistic.Statistic) { s.Theta = []float64{60, 0} },
		"no family":    func(s *statistic.Statistic) { s.Family = nil },
	} {
		bad := good
		change(&bad)
		if good.Validate() != nil || bad.Validate() == nil {
			t.Errorf("%s is valid, or the good one is not", name)
		}
	}
}

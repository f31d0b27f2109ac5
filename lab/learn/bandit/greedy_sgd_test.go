package bandit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

func sgdSetting(f family.Family) learn.Setting {
	return learn.Setting{Family: f, Dimension: 3, Horizon: 6000, Radius: 1, Epsilon: 1, Delta: 1e-6, Failure: 0.01}
}

// The gradient stays within its bounds for every pair of records, in range or not, and comes close to its diameter; one
// of half the size is broken, so noise made for half the diameter would be caught.
func TestGreedySGDGradientStaysInItsBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	poisson, err := family.New("poisson", 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []family.Family{family.Logistic{}, family.Linear{}, poisson} {
		far := 0.0
		var most float64
		for range 3000 {
			theta, record := make([]float64, 3), func() learn.Record {
				x := make([]float64, 3)
				for i := range x {
					x[i] = 1.5 * rng.NormFloat64()
				}
				return learn.Record{Arm: x, Reward: 6 * rng.NormFloat64()}
			}
			for i := range theta {
				theta[i] = rng.Float64() / math.Sqrt(3)
			}
			g := sgdGradient(sgdSetting(f), theta)
			most = g.Diameter
			a := record()
			b := record()
			if rng.IntN(2) == 0 { // the other side of the ball
				for i, v := range a.Arm {
					b.Arm[i] = -v
				}
			}
			u, v := g.Vector(nil, a), g.Vector(nil, b)
			sum := 0.0
			for i := range u {
				sum += (u[i] - v[i]) * (u[i] - v[i])
				if u[i] < g.Lower[i] || u[i] > g.Upper[i] {
					t.Fatalf("%s: coordinate %v outside [%v, %v]", f.Name(), u[i], g.Lower[i], g.Upper[i])
				}
			}
			if far = math.Max(far, math.Sqrt(sum)); far > g.Diameter {
				t.Fatalf("%s: %v above the diameter %v", f.Name(), far, g.Diameter)
			}
		}
		if far < 0.6*most {
			t.Errorf("%s: the attack reaches %v of %v", f.Name(), far, most)
		}
	}
}

// Every person answers one question of one statistic; noise made for its diameter at the budget's rho gives exactly the
// guarantee, and half of it does not.
func TestGreedySGDSpendsItsBudget(t *testing.T) {
	s := sgdSetting(family.Logistic{})
	g := sgdGradient(s, make([]float64, 3))
	rho, err := mechanism.Budget(s.Epsilon, s.Delta)
	if err != nil {
		t.Fatal(err)
	}
	moved := mechanism.Sensitivity{Dim: g.Dim(), L2: g.Diameter}
	noise, err := mechanism.ForRho(moved, rho)
	if err != nil {
		t.Fatal(err)
	}
	if epsilon := noise.Guarantee(moved).Epsilon(s.Delta); !(epsilon <= s.Epsilon) || epsilon < 0.9*s.Epsilon {
		t.Errorf("epsilon %v of %v", epsilon, s.Epsilon)
	}
	half := mechanism.Gaussian{Sigma: noise.Deviation() / 2}
	if epsilon := half.Guarantee(moved).Epsilon(s.Delta); epsilon <= s.Epsilon {
		t.Errorf("half the noise: epsilon %v", epsilon)
	}
}

// Without noise it learns where contexts explore by themselves: logistic, three dimensions, 6000 people. The regret of
// the second half is below a quarter of uniform play's; a step in the wrong direction, or none, is above half.
func TestGreedySGDLearns(t *testing.T) {
	s := sgdSetting(family.Logistic{})
	s.Radius = 3
	src := rand.NewChaCha8([32]byte{9})
	env, err := family.NewBallEnvironment(s.Family, 3, 6, 3, src)
	if err != nil {
		t.Fatal(err)
	}
	l, err := GreedySGD(s)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lost, uniform := 0.0, 0.0
	for n := 0; ; n++ {
		step := l.Next()
		if step.Done {
			break
		}
		arms := env.Draw(src)
		c, err := step.Policy.Decide(arms, src)
		if err != nil {
			t.Fatal(err)
		}
		means, best, all := env.Means(arms), 0.0, 0.0
		for _, m := range means {
			best, all = math.Max(best, m), all+m/float64(len(means))
		}
		if n >= s.Horizon/2 {
			lost, uniform = lost+best-means[c.Arm], uniform+best-all
		}
		g := step.Question.Statistics[0]
		v := g.Vector(nil, learn.Record{Arm: arms[c.Arm], Reward: env.Reward(arms[c.Arm], src)})
		err = l.Absorb(learn.Answer{People: 1, Sums: []learn.Sum{{Values: v, Variance: make([]float64, len(v))}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if lost > uniform/4 {
		t.Errorf("regret %v, of uniform play %v", lost, uniform)
	}
	if _, err := GreedySGD(learn.Setting{Family: s.Family, Dimension: 3, Horizon: 10, Radius: 1, Epsilon: 1,
		Failure: 0.1, Options: map[string]float64{"curvature": -1}}); err == nil {
		t.Error("a negative curvature is taken")
	}
	if convex.Norm(env.Theta) < 2.9 {
		t.Error("the environment changed")
	}
}

// Records that are no numbers, or of another dimension, give finite gradients of the right length within the bounds.
func TestGreedySGDGradientOfBrokenRecords(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1.7e308, -1.7e308}
	g := sgdGradient(sgdSetting(family.Logistic{}), []float64{0.5, -0.5, 0.5})
	records := []learn.Record{{}, {Arm: []float64{1}}, {Arm: []float64{1, 0, 0, 0}, Reward: 1}}
	for _, v := range bad {
		records = append(records, learn.Record{Arm: []float64{1, 0, 0}, Reward: v},
			learn.Record{Arm: []float64{v, v, 0}, Reward: v}, learn.Record{Arm: []float64{0, v, 0}, Reward: 1})
	}
	for _, r := range records {
		v := g.Vector(nil, r)
		if len(v) != g.Dim() {
			t.Fatalf("%+v gives %v", r, v)
		}
		for i, x := range v {
			if !(x >= g.Lower[i] && x <= g.Upper[i]) {
				t.Fatalf("%+v gives %v, outside [%v, %v]", r, v, g.Lower[i], g.Upper[i])
			}
		}
	}
}

package population_test

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/internal/lab/population"
)

func synthetic(t testing.TB, o population.SyntheticOptions) *population.Population {
	t.Helper()
	p, err := population.Synthetic(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSyntheticDefaults(t *testing.T) {
	o := population.SyntheticOptions{Seed: 1, Holdout: 0.2}
	p := synthetic(t, o)
	info := p.Info()
	if info.People != 5000 || info.HeldOut != 1250 || info.Dim != 5 || info.Arms != 10 || info.NormBound != 3 || info.Labelled || info.Family != "logistic" || info.MaxReward != 1 {
		t.Errorf("info %+v", info)
	}
	theta, err := population.SyntheticParameter(o)
	if err != nil || !near(norm(theta), 3, 1e-12) {
		t.Errorf("parameter %v of norm %v, %v", theta, norm(theta), err)
	}
	people := collect(t, p, false)
	radius := 0.0
	for _, x := range people {
		if len(x.Arms) != 10 || len(x.Means) != 10 || len(x.Rewards) != 10 {
			t.Fatalf("person %+v", x)
		}
		for a, arm := range x.Arms {
			if norm(arm) > 1 {
				t.Fatalf("arm %v of norm %v", arm, norm(arm))
			}
			radius += norm(arm)
			z := 0.0
			for i := range arm {
				z += arm[i] * theta[i]
			}
			if !near(x.Means[a], 1/(1+math.Exp(-z)), 1e-12) || (x.Rewards[a] != 0 && x.Rewards[a] != 1) {
				t.Fatalf("arm %d: mean %v, reward %v, score %v", a, x.Means[a], x.Rewards[a], z)
			}
		}
	}
	// The mean radius of a uniform point of the 5-ball is 5/6, its standard deviation sqrt(5/252) = 0.141; over 50000 points 6
	// standard errors are 0.0038. Points on the sphere or in the cube would be at least 0.1 away.
	if r := radius / 50000; !near(r, 5.0/6, 0.0038) {
		t.Errorf("mean radius %v, want 5/6", r)
	}
}

// The regret of uniform play per person at d = 5, K = 10, norm 3 is 0.335 in independent exploratory runs (1675 +- 3 over 5000
// people, 6694 +- 9 over 20000). One run of 20000 people has a standard error of 0.0012.
func TestSyntheticUniformRegret(t *testing.T) {
	p := synthetic(t, population.SyntheticOptions{Users: 20000, Seed: 11})
	theta, err := population.SyntheticParameter(population.SyntheticOptions{Users: 20000, Seed: 11})
	if err != nil {
		t.Fatal(err)
	}
	c, err := population.Regrets(p.People(), 50, population.Uniform(), population.Greedy(theta), population.Constant(4))
	if err != nil {
		t.Fatal(err)
	}
	if u := c[0].Total() / 20000; !near(u, 0.335, 0.006) {
		t.Errorf("uniform play: regret %v per person, want 0.335", u)
	}
	if g := c[1].Total(); g != 0 {
		t.Errorf("knowing the parameter: regret %v, want 0", g)
	}
	if k := c[2].Total() / 20000; !near(k, 0.335, 0.012) {
		t.Errorf("a constant arm among exchangeable arms: regret %v per person, want 0.335", k)
	}
}

func TestSyntheticIsDeterministicInItsSeed(t *testing.T) {
	o := population.SyntheticOptions{Users: 200, Seed: 5, Holdout: 0.5}
	a := synthetic(t, o)
	people := collect(t, a, false)
	if !equal(people, collect(t, a, false)) || !equal(people, collect(t, synthetic(t, o), false)) {
		t.Error("two passes with one seed differ")
	}
	if equal(people, collect(t, a, true)) {
		t.Error("the people held out are the people decided for")
	}
	o.Users = 50
	if !equal(people[:50], collect(t, synthetic(t, o), false)) {
		t.Error("fewer users must be the first of the same people")
	}
	o.Seed = 6
	if equal(people[:50], collect(t, synthetic(t, o), false)) {
		t.Error("two seeds give the same people")
	}
}

// Rewards have the means that the family states. Each family's mean reward less the mean of the true means, over 20000 draws, is
// within 5.5 standard errors (a false-alarm rate of 2e-7 over five families); a clipped Poisson or Gaussian in place of the
// conditioned one would miss by more than 0.02, ten standard errors.
func TestRewardsHaveTheirMeans(t *testing.T) {
	for _, c := range []struct {
		family string
		max    float64
	}{{"logistic", 1}, {"probit", 1}, {"poisson", 5}, {"gaussian", 1}, {"gaussian", 4}} {
		p := synthetic(t, population.SyntheticOptions{Users: 2000, Seed: 21, Family: c.family, MaxReward: c.max})
		diff, square, n := 0.0, 0.0, 0.0
		for _, x := range collect(t, p, false) {
			for a, r := range x.Rewards {
				if !(r >= 0 && r <= c.max) {
					t.Fatalf("%s: reward %v outside [0, %v]", c.family, r, c.max)
				}
				e := r - x.Means[a]
				diff, square, n = diff+e, square+e*e, n+1
			}
		}
		if tol := 5.5 * math.Sqrt(square) / n; math.Abs(diff/n) > tol {
			t.Errorf("%s on [0, %v]: rewards are off their means by %v, tolerance %v", c.family, c.max, diff/n, tol)
		}
	}
}

func TestSyntheticFixedArms(t *testing.T) {
	people := collect(t, synthetic(t, population.SyntheticOptions{Users: 3, FixedArms: true}), false)
	people[0].Arms[0][0] = 9
	for a := range people[1].Arms {
		for i, v := range people[1].Arms[a] {
			if v != people[2].Arms[a][i] {
				t.Fatal("fixed arms differ between people")
			}
			if v == 9 {
				t.Fatal("people share an arm's memory")
			}
		}
	}
}

func TestSyntheticRefuses(t *testing.T) {
	for name, o := range map[string]population.SyntheticOptions{
		"users":     {Users: -1},
		"dimension": {Dim: -5},
		"arms":      {Arms: -5},
		"norm":      {Norm: math.NaN()},
		"infinite":  {Norm: math.Inf(1)},
		"family":    {Family: "cauchy"},
		"reward":    {MaxReward: 2},
		"holdout":   {Holdout: 1},
	} {
		if _, err := population.Synthetic(o); !errors.Is(err, population.ErrOption) {
			t.Errorf("%s: %v, want ErrOption", name, err)
		}
	}
}

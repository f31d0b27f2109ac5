package population_test

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
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
	o := population.SyntheticOptions{Seed: 1}
	p := synthetic(t, o)
	info := p.Info()
	want := population.Info{
		Name: "synthetic", People: 5000, Dim: 5, Arms: 10, NormBound: 3, Family: "logistic", MaxReward: 1,
	}
	if !reflect.DeepEqual(info, want) {
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
	// The mean radius of a uniform point of the 5-ball is 5/6, its standard deviation sqrt(5/252) = 0.141; over 50000
	// points 6 standard errors are 0.0038. Points on the sphere or in the cube would be at least 0.1 away.
	if r := radius / 50000; !near(r, 5.0/6, 0.0038) {
		t.Errorf("mean radius %v, want 5/6", r)
	}
}

// The regret of uniform play per person at d = 5, K = 10, norm 3 is 0.335 in independent exploratory runs (1675 +- 3
// over 5000 people, 6694 +- 9 over 20000). One run of 20000 people has a standard error of 0.0012.
func TestUniformPlayHasItsKnownRegret(t *testing.T) {
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
	o := population.SyntheticOptions{Users: 200, Seed: 5}
	a := synthetic(t, o)
	people := collect(t, a, false)
	if !equal(people, collect(t, a, false)) || !equal(people, collect(t, synthetic(t, o), false)) {
		t.Error("two passes with one seed differ")
	}
	if held := collect(t, a, true); len(held) > 0 {
		t.Errorf("%d people are held out", len(held))
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

// Rewards have the means that are stated: over 20000 draws the difference of the averages is within 5.5 standard errors
// (a false-alarm rate of 4e-8).
func TestSyntheticRewardsHaveTheirMeans(t *testing.T) {
	diff, square, n := 0.0, 0.0, 0.0
	for _, x := range collect(t, synthetic(t, population.SyntheticOptions{Users: 2000, Seed: 21}), false) {
		for a, r := range x.Rewards {
			e := r - x.Means[a]
			diff, square, n = diff+e, square+e*e, n+1
		}
	}
	if tol := 5.5 * math.Sqrt(square) / n; math.Abs(diff/n) > tol {
		t.Errorf("rewards are off their means by %v, tolerance %v", diff/n, tol)
	}
}

func TestSyntheticRefusesBadOptions(t *testing.T) {
	for name, o := range map[string]population.SyntheticOptions{
		"users":     {Users: -1},
		"dimension": {Dim: -5},
		"arms":      {Arms: -5},
		"norm":      {Norm: math.NaN()},
		"infinite":  {Norm: math.Inf(1)},
	} {
		if _, err := population.Synthetic(o); !errors.Is(err, population.ErrOption) {
			t.Errorf("%s: %v, want ErrOption", name, err)
		}
	}
}

package population_test

import (
	"errors"
	"iter"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
)

// of makes a sequence of people.
func of(people ...population.Person) iter.Seq2[population.Person, error] {
	return func(yield func(population.Person, error) bool) {
		for _, p := range people {
			if !yield(p, nil) {
				return
			}
		}
	}
}

var (
	ann = population.Person{Arms: [][]float64{{1}, {0}}, Rewards: []float64{1, 0}}
	bob = population.Person{Arms: [][]float64{{-1}, {0}}, Rewards: []float64{0, 0.5}}
	// The means of cyd's arms are known, so the rewards do not count.
	cyd = population.Person{Arms: [][]float64{{1}, {0}}, Rewards: []float64{0, 1}, Means: []float64{0.8, 0.4}}
	dan = population.Person{Arms: [][]float64{{1}, {0}, {2}}, Rewards: []float64{0, 0, 1}}
)

func TestRegretsByHand(t *testing.T) {
	c, err := population.Regrets(of(ann, bob, cyd), 10, population.Uniform(), population.Constant(0),
		population.Greedy([]float64{1}),
		population.Replay([]int{1, 1, 1}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]float64{{0, 0.5, 0.75, 0.95}, {0, 0, 0.5, 0.5}, {0, 0, 0, 0}, {0, 1, 1, 1.4}} {
		for n, w := range want {
			if c[i].People[n] != float64(n) || !near(c[i].Regret[n], w, 1e-12) {
				t.Errorf("policy %d: regret %v at %v people, want %v at %d", i, c[i].Regret[n], c[i].People[n], w, n)
			}
		}
	}
}

func TestBestConstantAndValueByHand(t *testing.T) {
	arm, value, err := population.BestConstant(of(ann, bob, cyd, dan))
	if err != nil || arm != 0 || !near(value, 1.8/4, 1e-12) { // arm 2 would earn more from dan, but only dan has it
		t.Errorf("arm %d, value %v, %v; want arm 0 of value 0.45", arm, value, err)
	}
	if arm, value, err := population.BestConstant(of(dan, ann)); err != nil || arm != 0 || value != 0.5 {
		t.Errorf("the person with most arms first: arm %d, value %v, %v", arm, value, err)
	}
	v, err := population.Value(of(ann, bob, cyd, dan), population.Greedy([]float64{1}))
	if err != nil || !near(v, (1+0.5+0.8+1)/4, 1e-12) {
		t.Errorf("greedy value %v, %v", v, err)
	}
}

func TestScoringRefusesMissingArmsAndPeople(t *testing.T) {
	if _, err := population.Value(of(), population.Uniform()); !errors.Is(err, population.ErrEmpty) {
		t.Errorf("no people: %v", err)
	}
	if _, _, err := population.BestConstant(of()); !errors.Is(err, population.ErrEmpty) {
		t.Errorf("no people: %v", err)
	}
	for name, policy := range map[string]population.Policy{
		"arm 2": population.Constant(2), "arm -1": population.Constant(-1), "short replay": population.Replay([]int{0}),
	} {
		if _, err := population.Value(of(ann, bob), policy); !errors.Is(err, population.ErrArm) {
			t.Errorf("%s: %v, want ErrArm", name, err)
		}
	}
	if _, err := population.Value(of(ann), population.Greedy([]float64{1, 2})); !errors.Is(err, population.ErrOption) {
		t.Errorf("dimension: %v", err)
	}
	if _, err := ann.Reward(2); !errors.Is(err, population.ErrArm) {
		t.Errorf("reward of arm 2: %v", err)
	}
}

// Whatever the number of people, a curve is short, starts at 0, ends with all people and keeps the values it passes
// through.
func TestCurvesAreThinned(t *testing.T) {
	for _, n := range []int{1, 2, 7, 40, 41, 1000, 4097} {
		people := make([]population.Person, n)
		for i := range people {
			people[i] = ann
		}
		c, err := population.Regrets(of(people...), 20, population.Uniform())
		if err != nil {
			t.Fatal(err)
		}
		x := c[0].People
		if len(x) > 42 || (n > 40 && len(x) < 20) || x[0] != 0 || x[len(x)-1] != float64(n) ||
			c[0].Total() != float64(n)/2 {
			t.Errorf("%d people: %d points from %v to %v, total %v", n, len(x), x[0], x[len(x)-1], c[0].Total())
		}
		for i := range x {
			if c[0].Regret[i] != x[i]/2 || (i > 0 && x[i] <= x[i-1]) {
				t.Fatalf("%d people: regret %v at %v", n, c[0].Regret[i], x[i])
			}
		}
	}
}

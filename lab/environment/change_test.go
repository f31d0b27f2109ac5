package environment_test

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/lab/environment"
)

// peopleOf are the people of a run.
func peopleOf(t *testing.T, s environment.Spec, n int) []population.Person {
	t.Helper()
	e, err := s.Open(3, n)
	if err != nil {
		t.Fatal(err)
	}
	var out []population.Person
	for p, err := range e.People() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// A change is seen in the means of the arms: with the same people, the log odds of a person's arm turn from those of
// the first parameter by exactly the angle of the moment.
func TestParametersTurn(t *testing.T) {
	const n = 400
	spec := environment.Spec{Kind: environment.Fixed, Dimension: 2, Arms: 4, Parameter: []float64{3, 0}}
	still := peopleOf(t, spec, n)
	angles := map[string]func(share float64) float64{
		world.Abrupt: func(share float64) float64 {
			if share < 0.25 {
				return 0
			}
			return math.Pi / 2
		},
		world.Slow:     func(share float64) float64 { return math.Pi / 2 * max(0, share-0.25) / 0.75 },
		world.Seasonal: func(share float64) float64 { return math.Pi / 2 * (1 - math.Cos(4*math.Pi*share)) / 2 },
	}
	for kind, angle := range angles {
		s := spec
		s.Change = &world.Change{Kind: kind, At: 0.25}
		side := 0.0 // to which the parameter turns
		for i, p := range peopleOf(t, s, n) {
			want := angle(float64(i) / n)
			for a, x := range p.Arms {
				if x[0] != still[i].Arms[a][0] {
					t.Fatalf("%s: person %d has other arms than in a world that does not change", kind, i)
				}
				odds := math.Log(p.Means[a] / (1 - p.Means[a]))
				rest := odds - 3*math.Cos(want)*x[0]
				if side == 0 && math.Sin(want) > 0.1 {
					side = math.Copysign(1, rest*x[1])
				}
				if math.Abs(rest-side*3*math.Sin(want)*x[1]) > 1e-9 && side != 0 || side == 0 && math.Abs(rest) > 0.4 {
					t.Fatalf("%s: person %d, arm %d: log odds %v at an angle of %v", kind, i, a, odds, want)
				}
			}
		}
		if side == 0 {
			t.Errorf("%s: nothing turned", kind)
		}
	}
}

// The best of the fixed arms appears, and the best of those before goes.
func TestArmsComeAndGo(t *testing.T) {
	const n = 100
	s := environment.Spec{Kind: environment.Fixed, Arms: 6}
	all := peopleOf(t, s, n)[0]
	s.Change = &world.Change{Kind: world.Arms, At: 0.4, New: 1, Withdrawn: 2}
	people := peopleOf(t, s, n)
	for i, p := range people {
		if want := 5; i < 40 && len(p.Arms) != want {
			t.Fatalf("person %d has %d arms before, want %d", i, len(p.Arms), want)
		}
		if want := 4; i >= 40 && len(p.Arms) != want {
			t.Fatalf("person %d has %d arms after, want %d", i, len(p.Arms), want)
		}
	}
	if before, best := people[39].Best(), all.Best(); before >= best {
		t.Errorf("before, the best of all arms is there: %v", before)
	}
	if after := people[40].Best(); after != all.Best() {
		t.Errorf("after, the best arm has mean %v, that of all arms %v", after, all.Best())
	}
	before := people[39]
	for _, x := range people[40].Arms {
		for a, y := range before.Arms {
			if &x[0] == &y[0] && before.Means[a] == before.Best() {
				t.Error("the best arm of before is still there")
			}
		}
	}
}

func TestImpossibleChangesAreRefused(t *testing.T) {
	fixed := environment.Spec{Kind: environment.Fixed}
	for name, bad := range map[string]struct {
		spec   environment.Spec
		change world.Change
	}{
		"kind":        {fixed, world.Change{Kind: "sudden"}},
		"moment":      {fixed, world.Change{Kind: world.Abrupt, At: 1}},
		"turn":        {fixed, world.Change{Kind: world.Slow, Turn: 200}},
		"period":      {fixed, world.Change{Kind: world.Seasonal, Period: 2}},
		"arms":        {fixed, world.Change{Kind: world.Arms, New: 5, Withdrawn: 4}},
		"new arms":    {fixed, world.Change{Kind: world.Abrupt, New: 1}},
		"environment": {environment.Spec{Kind: environment.Rare}, world.Change{Kind: world.Abrupt}},
		"pool":        {environment.Spec{Kind: environment.Changing}, world.Change{Kind: world.Arms}},
		"census":      {environment.Spec{Kind: environment.Adult}, world.Change{Kind: world.Abrupt}},
		"dimension":   {environment.Spec{Kind: environment.Fixed, Dimension: 1}, world.Change{Kind: world.Slow}},
	} {
		bad.spec.Change = &bad.change
		if _, err := bad.spec.Open(1, 100); !errors.Is(err, environment.ErrSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

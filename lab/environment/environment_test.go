package environment_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/lab/environment"
)

func people(t testing.TB, s environment.Spec, seed uint64, n int) ([]population.Person, *environment.Environment) {
	t.Helper()
	e, err := s.Open(seed, n)
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
	return out, e
}

func norm(x []float64) float64 { return math.Sqrt(population.Dot(x, x)) }

var synthetic = []environment.Spec{
	{Kind: environment.Ball}, {Kind: environment.Fixed, Dimension: 3}, {Kind: environment.Changing,
		Arms: 4}, {Kind: environment.Rare}, {Kind: environment.TwoPoint},
	{Kind: environment.Ball, Family: "probit", Norm: 2}, {Kind: environment.Ball, Family: "poisson", MaxReward: 5,
		Norm: 1}, {Kind: environment.Ball, Family: "gaussian", Norm: 1},
	{Kind: environment.Ball, Scales: []float64{1, 0.5, 0.2, 0.1, 0.1}},
	{Kind: environment.LowerBound, Dimension: 3}, {Kind: environment.Ball, Family: "linear"},
	{Kind: environment.Unit, Family: "linear", Norm: 0.5}, {Kind: environment.Unit, Draw: "fixed", Arms: 3},
	{Kind: environment.Biased, Arms: 7}, {Kind: environment.Biased, Draw: "fixed", Arms: 7, Noise: "rademacher"},
	{Kind: environment.Adversarial}, {Kind: environment.Adversarial, Family: "linear", Phases: 13},
	{Kind: environment.Adversarial, Family: "poisson", MaxReward: 5, Norm: 1},
}

// The people are the same at every pass, others for another seed, arms in the unit ball, rewards in range with the
// means that are stated: the mean of 4000 people's rewards of an arm is within 5 standard errors of the mean of their
// means (false alarm 6e-7 each).
func TestPeopleAreAFunctionOfTheSeed(t *testing.T) {
	const n = 4000
	for _, s := range synthetic {
		t.Run(s.Label(), func(t *testing.T) {
			first, e := people(t, s, 5, n)
			again, _ := people(t, s, 5, n)
			other, _ := people(t, s, 6, n)
			if !reflect.DeepEqual(first, again) || reflect.DeepEqual(first, other) {
				t.Error("not a function of the seed")
			}
			info, lowest := e.Info(), e.Family.MinReward()
			if s.Kind == environment.Biased && s.Noise == "" {
				lowest = 0
			}
			if len(first) != n || info.People != n || info.Dim != len(e.Theta) ||
				math.Abs(norm(e.Theta)-info.NormBound) > 1e-9 {
				t.Errorf("%+v, parameter %v", info, e.Theta)
			}
			gap, variance, top := 0.0, 0.0, 0
			for _, p := range first {
				top = max(top, len(p.Arms))
				for a, x := range p.Arms {
					if len(x) != info.Dim || norm(x) > 1+1e-12 {
						t.Fatalf("arm %v", x)
					}
					if p.Rewards[a] < lowest || p.Rewards[a] > info.MaxReward {
						t.Fatalf("reward %v", p.Rewards[a])
					}
				}
				gap += p.Rewards[0] - p.Means[0]
				variance += e.Family.Variance(population.Dot(p.Arms[0], e.Theta))
			}
			if top != info.Arms {
				t.Errorf("%d arms at most, said %d", top, info.Arms)
			}
			if z := gap / math.Sqrt(variance); math.Abs(z) > 5 {
				t.Errorf("rewards are %v standard errors off their means", z)
			}
		})
	}
}

// The kappa of the published setting is within 5 % of 18.4, 56.4 and 222, and never above the bound of the ball.
func TestKappaOfThePublishedSetting(t *testing.T) {
	for i, theta := range [][]float64{{0.29541604, 1.82659084, 0.75914113}, {0.36927006, 2.28323855, 0.94892641},
		{0.44312407, 2.73988626, 1.13871169}} {
		s := environment.Spec{Kind: environment.Ball, Family: "probit", Dimension: 3, Arms: 20, Parameter: theta,
			Table: 109832}
		e, err := s.Open(1, 5000)
		if err != nil {
			t.Fatal(err)
		}
		kappa, err := e.Kappa()
		want, bound := []float64{18.4, 56.4, 222}[i], []float64{18.5216, 57.0506, 225.639}[i]
		if err != nil || math.Abs(kappa/want-1) > 0.05 || kappa > bound*(1+1e-5) {
			t.Errorf("S = %v: kappa %v, want %v (%v)", norm(theta), kappa, want, err)
		}
	}
}

// With a table, seeds differ in rewards only.
func TestTableFixesTheArms(t *testing.T) {
	s := environment.Spec{Kind: environment.Ball, Parameter: []float64{1, 1}, Arms: 3, Table: 4}
	a, _ := people(t, s, 1, 50)
	b, _ := people(t, s, 2, 50)
	differ := false
	for i := range a {
		if !reflect.DeepEqual(a[i].Arms, b[i].Arms) {
			t.Fatal("the arms differ")
		}
		differ = differ || !reflect.DeepEqual(a[i].Rewards, b[i].Rewards)
	}
	if !differ {
		t.Error("the rewards are the same")
	}
}

// Each kind of environment has its own arms.
func TestKindsDrawTheirArms(t *testing.T) {
	fixed, _ := people(t, environment.Spec{Kind: environment.Fixed}, 1, 20)
	if !reflect.DeepEqual(fixed[0].Arms, fixed[19].Arms) {
		t.Error("the fixed arm set changes")
	}
	counts := map[int]bool{}
	changing, _ := people(t, environment.Spec{Kind: environment.Changing, Arms: 4}, 1, 300)
	for _, p := range changing {
		counts[len(p.Arms)] = true
	}
	if len(counts) != 3 || counts[1] || counts[5] {
		t.Errorf("numbers of arms %v, want 2 to 4", counts)
	}
	rare := 0
	pairs, _ := people(t, environment.Spec{Kind: environment.Rare, Rarity: 0.1}, 1, 2000)
	for _, p := range pairs {
		if p.Arms[0][1] != 0 {
			rare++
		}
	}
	if rare < 140 || rare > 260 { // 200 expected, 4.5 standard deviations
		t.Errorf("%d of 2000 people are rare", rare)
	}
	unit, _ := people(t, environment.Spec{Kind: environment.Unit}, 1, 2)
	for _, x := range unit[1].Arms {
		if math.Abs(norm(x)-1) > 1e-12 || reflect.DeepEqual(unit[0].Arms, unit[1].Arms) {
			t.Errorf("unit arm %v", x)
		}
	}
	points, _ := people(t, environment.Spec{Kind: environment.TwoPoint, Rarity: 0.04}, 1, 10)
	for _, p := range points {
		if p.Arms[0][0] != p.Arms[1][0] || math.Abs(math.Abs(p.Arms[0][1])-0.2) > 1e-12 {
			t.Errorf("arms %v", p.Arms)
		}
	}
}

// The published population: norms 1, means in [0, 1], rewards 0 or 1; a fixed arm set stays, a redrawn one changes.
// Uniform play loses 0.47 per person, within 5 % in 1000 people of each of 5 seeds (its standard error is below 1 %).
func TestBiasedIsThePublishedPopulation(t *testing.T) {
	for _, draw := range []string{environment.Redrawn, environment.Same} {
		s := environment.Spec{Kind: environment.Biased, Draw: draw}
		loss := 0.0
		for seed := range uint64(5) {
			all, e := people(t, s, seed, 1000)
			if got := norm(e.Theta); math.Abs(got-1) > 1e-12 || len(all[0].Arms) != 100 {
				t.Errorf("norm %v of the parameter, %d arms", got, len(all[0].Arms))
			}
			if reflect.DeepEqual(all[0].Arms, all[1].Arms) != (draw == environment.Same) {
				t.Errorf("%s: wrong arms", draw)
			}
			for _, p := range all {
				loss += (p.Best() - p.Uniform()) / 5000
				for a, x := range p.Arms {
					if math.Abs(norm(x)-1) > 1e-12 || !(p.Means[a] >= 0 && p.Means[a] <= 1) ||
						p.Rewards[a] != 0 && p.Rewards[a] != 1 {
						t.Fatalf("arm %v with mean %v and reward %v", x, p.Means[a], p.Rewards[a])
					}
				}
			}
		}
		if draw == environment.Redrawn && math.Abs(loss/0.47-1) > 0.05 {
			t.Errorf("uniform play loses %v", loss)
		}
	}
}

// What decides in a phase is orthogonal to every arm of the phases before, and the arms of a person differ along it
// only.
func TestTheAdversaryMovesTheDecision(t *testing.T) {
	const n, phases = 500, 5
	all, _ := people(t, environment.Spec{Kind: environment.Adversarial}, 3, n)
	var directions [][]float64
	for i, p := range all {
		difference := make([]float64, 5)
		for j := range difference {
			difference[j] = p.Arms[0][j] - p.Arms[1][j]
		}
		length := norm(difference)
		for j := range difference {
			difference[j] /= length
		}
		phase := i * phases / n
		if len(directions) == phase {
			for _, earlier := range all[:i] {
				for _, x := range earlier.Arms {
					if v := population.Dot(x, difference); math.Abs(v) > 1e-9 {
						t.Fatalf("phase %d: an earlier arm has %v of the direction that decides", phase, v)
					}
				}
			}
			directions = append(directions, difference)
		}
		if v := math.Abs(population.Dot(difference, directions[phase])); math.Abs(v-1) > 1e-9 {
			t.Errorf("person %d: the arms differ along another direction: %v", i, v)
		}
	}
	if len(directions) != phases {
		t.Errorf("%d phases", len(directions))
	}
}

func TestDataEnvironmentsOpen(t *testing.T) {
	_, e := people(t, environment.Spec{Kind: environment.Adult, Map: "block"}, 1, 100)
	if i := e.Info(); i.Dim != 8 || i.People != 100 || i.HeldOut != 16281 || e.Theta != nil {
		t.Errorf("%+v", i)
	}
	if kappa, err := e.Kappa(); err != nil || !(kappa > 100) {
		t.Errorf("kappa %v, %v", kappa, err)
	}
	path := filepath.Join(t.TempDir(), "people.jsonl")
	text := `{"arms":[[1,0],[0,1]],"rewards":[1,0]}` + "\n" + `{"arms":[[1,0],[0,1]],"rewards":[0,1]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, _ := people(t, environment.Spec{Kind: environment.File, Path: path}, 1, 0)
	if len(all) != 2 {
		t.Errorf("%d people", len(all))
	}
}

func TestBadSpecsAreRefused(t *testing.T) {
	for _, s := range []environment.Spec{
		{}, {Kind: "bowl"}, {Kind: environment.File}, {Kind: environment.Ball, Dimension: -1}, {Kind: environment.Ball,
			Arms: 1}, {Kind: environment.Ball, Norm: math.NaN()},
		{Kind: environment.Ball, Parameter: []float64{1}, Dimension: 2}, {Kind: environment.Ball,
			Scales: []float64{2, 1, 1, 1, 1}}, {Kind: environment.Rare, Dimension: 3},
		{Kind: environment.Rare, Rarity: 1}, {Kind: environment.Ball, Family: "cauchy"},
		{Kind: environment.Ball, Family: "linear", Norm: 2},
		{Kind: environment.Ball, Family: "linear", Noise: "bernoulli"},
		{Kind: environment.Ball, Noise: "rademacher"}, {Kind: environment.Biased, Noise: "cauchy"},
		{Kind: environment.Biased, Dimension: 1}, {Kind: environment.Unit, Draw: "twice"}, {Kind: environment.Ball,
			Draw: "fixed"}, {Kind: environment.Unit, Phases: 3}, {Kind: environment.Adversarial, Phases: -1},
	} {
		if _, err := s.Open(1, 10); !errors.Is(err, environment.ErrSpec) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := (environment.Spec{Kind: environment.Ball}).Open(1, 0); !errors.Is(err, environment.ErrSpec) {
		t.Error(err)
	}
}

func BenchmarkBall(b *testing.B) {
	e, err := environment.Spec{Kind: environment.Ball}.Open(1, max(1, b.N))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for range e.People() {
	}
}

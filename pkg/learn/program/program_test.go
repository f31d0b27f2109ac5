package program_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/learn/program"
)

func config(p glm.Profile) learner.Config {
	return learner.Config{Profile: p, Dimension: 3, Radius: 1, Horizon: 2000,
		Program: &learner.ProgramConfig{Arms: 4}}
}

func start(t *testing.T, c learner.Config) *program.Learner {
	t.Helper()
	l, err := program.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sums are those of people who play the step's policy on random arms, with some noise.
func sums(t *testing.T, step learner.Step, reports int, r *rand.ChaCha8) []learner.Aggregate {
	t.Helper()
	model := family.Linear{}
	world, err := family.NewBallEnvironment(model, step.Policy.Dimension, 4, 0.9, rand.NewChaCha8([32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	var records []statistic.Record
	for range reports {
		arms := world.Draw(r)
		d, err := step.Policy.Decide(arms, r)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, statistic.Record{Arm: arms[d.Arm], Reward: world.Reward(arms[d.Arm], r)})
	}
	var out []learner.Aggregate
	for _, s := range step.Statistics[0] {
		a := learner.Aggregate{Kind: s.Kind, Sum: make([]float64, s.Dim()), Variance: make([]float64, s.Dim()),
			Reports: reports}
		for _, record := range records {
			v, err := s.Vector(nil, record)
			if err != nil {
				t.Fatal(err)
			}
			for j, x := range v {
				a.Sum[j] += x
			}
		}
		for _, record := range records {
			if s.Kind != statistic.Pair {
				break
			}
			v, err := s.Vector(nil, record)
			if err != nil {
				t.Fatal(err)
			}
			a.Each = append(a.Each, v)
		}
		for j := range a.Sum {
			if s.Kind == statistic.Pair {
				a.Variance[j] = float64(reports)
				continue
			}
			a.Sum[j] += 3 * (2*float64(r.Uint64()>>11)/(1<<53) - 1)
			a.Variance[j] = 3
		}
		out = append(out, a)
	}
	return out
}

// A program asks a cohort one question in one round, of all the horizon and in policies that devices follow; what it
// learned is in the last one, which is greedy.
func TestEveryProgramRunsToItsLastPolicy(t *testing.T) {
	for _, p := range glm.Programs() {
		l, r, people := start(t, config(p)), rand.NewChaCha8([32]byte{1}), 0
		planned := l.Schedule()
		for i := 0; !l.Next().Done; i++ {
			step := l.Next()
			if err := step.Policy.Validate(); err != nil {
				t.Fatalf("%s: epoch %d: %v", p, i, err)
			}
			if step.Epoch != i || step.Policy.Epoch != i || step.Policy.Profile != p || step.Round != 0 ||
				len(step.Statistics) != 1 || len(step.Shares) != 1 || len(step.Shares[0]) != len(step.Statistics[0]) {
				t.Fatalf("%s: step %d is %+v", p, i, step)
			}
			if i >= len(planned) || step.Cohort != planned[i] {
				t.Fatalf("%s: cohort %d has %d people, planned are %d", p, i, step.Cohort, planned)
			}
			people += step.Cohort
			if err := l.Absorb(sums(t, step, step.Cohort, r)); err != nil {
				t.Fatal(err)
			}
		}
		last := l.Next()
		if people != 2000 || last.Cohort != 0 || last.Policy.Play != glm.PlayGreedy || last.Policy.Optimism != nil ||
			slices.Max(last.Policy.Theta) == 0 && len(last.Policy.Trees) == 0 {
			t.Errorf("%s: %d people, the last step is %+v", p, people, last)
		}
		if err := last.Policy.Validate(); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if err := l.Absorb(nil); !errors.Is(err, learner.ErrDone) {
			t.Errorf("%s: after the end: %v", p, err)
		}
		if err := l.Destroyed(); !errors.Is(err, learner.ErrDone) {
			t.Errorf("%s: after the end: %v", p, err)
		}
	}
}

// The bridge asks and announces what the program itself does: with the same answers a simulation of the program has the
// same policies.
func TestPoliciesAreTheProgramsOwn(t *testing.T) {
	c := config(glm.LinUCB)
	l := start(t, c)
	c = l.Config()
	own, err := bandit.LinUCB(learn.Setting{Family: family.Linear{}, Dimension: c.Dimension, Arms: c.Program.Arms,
		Horizon: c.Horizon, Radius: c.Radius, Epsilon: c.Epsilon, Delta: c.Delta, Failure: c.Program.Failure})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	r := rand.NewChaCha8([32]byte{2})
	for n := 0; ; n++ {
		step, asked := l.Next(), own.Next()
		data, ok := asked.Policy.(learn.Data)
		if !ok {
			t.Fatalf("%T", asked.Policy)
		}
		want := data.Policy
		want.Epoch = n
		if step.Done != asked.Done {
			t.Fatalf("epoch %d: done %v, the program %v", n, step.Done, asked.Done)
		}
		if step.Done {
			if !slices.Equal(step.Policy.Theta, want.Theta) {
				t.Errorf("the last theta is %v, the program's %v", step.Policy.Theta, want.Theta)
			}
			return
		}
		if text(t, step.Policy) != text(t, want) || step.Cohort != asked.Question.People {
			t.Fatalf("epoch %d, of %d people, has the policy\n%s, the program, of %d people,\n%s", n, step.Cohort,
				text(t, step.Policy), asked.Question.People, text(t, want))
		}
		aggregates := sums(t, step, step.Cohort-n, r) // some do not report
		if err := l.Absorb(aggregates); err != nil {
			t.Fatal(err)
		}
		a := learn.Answer{People: step.Cohort - n}
		for _, s := range aggregates {
			a.Sums = append(a.Sums, learn.Sum{Values: s.Sum, Variance: s.Variance})
		}
		if err := own.Absorb(a); err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever replays the same calls comes to the same steps: after a crash, or in an audit, from the resolved
// configuration in its JSON form too.
func TestReplayComesToTheSameSteps(t *testing.T) {
	for _, p := range glm.Programs() {
		l := start(t, config(p))
		var back learner.Config
		if err := json.Unmarshal([]byte(text(t, l.Config())), &back); err != nil {
			t.Fatal(err)
		}
		again := start(t, back)
		if text(t, again.Config()) != text(t, l.Config()) {
			t.Errorf("%s: resolved twice:\n%s\n%s", p, text(t, l.Config()), text(t, again.Config()))
		}
		r := rand.NewChaCha8([32]byte{3})
		for n := 0; !l.Next().Done; n++ {
			if text(t, l.Next()) != text(t, again.Next()) {
				t.Fatalf("%s: step %d:\n%s\n%s", p, n, text(t, l.Next()), text(t, again.Next()))
			}
			if n%3 == 2 {
				if err := errors.Join(l.Destroyed(), again.Destroyed()); err != nil {
					t.Fatal(err)
				}
				continue
			}
			s := sums(t, l.Next(), l.Next().Cohort, r)
			if err := errors.Join(l.Absorb(s), again.Absorb(s)); err != nil {
				t.Fatal(err)
			}
		}
		if text(t, l.Next()) != text(t, again.Next()) {
			t.Errorf("%s: the last steps differ", p)
		}
	}
}

// A destroyed cohort's question is asked of other people with the same policy; the horizon has fewer left, and when
// these are too few for a cohort, the policy in force is the last one.
func TestDestroyedCohortsUsePeopleUp(t *testing.T) {
	l := start(t, config(glm.LinUCB))
	first := l.Next()
	if err := l.Destroyed(); err != nil {
		t.Fatal(err)
	}
	second := l.Next()
	if second.Attempt != 1 || second.Epoch != 0 || second.Cohort != first.Cohort ||
		text(t, second.Policy) != text(t, first.Policy) {
		t.Errorf("after %+v was destroyed comes %+v", first, second)
	}
	people := first.Cohort
	if err := l.Absorb(sums(t, second, second.Cohort, rand.NewChaCha8([32]byte{4}))); err != nil {
		t.Fatal(err)
	}
	people += second.Cohort
	theta := l.Next().Policy.Theta
	for n := 0; !l.Next().Done; n++ {
		if l.Next().Attempt != n {
			t.Errorf("attempt %d is %d", n, l.Next().Attempt)
		}
		people += l.Next().Cohort
		if err := l.Destroyed(); err != nil {
			t.Fatal(err)
		}
	}
	if people != 2000 {
		t.Errorf("%d people were asked", people)
	}
	if last := l.Next().Policy; !slices.Equal(last.Theta, theta) || last.Play != glm.PlayGreedy {
		t.Errorf("the last policy is %+v, learned was %v", last, theta)
	}
}

// Refused sums change nothing.
func TestBadSumsAreRefused(t *testing.T) {
	l := start(t, config(glm.LinUCB))
	before := text(t, l.Next())
	good := sums(t, l.Next(), l.Next().Cohort, rand.NewChaCha8([32]byte{5}))
	for name, spoil := range map[string]func([]learner.Aggregate) []learner.Aggregate{
		"none":      func([]learner.Aggregate) []learner.Aggregate { return nil },
		"one":       func(s []learner.Aggregate) []learner.Aggregate { return s[:1] },
		"swapped":   func(s []learner.Aggregate) []learner.Aggregate { return []learner.Aggregate{s[1], s[0]} },
		"people":    func(s []learner.Aggregate) []learner.Aggregate { s[0].Reports = 1 << 20; return s },
		"decisions": func(s []learner.Aggregate) []learner.Aggregate { s[0].Decisions = 2; return s },
		"nan":       func(s []learner.Aggregate) []learner.Aggregate { s[0].Sum = nan(s[0].Sum); return s },
		"short":     func(s []learner.Aggregate) []learner.Aggregate { s[1].Sum = s[1].Sum[:1]; return s },
	} {
		if err := l.Absorb(spoil(slices.Clone(good))); !errors.Is(err, learner.ErrAggregate) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text(t, l.Next()) != before {
		t.Error("refused sums changed the step")
	}
	if err := l.Absorb(good); err != nil {
		t.Error(err)
	}
}

func nan(x []float64) []float64 {
	x = slices.Clone(x)
	x[0] = math.NaN()
	return x
}

func TestConfigurationsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*learner.Config)
		says  string
	}{
		"family":   {func(c *learner.Config) { c.Family = family.NameLogistic }, "linear"},
		"reward":   {func(c *learner.Config) { c.MaxReward = 2 }, "largest reward"},
		"profile":  {func(c *learner.Config) { c.Profile = glm.Practical }, "no program"},
		"option":   {func(c *learner.Config) { c.Program.Options = map[string]float64{"speed": 1} }, "speed"},
		"value":    {func(c *learner.Config) { c.Program.Options = map[string]float64{bandit.Growth: 0.5} }, "growth"},
		"variant":  {func(c *learner.Config) { c.Program.Variant = "fast" }, "fast"},
		"failure":  {func(c *learner.Config) { c.Program.Failure = 1 }, "failure"},
		"arms":     {func(c *learner.Config) { c.Program.Arms = -1 }, "arms"},
		"horizon":  {func(c *learner.Config) { c.Horizon = 0 }, "horizon"},
		"nonsense": {func(c *learner.Config) { c.Program.Options = map[string]float64{"x": math.NaN()} }, "option"},
	} {
		bad := config(glm.LinUCB)
		c.spoil(&bad)
		if _, err := program.New(bad); err == nil || !strings.Contains(err.Error(), c.says) ||
			!errors.Is(err, program.ErrRefused) && !errors.Is(err, learner.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := learner.New(config(glm.LinUCB)); !errors.Is(err, learner.ErrConfig) {
		t.Errorf("the learner of deployments makes a program: %v", err)
	}
	plain := config(glm.Practical)
	if _, err := learner.New(plain); !errors.Is(err, learner.ErrConfig) {
		t.Errorf("the profile practical takes a program's options: %v", err)
	}
}

// Variants whose noise no channel has are refused, with why: of pure epsilon, and calibrated as the papers do.
func TestVariantsOfSimulationsAreRefused(t *testing.T) {
	for _, c := range []struct {
		profile       glm.Profile
		variant, says string
	}{
		{glm.RegCB, estimate.LayeredThirds, "no channel carries"},
		{glm.RegCB, estimate.LayeredLiteral, "no channel carries"},
		{glm.EliminationReweighted, estimate.Literal, "no data"},
		{glm.EliminationLinear, estimate.Literal, "no data"},
		{glm.SquareCB, estimate.Literal, "no data"},
		{glm.OnlineLinUCB, learn.Literal, "no data"},
	} {
		bad := config(c.profile)
		bad.Program.Variant = c.variant
		if _, err := program.New(bad); !errors.Is(err, program.ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, variant %s: %v", c.profile, c.variant, err)
		}
	}
}

// A structure of arms leaves out of the sums what is always zero, and the program learns the same.
func TestStructuresAreLearnedFrom(t *testing.T) {
	c := config(glm.LinUCB)
	c.Dimension, c.Structure = 4, structure.Options(2, 2)
	l := start(t, c)
	step := l.Next()
	if n := step.Statistics[0][0].Dim(); n != 6 {
		t.Fatalf("the Hessian has %d numbers", n)
	}
	sum := []learner.Aggregate{
		{Kind: statistic.Hessian, Sum: []float64{50, 0, 50, 50, 0, 50}, Variance: make([]float64, 6), Reports: 90},
		{Kind: statistic.Gradient, Sum: []float64{0, -20, 0, 0}, Variance: make([]float64, 4), Reports: 90},
	}
	if err := l.Absorb(sum); err != nil {
		t.Fatal(err)
	}
	p := l.Next().Policy
	if p.Theta[1] < 0.35 || math.Abs(p.Theta[0])+math.Abs(p.Theta[2])+math.Abs(p.Theta[3]) > 1e-9 ||
		len(p.Structure) != 1 {
		t.Errorf("%+v", p)
	}
}

// A learner holds no goroutine, which nobody would end: whoever makes machines forgets them. A bubble ends when all
// goroutines that were started in it have; those of other tests do not count.
func TestLearnersHoldNoGoroutine(t *testing.T) {
	for _, p := range glm.Programs() {
		t.Run(string(p), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := start(t, config(p))
				if err := l.Absorb(sums(t, l.Next(), l.Next().Cohort, rand.NewChaCha8([32]byte{6}))); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

package learner_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

func newLearner(t testing.TB, cfg learner.Config) *learner.Learner {
	t.Helper()
	l, err := learner.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func text(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sumsOf makes aggregates of a step's round with the given numbers.
func sumsOf(step learner.Step, number func(i int) float64, variance float64, reports int) []learner.Aggregate {
	var out []learner.Aggregate
	for _, s := range step.Statistics[step.Round] {
		a := learner.Aggregate{Kind: s.Kind, Sum: make([]float64, s.Dim()), Variance: make([]float64, s.Dim()),
			Reports: reports}
		for j := range a.Sum {
			a.Sum[j], a.Variance[j] = number(j), variance
		}
		out = append(out, a)
	}
	return out
}

func profiles() map[string]learner.Config {
	return map[string]learner.Config{
		"practical": {Dimension: 3, Horizon: 3000},
		"probit":    {Dimension: 3, Horizon: 3000, Family: "probit", Radius: 2},
		"panels": {Dimension: 3, Horizon: 3000, Practical: learner.PracticalConfig{Panel: 300, HalfLife: 2, Alarm: 0.01,
			Control: 0.1, Caution: 1}},
		"informed": {Dimension: 3, Horizon: 3000, Practical: learner.PracticalConfig{Panel: 300, Alarm: 0.01,
			PriorTheta: []float64{1, 0, -1}, PriorPrecision: symmetric.Packed{4, 1, 0, 3, 0, 2}}},
		"paper": {Profile: glm.Paper, Dimension: 3, Horizon: 3000, MinCohort: 100,
			Paper: learner.PaperConfig{Rounds: 3}},
		"proof": {Profile: glm.Paper, Dimension: 3, Horizon: 3000, MinCohort: 100,
			Paper: learner.PaperConfig{Rounds: 3, Constants: learner.ProofConstants}},
	}
}

// With any release (indefinite matrices, zeros, enormous numbers, no noise, a single report) the learner completes its
// schedule, its policies are valid (so ||theta|| <= S), every person is in one cohort, and a replay gives the same
// policies.
func TestLearnerSurvivesAnyRelease(t *testing.T) {
	for name, cfg := range profiles() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				l, replay := newLearner(t, cfg), newLearner(t, cfg)
				people := 0
				for steps := 0; ; steps++ {
					step := l.Next()
					if err := step.Policy.Validate(); err != nil {
						r.Fatal(err)
					}
					if a, b := text(t, step), text(t, replay.Next()); a != b {
						r.Fatalf("replay differs:\n%s\n%s", a, b)
					}
					if step.Done {
						break
					}
					if step.Round == 0 {
						people += step.Cohort
					}
					if steps > 200 {
						r.Fatal("no end")
					}
					if step.Attempt < 2 && rapid.IntRange(0, 9).Draw(r, "destroy") == 0 {
						if err := errors.Join(l.Destroyed(), replay.Destroyed()); err != nil {
							r.Fatal(err)
						}
						continue
					}
					size := math.Pow(10, rapid.Float64Range(-8, 12).Draw(r, "size"))
					variance := []float64{0, 1, 1e6, 1e-12, 1e30}[rapid.IntRange(0, 4).Draw(r, "variance")]
					draw := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 1))
					sums := sumsOf(step, func(int) float64 { return size * draw.NormFloat64() }, variance,
						rapid.IntRange(1, step.Cohort).Draw(r, "reports"))
					if rapid.IntRange(0, 5).Draw(r, "null") == 0 { // a cohort of null records
						sums = sumsOf(step, func(int) float64 { return 0 }, variance, step.Cohort)
					}
					if err := errors.Join(l.Absorb(sums), replay.Absorb(sums)); err != nil {
						r.Fatal(err)
					}
				}
				if people > cfg.Horizon {
					r.Fatalf("%d people of %d", people, cfg.Horizon)
				}
				if err := l.Absorb(nil); !errors.Is(err, learner.ErrDone) {
					r.Fatal(err)
				}
				if err := l.Destroyed(); !errors.Is(err, learner.ErrDone) {
					r.Fatal(err)
				}
			})
		})
	}
}

// Bad aggregates are refused and leave the learner as it was.
func TestLearnerRefusesBadAggregates(t *testing.T) {
	for name, cfg := range profiles() {
		t.Run(name, func(t *testing.T) {
			l := newLearner(t, cfg)
			for range 2 { // in the first epoch, or round, and in the next
				step := l.Next()
				good := func() []learner.Aggregate {
					return sumsOf(step, func(j int) float64 { return float64(j + 1) }, 1, step.Cohort)
				}
				before := text(t, step)
				for what, spoil := range map[string]func(s []learner.Aggregate) []learner.Aggregate{
					"missing": func(s []learner.Aggregate) []learner.Aggregate { return s[1:] },
					"twice":   func(s []learner.Aggregate) []learner.Aggregate { return append(s, s[0]) },
					"kind": func(
						s []learner.Aggregate) []learner.Aggregate {
						s[0].Kind = "other"
						return s
					},
					"short": func(
						s []learner.Aggregate) []learner.Aggregate {
						s[0].Sum = s[0].Sum[1:]
						return s
					},
					"variance missing": func(
						s []learner.Aggregate) []learner.Aggregate {
						s[0].Variance = nil
						return s
					},
					"variance negative": func(
						s []learner.Aggregate) []learner.Aggregate {
						s[0].Variance[0] = -1
						return s
					},
					"variance NaN": func(s []learner.Aggregate) []learner.Aggregate {
						s[0].Variance[0] = math.NaN()
						return s
					},
					"NaN": func(s []learner.Aggregate) []learner.Aggregate { s[0].Sum[0] = math.NaN(); return s },
					"infinite": func(s []learner.Aggregate) []learner.Aggregate {
						s[0].Sum[1] = math.Inf(-1)
						return s
					},
					"no reports": func(s []learner.Aggregate) []learner.Aggregate { s[0].Reports = 0; return s },
					"too many reports": func(s []learner.Aggregate) []learner.Aggregate {
						s[0].Reports = step.Cohort + 1
						return s
					},
				} {
					if err := l.Absorb(spoil(good())); !errors.Is(err, learner.ErrAggregate) {
						t.Errorf("%s: %v", what, err)
					}
					if after := text(t, l.Next()); after != before {
						t.Fatalf("%s changed the learner:\n%s\n%s", what, before, after)
					}
				}
				if err := l.Absorb(good()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// After a destroyed cohort the same policy applies to new people, and its earlier rounds leave no trace.
func TestDestroyedCohortLeavesNoTrace(t *testing.T) {
	for name, cfg := range profiles() {
		t.Run(name, func(t *testing.T) {
			l := newLearner(t, cfg)
			first := l.Next()
			if len(first.Statistics) > 1 {
				if err := l.Absorb(sumsOf(first, func(int) float64 { return 5 }, 1, first.Cohort)); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Destroyed(); err != nil {
				t.Fatal(err)
			}
			again := l.Next()
			for _, p := range []*glm.Policy{&first.Policy, &again.Policy} { // they depend on how many people are left
				p.Draws = nil
			}
			if text(t, again.Policy) != text(t, first.Policy) || again.Attempt != 1 || again.Round != 0 ||
				again.Epoch != 0 || again.Cohort != first.Cohort {
				t.Errorf("%+v after %+v", again, first)
			}
			if a, b := text(t, again.Statistics[0][1].Theta), text(t, first.Statistics[0][1].Theta); a != b {
				t.Errorf("iterate %s, was %s", a, b)
			}
			destroyed := 1
			for !l.Next().Done {
				if err := l.Destroyed(); err != nil {
					t.Fatal(err)
				}
				destroyed++
			}
			if most := cfg.Horizon/first.Cohort + 1; destroyed > most {
				t.Errorf("%d cohorts of %d destroyed from %d people", destroyed, first.Cohort, cfg.Horizon)
			}
		})
	}
}

// A caller may change what a step hands out; the learner does not change.
func TestLearnerKeepsItsState(t *testing.T) {
	for name, cfg := range profiles() {
		l := newLearner(t, cfg)
		for range 4 {
			step := l.Next()
			if err := l.Absorb(sumsOf(step, func(j int) float64 { return float64(j) }, 1, step.Cohort)); err != nil {
				t.Fatal(err)
			}
		}
		before := text(t, l.Next())
		step := l.Next()
		step.Policy.Theta[0] = 99
		for _, s := range step.Policy.Stages {
			s.Theta[0], s.Covariance[0] = 99, 99
		}
		if step.Policy.Scaling != nil {
			step.Policy.Scaling.Theta[0] = 99
			step.Policy.Scaling.Covariance[0] = 99
		}
		for _, draw := range step.Policy.Draws {
			draw[0] = 99
		}
		for _, round := range step.Statistics {
			for _, s := range round {
				if s.Theta != nil {
					s.Theta[0] = 99
				}
			}
		}
		step.Shares[0][0] = 99
		l.Schedule()[0] = 99
		if after := text(t, l.Next()); after != before {
			t.Errorf("%s: %s\n%s", name, before, after)
		}
	}
}

// Without noise, a cohort of exact sums moves the estimate to the truth: where no score is large mu' is nearly
// constant, so that rewards are nearly linear and a small theta* is found in one step, up to the prior.
func TestNewtonStepFindsASmallParameter(t *testing.T) {
	truth := []float64{.05, -.03, .02}
	l := newLearner(t, learner.Config{Dimension: 3, Horizon: 1 << 20, Radius: 0.1,
		Practical: learner.PracticalConfig{FirstCohort: 100000, Prior: 1e-4}})
	src := rand.NewChaCha8([32]byte{9})
	env, err := family.NewBallEnvironment(family.Logistic{}, 3, 1, 1, src)
	if err != nil {
		t.Fatal(err)
	}
	step := l.Next()
	sums := sumsOf(step, func(int) float64 { return 0 }, 0, step.Cohort)
	var vector []float64
	for range step.Cohort {
		x := env.Draw(src)[0]
		for i, s := range step.Statistics[0] {
			// The mean reward in place of a reward excludes sampling error as well.
			record := statistic.Record{Arm: x, Reward: family.Logistic{}.Mean(convex.Dot(x, truth))}
			if vector, err = s.Vector(vector, record); err != nil {
				t.Fatal(err)
			}
			for j, v := range vector {
				sums[i].Sum[j] += v
			}
		}
	}
	if err := l.Absorb(sums); err != nil {
		t.Fatal(err)
	}
	for i, v := range l.Next().Policy.Theta {
		if !scalar.EqualWithinAbs(v, truth[i], 1e-4) {
			t.Errorf("theta %v, truth %v", l.Next().Policy.Theta, truth)
			break
		}
	}
}

// A learner can be extended after its horizon: epoch numbers go on, nothing is forgotten, cohorts grow, each person is
// in one of them, and a replay gives the same. It cannot before, and in the paper profile it never can.
func TestLearnerExtendsAfterItsHorizon(t *testing.T) {
	run := func(l *learner.Learner, people int) (last glm.Policy, sizes []int) {
		for {
			step := l.Next()
			if step.Done {
				if got := sum(sizes); got != people {
					t.Fatalf("%d people of %d", got, people)
				}
				return step.Policy, sizes
			}
			if err := step.Policy.Validate(); err != nil {
				t.Fatal(err)
			}
			if err := l.Extend(1000); !errors.Is(err, learner.ErrExtend) {
				t.Fatalf("extended before the end: %v", err)
			}
			sizes = append(sizes, step.Cohort)
			number := func(j int) float64 { return float64(j + step.Cohort/10) }
			if err := l.Absorb(sumsOf(step, number, 1, step.Cohort)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cfg := learner.Config{Dimension: 3, Horizon: 2000}
	l, replay := newLearner(t, cfg), newLearner(t, cfg)
	before, sizes := run(l, 2000)
	run(replay, 2000)
	for _, l := range []*learner.Learner{l, replay} {
		for _, few := range []int{0, -5, 49} {
			if err := l.Extend(few); !errors.Is(err, learner.ErrExtend) {
				t.Errorf("%d more people: %v", few, err)
			}
		}
		if err := l.Extend(4000); err != nil {
			t.Fatal(err)
		}
	}
	step := l.Next()
	if step.Done || step.Epoch != len(sizes) || !slices.Equal(step.Policy.Theta, before.Theta) ||
		step.Policy.Play != glm.PlaySampled {
		t.Errorf("after the extension: %+v, before it theta %v in epoch %d", step, before.Theta, len(sizes))
	}
	if largest := slices.Max(sizes); step.Cohort <= largest {
		t.Errorf("a cohort of %d people after one of %d", step.Cohort, largest)
	}
	a, more := run(l, 4000)
	b, again := run(replay, 4000)
	if !reflect.DeepEqual(a, b) || !slices.Equal(more, again) || l.Config().Horizon != 6000 {
		t.Errorf("%+v and %+v, cohorts %v and %v", a, b, more, again)
	}
	paper := newLearner(t, learner.Config{Profile: glm.Paper, Dimension: 3, Horizon: 3000, MinCohort: 100,
		Paper: learner.PaperConfig{Rounds: 1}})
	for !paper.Next().Done {
		if err := paper.Destroyed(); err != nil {
			t.Fatal(err)
		}
	}
	if err := paper.Extend(3000); !errors.Is(err, learner.ErrExtend) || !paper.Next().Done {
		t.Errorf("the paper profile extends: %v", err)
	}
}

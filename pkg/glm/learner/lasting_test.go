package learner_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// absorb gives the learner's step sums of the given numbers, scaled for several decisions.
func absorb(t testing.TB, l *learner.Learner, number func(i int) float64, variance float64) {
	t.Helper()
	step := l.Next()
	sums := sumsOf(step, number, variance, step.Cohort)
	for i := range sums {
		sums[i].Decisions = l.Config().Practical.Decisions
	}
	if err := l.Absorb(sums); err != nil {
		t.Fatal(err)
	}
}

func steady(j int) float64 { return float64(20 - 3*j) }

// Panels are all of one size, also after the horizon was extended and after a destroyed one; a rest of the horizon that
// makes no panel is left over.
func TestPanelsKeepTheirSize(t *testing.T) {
	cfg := learner.Config{Dimension: 3, Horizon: 1050, Practical: learner.PracticalConfig{Panel: 100, MaxEpochs: 3}}
	l := newLearner(t, cfg)
	if got := l.Schedule(); len(got) != 10 || slices.Max(got) != 100 || slices.Min(got) != 100 {
		t.Fatalf("schedule %v", got)
	}
	run := func(destroyed int) (epochs int) {
		for i := 0; !l.Next().Done; i++ {
			step := l.Next()
			if step.Cohort != 100 {
				t.Fatalf("epoch %d has a cohort of %d", step.Epoch, step.Cohort)
			}
			if i < destroyed {
				if err := l.Destroyed(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			absorb(t, l, steady, 1)
			epochs++
		}
		return epochs
	}
	if got := run(2); got != 8 {
		t.Errorf("%d panels of 10, 2 destroyed", got)
	}
	if err := l.Extend(99); !errors.Is(err, learner.ErrExtend) {
		t.Errorf("extended by less than a panel: %v", err)
	}
	if err := l.Extend(1 << 39); !errors.Is(err, learner.ErrExtend) {
		t.Errorf("extended by millions of panels: %v", err)
	}
	if err := l.Extend(2100); err != nil {
		t.Fatal(err)
	}
	if got := run(0); got != 21 || l.Next().Epoch != 29 {
		t.Errorf("%d panels of 21, epoch %d", got, l.Next().Epoch)
	}
}

// Sums of reports of several decisions are refused where they are not scaled, and so are those of another number.
func TestReportsOfSeveralDecisions(t *testing.T) {
	l := newLearner(t, learner.Config{Family: family.NameLinear, Dimension: 2, Horizon: 1000, Radius: 3,
		Practical: learner.PracticalConfig{Panel: 100, Decisions: 7}})
	step := l.Next()
	// Every decision has the arm (1, 0): the trace of 100 reports is 700 at most.
	for decisions, want := range map[int]error{0: learner.ErrAggregate, 6: learner.ErrAggregate, 7: nil} {
		sums := sumsOf(step, func(int) float64 { return 0 }, 0, 100)
		sums[0].Sum[0], sums[1].Sum[0] = 700, -30
		for i := range sums {
			sums[i].Decisions = decisions
		}
		if err := l.Absorb(sums); !errors.Is(err, want) {
			t.Errorf("%d decisions: %v", decisions, err)
		}
	}
	const prior = 4
	if got := l.Next().Policy.Theta[0]; !scalar.EqualWithinAbs(got, 30./(700+prior), 1e-9) {
		t.Errorf("theta is %v: the trace was cut to that of single decisions", got)
	}
}

// With a half-life, old observations count by their age, and public knowledge fills the gap: the estimate and its
// covariance are those of a weighted Bayesian regression. Without noise a cohort with the Hessian H says that the
// parameter is theta - H^-1 g, with the information H.
func TestHalfLifeWeighsByAge(t *testing.T) {
	const d, halfLife = 2, 3.0
	precision := mat.NewSymDense(d, []float64{4, 1, 1, 3})
	known := []float64{0.5, -0.25}
	for _, half := range []float64{0, halfLife} {
		l := newLearner(t, learner.Config{Family: family.NameLinear, Dimension: d, Horizon: 10000,
			Practical: learner.PracticalConfig{Panel: 1000, HalfLife: half, PriorTheta: known,
				PriorPrecision: symmetric.Pack(precision)}})
		if got := l.Next().Policy; !slices.Equal(got.Theta, known) || got.Scaling == nil ||
			got.Play != glm.PlaySampled || l.Covariance() == nil {
			t.Fatalf("the first policy is not that of the prior: %+v", got)
		}
		rho := 1.0
		if half > 0 {
			rho = math.Pow(0.5, 1/halfLife)
		}
		w := mat.NewSymDense(d, nil)
		w.CopySym(precision)
		b := mat.NewVecDense(d, nil)
		b.MulVec(w, mat.NewVecDense(d, known))
		b0 := mat.VecDenseCopyOf(b)
		for k := range 5 {
			theta := mat.NewVecDense(d, l.Next().Policy.Theta)
			h := mat.NewSymDense(d, []float64{60 + float64(10*k), 20, 20, 80})
			g := mat.NewVecDense(d, []float64{5, 3 - 4*float64(k)})
			absorbMatrix(t, l, h, g)
			var said, one mat.VecDense
			said.MulVec(h, theta)
			said.SubVec(&said, g)
			one.AddScaledVec(&said, rho, b)
			b.AddScaledVec(&one, 1-rho, b0)
			for i := range d {
				for j := i; j < d; j++ {
					w.SetSym(i, j, rho*w.At(i, j)+(1-rho)*precision.At(i, j)+h.At(i, j))
				}
			}
			var want mat.VecDense
			if err := want.SolveVec(w, b); err != nil {
				t.Fatal(err)
			}
			var inverse mat.Dense
			if err := inverse.Inverse(w); err != nil {
				t.Fatal(err)
			}
			got, covariance := l.Next().Policy.Theta, l.Covariance().Dense(d)
			for i := range d {
				if !scalar.EqualWithinAbs(got[i], want.AtVec(i), 1e-9) ||
					!scalar.EqualWithinAbs(covariance.At(i, 0), inverse.At(i, 0), 1e-9) {
					t.Fatalf("half-life %v, cohort %d: theta %v, want %v; covariance %v, want %v", half, k, got,
						want.RawVector().Data, covariance, inverse)
				}
			}
		}
	}
}

// absorbMatrix gives the learner a Hessian and a gradient without noise.
func absorbMatrix(t testing.TB, l *learner.Learner, h *mat.SymDense, g *mat.VecDense) {
	t.Helper()
	step := l.Next()
	sums := sumsOf(step, func(int) float64 { return 0 }, 0, step.Cohort)
	k := 0
	for i := range g.Len() {
		for j := i; j < g.Len(); j++ {
			sums[0].Sum[k] = h.At(i, j)
			if i != j {
				sums[0].Sum[k] *= math.Sqrt2
			}
			k++
		}
		sums[1].Sum[i] = g.AtVec(i)
	}
	if err := l.Absorb(sums); err != nil {
		t.Fatal(err)
	}
}

// The covariance settles with a half-life, so that exploration does not end; without one it shrinks. The last panel
// of a horizon explores, too: the horizon says nothing where the world may change.
func TestExplorationGoesOnWithAHalfLife(t *testing.T) {
	trace := func(half float64) (traces []float64, last glm.Policy) {
		l := newLearner(t, learner.Config{Dimension: 2, Horizon: 4000, Practical: learner.PracticalConfig{Panel: 100,
			HalfLife: half}})
		for !l.Next().Done {
			last = l.Next().Policy
			absorbMatrix(t, l, mat.NewSymDense(2, []float64{10, 0, 0, 10}), mat.NewVecDense(2, nil))
			c := l.Covariance().Dense(2)
			traces = append(traces, mat.Trace(c))
		}
		return traces, last
	}
	fades, last := trace(4)
	stays, _ := trace(0)
	if !scalar.EqualWithinAbs(fades[39], fades[29], 0.01) || stays[39] > 0.8*stays[29] ||
		last.Play != glm.PlaySampled || slices.Equal(last.Draws[0], last.Theta) {
		t.Errorf("traces %v and %v with a half-life, %v and %v without; the last policy %+v", fades[29], fades[39],
			stays[29], stays[39], last)
	}
}

// With a control group the round has a third release, and the policy its coin; the shares of the budget stay 1.
func TestControlGroupHasARelease(t *testing.T) {
	for _, share := range []float64{0, 0.3} {
		l := newLearner(t, learner.Config{Dimension: 2, Horizon: 1000,
			Practical: learner.PracticalConfig{Panel: 100, Control: 0.05,
				ControlShare: share, HessianShare: 0.4}})
		if share == 0 {
			share = learner.DefaultControlShare
		}
		for range 2 {
			step := l.Next()
			want := []float64{0.4 * (1 - share), 0.6 * (1 - share), share}
			if len(step.Statistics[0]) != 3 || step.Statistics[0][2].Kind != statistic.Rewards ||
				step.Policy.Control != 0.05 {
				t.Fatalf("%+v", step)
			}
			for i, v := range step.Shares[0] {
				if !scalar.EqualWithinAbs(v, want[i], 1e-12) {
					t.Errorf("shares %v, want %v", step.Shares[0], want)
				}
			}
			if err := l.Absorb(sumsOf(step, steady, 1, 100)[:2]); !errors.Is(err, learner.ErrAggregate) {
				t.Errorf("two sums: %v", err)
			}
			absorb(t, l, steady, 1)
		}
	}
}

// Rollback brings back the policy before the last one, but for its number and the draws of its epoch, and with it what
// was known then: from there the learner goes on as one that never saw the two cohorts. It goes one step back only.
func TestRollback(t *testing.T) {
	cfg := learner.Config{Dimension: 3, Horizon: 4000, Practical: learner.PracticalConfig{Panel: 200, HalfLife: 8}}
	l, other := newLearner(t, cfg), newLearner(t, cfg)
	refused := func() {
		t.Helper()
		before := text(t, l.Next())
		if err := l.Rollback(); !errors.Is(err, learner.ErrRollback) || text(t, l.Next()) != before {
			t.Fatalf("rolled back to nothing: %v", err)
		}
	}
	refused()
	absorb(t, l, steady, 1)
	absorb(t, other, steady, 1)
	refused() // the policy that is judged was the first
	earlier := l.Next().Policy
	for k := range 2 {
		absorb(t, l, func(j int) float64 { return float64(10*j - 5*k) }, 1)
	}
	judged := l.Next().Epoch
	if err := l.Rollback(); err != nil {
		t.Fatal(err)
	}
	got := l.Next()
	if got.Epoch != judged || got.Policy.Epoch != judged {
		t.Errorf("epoch %d after epoch %d", got.Epoch, judged)
	}
	if len(got.Policy.Draws) != len(earlier.Draws) || reflect.DeepEqual(got.Policy.Draws, earlier.Draws) {
		t.Errorf("the draws of epoch %d are those of epoch %d", judged, earlier.Epoch)
	}
	got.Policy.Epoch, got.Policy.Draws = earlier.Epoch, earlier.Draws
	if !reflect.DeepEqual(got.Policy, earlier) {
		t.Errorf("the policy is %s, before it was %s", text(t, got.Policy), text(t, earlier))
	}
	refused()
	absorb(t, l, steady, 2)
	absorb(t, other, steady, 2)
	if a, b := l.Next().Policy.Theta, other.Next().Policy.Theta; !slices.Equal(a, b) {
		t.Errorf("after the rollback the learner comes to %v, without the two cohorts to %v", a, b)
	}
	refused()
	absorb(t, l, steady, 2)
	if err := l.Rollback(); err != nil {
		t.Error(err)
	}
	paper := newLearner(t, profiles()["paper"])
	if err := paper.Rollback(); !errors.Is(err, learner.ErrRollback) || paper.Unchanged() != 0 {
		t.Errorf("the paper profile: %v", err)
	}
}

// After Stop everybody gets the default arm, for good; the coin is thrown as before, and cohorts are absorbed.
func TestStop(t *testing.T) {
	l := newLearner(t, learner.Config{Dimension: 3, Horizon: 900, Practical: learner.PracticalConfig{Panel: 300,
		Control: 0.2,
		Caution: 1}})
	absorb(t, l, steady, 1)
	l.Stop()
	for range 3 {
		step := l.Next()
		p := step.Policy
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		got, err := p.ProbabilitiesFor([][]float64{{1, 0, 0}, {0, 1, 0}}, glm.Choice{Default: 1})
		if err != nil || got[1] != 1 || p.Control != 0.2 {
			t.Errorf("after Stop: %v, %+v, %v", got, p, err)
		}
		if !step.Done {
			absorb(t, l, steady, 1)
		}
	}
	if !l.Next().Done {
		t.Error("not over")
	}
}

func TestLastingConfigRefusesBadValues(t *testing.T) {
	good := learner.PracticalConfig{Panel: 100, Decisions: 3, HalfLife: 4, Alarm: 0.01, Control: 0.1, ControlShare: 0.2,
		Caution: 1, PriorTheta: []float64{1, 0}, PriorPrecision: symmetric.Packed{2, 1, 3}}
	for name, spoil := range map[string]func(p *learner.PracticalConfig){
		"":                       func(*learner.PracticalConfig) {},
		"panel":                  func(p *learner.PracticalConfig) { p.Panel = -1 },
		"panel of too many":      func(p *learner.PracticalConfig) { p.Panel = 1001 },
		"decisions":              func(p *learner.PracticalConfig) { p.Decisions = -1 },
		"too many decisions":     func(p *learner.PracticalConfig) { p.Decisions = learner.MaxDecisions + 1 },
		"decisions on arrival":   func(p *learner.PracticalConfig) { p.Panel = 0 },
		"half-life":              func(p *learner.PracticalConfig) { p.HalfLife = -1 },
		"half-life NaN":          func(p *learner.PracticalConfig) { p.HalfLife = math.NaN() },
		"alarm":                  func(p *learner.PracticalConfig) { p.Alarm = 1 },
		"control":                func(p *learner.PracticalConfig) { p.Control = 1 },
		"control share":          func(p *learner.PracticalConfig) { p.ControlShare = 1 },
		"share without a group":  func(p *learner.PracticalConfig) { p.Control = 0 },
		"caution":                func(p *learner.PracticalConfig) { p.Caution = -1 },
		"theta alone":            func(p *learner.PracticalConfig) { p.PriorPrecision = nil },
		"precision alone":        func(p *learner.PracticalConfig) { p.PriorTheta = nil },
		"long theta":             func(p *learner.PracticalConfig) { p.PriorTheta = []float64{11, 0} },
		"theta NaN":              func(p *learner.PracticalConfig) { p.PriorTheta = []float64{math.NaN(), 0} },
		"singular precision":     func(p *learner.PracticalConfig) { p.PriorPrecision = symmetric.Packed{1, 1, 1} },
		"indefinite precision":   func(p *learner.PracticalConfig) { p.PriorPrecision = symmetric.Packed{1, 2, 1} },
		"precision of dimension": func(p *learner.PracticalConfig) { p.PriorPrecision = symmetric.Packed{1} },
	} {
		p := good
		spoil(&p)
		_, err := learner.New(learner.Config{Dimension: 2, Radius: 3, Horizon: 1000, Practical: p})
		if name == "" && err != nil || name != "" && !errors.Is(err, learner.ErrConfig) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

package deployment

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// The announced guarantee, which devices compute for themselves, is the curator's own; and less noise is no longer what
// was configured.
func TestJointAnnouncesItsGuarantee(t *testing.T) {
	for _, epsilon := range []float64{0.1, 0.5, 1, 8} {
		for _, horizon := range []int{60, 997, 20_000} {
			c := learner.Config{Profile: glm.Joint, Family: "logistic", MaxReward: 1, Dimension: 4, Radius: 3,
				Horizon: horizon, Epsilon: epsilon, Delta: 1e-6, MinCohort: 20}
			terms := plan.DefaultTermsFor(plan.Central)
			terms.Epsilon, terms.MinCohort = epsilon, 20
			l, err := NewCurated(c, 0, terms)
			if err != nil {
				t.Fatal(err)
			}
			total := 0
			for _, n := range l.Schedule() {
				if total += n; n < 20 || n > l.config.Batch {
					t.Errorf("a cohort of %d people in micro-batches of %d", n, l.config.Batch)
				}
			}
			if total != horizon || len(l.Schedule()) != l.config.Leaves() {
				t.Errorf("%d people in %d cohorts, of %d in %d leaves", total, len(l.Schedule()), horizon,
					l.config.Leaves())
			}
			p, err := Propose(l, l.Next(), terms)
			if err != nil {
				t.Fatal(err)
			}
			g, err := plan.Guarantee(&plan.Announcement{Policy: l.Next().Policy, Plan: p.Plan, Cohort: p.Cohort,
				Encodings: p.Encodings}, 0)
			if err != nil {
				t.Fatal(err)
			}
			own := l.config.Guarantee()
			if !(g.Rho >= own.Rho*(1-1e-6) && g.Rho <= own.Rho*1.001) || !(g.Epsilon(1e-6) > 0.99*epsilon) {
				t.Errorf("epsilon %v: devices compute rho %v, the curator %v", epsilon, g.Rho, own.Rho)
			}
			terms.Epsilon *= 0.99
			if _, err := Propose(l, l.Next(), terms); !errors.Is(err, plan.ErrPlan) {
				t.Errorf("a stricter promise is made with the same noise: %v", err)
			}
		}
	}
}

// Noise that gives what was asked for by a hair is not enough: other machines may compute a hair more, and their
// devices would refuse it. The test looks for an epsilon of which the first choice of noise leaves less than that
// unused.
func TestJointLeavesRoomForOtherMachines(t *testing.T) {
	const dimension, horizon, delta = 4, 60, 1e-6
	setting := learn.Setting{Dimension: dimension, Horizon: horizon, Radius: 3, Delta: delta, Failure: jointFailure}
	var err error
	if setting.Family, err = family.New("logistic", 1); err != nil {
		t.Fatal(err)
	}
	var l *Curated
	used := func() float64 {
		g, err := l.Curator().Guarantee(dimension, setting.Family.MaxVariance(3)/math.E)
		if err != nil {
			t.Fatal(err)
		}
		return g.Epsilon(delta)
	}
	above := func(epsilon float64) bool { // of the first choice
		setting.Epsilon = epsilon
		c, err := joint.Resolve(setting, 20)
		if err != nil {
			t.Fatal(err)
		}
		l = &Curated{config: c}
		return used() > epsilon
	}
	low, high := 0.5, 8.0
	if above(low) == above(high) {
		t.Fatal("no first choice is below what was asked for, or all are")
	}
	for range 60 {
		if middle := (low + high) / 2; above(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	if above(high); !(used() > high*(1-privacy.Agreement)) {
		t.Fatalf("epsilon %v of %v: the search found no hair's breadth", used(), high)
	}
	terms := plan.DefaultTermsFor(plan.Central)
	terms.Epsilon, terms.MinCohort = high, 20
	l, err = NewCurated(learner.Config{Profile: glm.Joint, Family: "logistic", MaxReward: 1, Dimension: dimension,
		Radius: 3, Horizon: horizon, Epsilon: high, Delta: delta, MinCohort: 20}, 20, terms)
	if err != nil {
		t.Fatal(err)
	}
	if e := used(); !(e <= high*(1-privacy.Agreement)) {
		t.Errorf("epsilon %v of %v: nothing is left for other machines' rounding", e, high)
	}
}

// The structure of arms is announced, and rows of arms that do not fit are refused.
func TestJointAnnouncesTheStructure(t *testing.T) {
	s := structure.Options(2, 2)
	l, err := NewCurated(learner.Config{Profile: glm.Joint, Dimension: 4, Structure: s, Horizon: 1000, MinCohort: 20},
		0, plan.DefaultTermsFor(plan.Central))
	if err != nil {
		t.Fatal(err)
	}
	step := l.Next()
	if got := step.Policy.Structure; !reflect.DeepEqual(got, s) {
		t.Errorf("announced is %v", got)
	}
	row := step.Statistics[0][0]
	if _, err := row.Vector(nil, statistic.Record{Arm: []float64{0.5, 0, 0.5, 0}}); !errors.Is(err,
		statistic.ErrStructure) {
		t.Errorf("a row of two options: %v", err)
	}
	if _, err := row.Vector(nil, statistic.Record{Arm: []float64{0.5, 0.5, 0, 0}}); err != nil {
		t.Error(err)
	}
}

// A release that the state cannot take leaves it as it was.
func TestJointRefusesReleasesOutOfRange(t *testing.T) {
	terms := plan.DefaultTermsFor(plan.Central)
	terms.Epsilon, terms.Delta, terms.MinCohort = 4, 1e-3, 12
	l, err := NewCurated(learner.Config{Profile: glm.Joint, Dimension: 2, Radius: 2, Horizon: 36, Epsilon: 4,
		Delta:     1e-3,
		MinCohort: 12}, 0, terms)
	if err != nil {
		t.Fatal(err)
	}
	n := l.config.ReleaseDim()
	far := make([]int64, n)
	far[n-1] = 1 << 40 // an estimate outside its ball
	large := make([]int64, n)
	large[0] = 1 << 53
	for _, given := range [][]int64{nil, make([]int64, n-1), far, large} {
		if err := l.Absorb(given); err == nil || l.used != 0 || l.state.Leaves != 0 {
			t.Errorf("%v: %v", given, err)
		}
	}
	for range 3 {
		if err := l.Destroyed(); err != nil {
			t.Fatal(err)
		}
	}
	if !l.Next().Done || !errors.Is(l.Destroyed(), learner.ErrDone) || !errors.Is(l.Absorb(far), learner.ErrDone) {
		t.Error("the horizon does not end")
	}
}

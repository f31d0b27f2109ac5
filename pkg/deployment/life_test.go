package deployment_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const decisions = 3 // of one report

// lasting is a small deployment of panels whose people come back, with a control group.
func lasting() wire.Configuration {
	c := configuration(glm.Practical)
	c.Learner.Horizon, c.Learner.Practical = 3*people, learner.PracticalConfig{Panel: people, Decisions: decisions,
		Control: 0.2}
	c.Terms.Registered, c.Terms.Decisions, c.Terms.Records, c.Terms.Period = 100, decisions, 2, 5
	c.Anytime = true
	return c
}

var commitment = bytes.Repeat([]byte{9}, 32)

// announcePanel is announce with a commitment.
func (r *run) announcePanel() *plan.Announcement {
	r.t.Helper()
	a, err := r.Next(key, commitment)
	if err != nil {
		r.t.Fatal(err)
	}
	r.a = a
	r.digest = [32]byte{byte(a.Epoch), 1}
	r.Announced(a, r.digest)
	return a
}

// Panels go on after their horizon in cohorts of one size under one plan, for a person's whole life as promised, and
// every announcement says the same of them, with the schema and the commitment that it was given.
func TestPanelsGoOnUnderOnePlan(t *testing.T) {
	c := lasting()
	schema, err := feature.Parse([]byte(
		`{"version":1,"arms":[{"name":"length","kind":"number","low":0,"high":9}],"terms":[["bias"],["length"]]}`))
	if err != nil {
		t.Fatal(err)
	}
	c.Schema = schema.Canonical()
	r := begin(t, c)
	var first *plan.Announcement
	for epoch := uint64(1); epoch <= 4; epoch++ {
		if at, previous := r.Position(); at != epoch || (len(previous) == 0) != (epoch == 1) {
			t.Fatalf("epoch %d after %x, want epoch %d", at, previous, epoch)
		}
		a := r.announcePanel()
		if first == nil {
			first = a
		}
		if a.Final || a.Epoch != epoch || !bytes.Equal(a.Commitment, commitment) || !bytes.Equal(a.Schema, c.Schema) ||
			a.Cohort != first.Cohort || a.Cohort.Size != people || !a.Plan.Panel.Equal(first.Plan.Panel) ||
			a.Plan.Panel.Registered != 100 || a.Plan.Decisions != decisions || a.Plan.Records != 2 ||
			a.Plan.Period != 5 {
			t.Fatalf("epoch %d: announced %+v", epoch, a)
		}
		g, _, err := plan.Lifetime(a)
		if eps := g.Epsilon(c.Terms.Delta); err != nil || eps > c.Terms.Epsilon || eps < 0.5*c.Terms.Epsilon {
			t.Errorf("epoch %d: %v over two epochs, promised is %v: %v", epoch, eps, c.Terms.Epsilon, err)
		}
		if kinds := kinds(a); !slices.Equal(kinds, []statistic.Kind{statistic.Hessian, statistic.Gradient,
			statistic.Rewards}) {
			t.Fatalf("the releases are %v", kinds)
		}
		counts := r.counts(people - 1)
		learned := r.absorb(counts)
		if learned.Lift == nil || learned.Total == nil || learned.Total.Reports != epoch*(people-1) ||
			learned.Lift.Reports != people-1 || learned.Action != "" {
			t.Errorf("epoch %d: %+v, %+v, %q", epoch, learned.Lift, learned.Total, learned.Action)
		}
		if tested := learned.Unchanged > 0; tested != (epoch > 1) {
			t.Errorf("epoch %d: unchanged %v", epoch, learned.Unchanged)
		}
		checkScaled(t, a, counts, learned)
	}
	if n := len(r.Schedule()); n != 6 { // of two horizons
		t.Errorf("%d panels are planned", n)
	}
}

func kinds(a *plan.Announcement) (all []statistic.Kind) {
	for _, of := range a.Releases() {
		all = append(all, of.Statistic)
	}
	return all
}

// checkScaled compares what was learned with the sums of reports, times the decisions of one.
func checkScaled(t *testing.T, a *plan.Announcement, counts *wire.Counts, learned *wire.Learned) {
	t.Helper()
	single := a.Clone()
	single.Plan.Decisions = 0
	sums, err := deployment.Sums(single, counts)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sums {
		for j := range s.Values {
			if learned.Sums[i].Values[j] != decisions*s.Values[j] ||
				learned.Sums[i].Variance[j] != decisions*decisions*s.Variance[j] {
				t.Fatalf("release %d, coordinate %d: %v with variance %v, of reports %v and %v", i, j,
					learned.Sums[i].Values[j], learned.Sums[i].Variance[j], s.Values[j], s.Variance[j])
			}
		}
	}
}

// The rules act when their window is full and its upper end is below their floor, which here every one is or none; a
// new machine that absorbs the same comes to the same.
func TestRulesTakePoliciesBack(t *testing.T) {
	const every, none = 3.0, -3.0 // a lift is within [-1, 1]
	number := func(x float64) *float64 { return &x }
	for _, c := range []struct {
		name  string
		rules plan.Rules
		want  string // after each epoch: r for rollback, s for stop
	}{
		{"high lifts", plan.Rules{Rollback: number(none), Stop: number(none)}, "--"},
		// Where there is no policy before it, nothing is taken back.
		{"rollback", plan.Rules{Rollback: number(every)}, "-r-r"},
		{"rollback over three", plan.Rules{Rollback: number(every), Window: 3}, "--r--r"},
		{"stop", plan.Rules{Stop: number(every)}, "s--"},
		{"stop over two", plan.Rules{Stop: number(every), Window: 2}, "-s-"},
		{"both", plan.Rules{Rollback: number(every), Stop: number(every), Window: 2}, "-s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := lasting()
			conf.Rules = c.rules
			r := begin(t, conf)
			var all []*wire.Learned
			var policies []glm.Policy
			got := ""
			for range c.want {
				a := r.announcePanel()
				policies = append(policies, a.Policy)
				learned := r.absorb(r.counts(people))
				all = append(all, learned)
				switch learned.Action {
				case wire.ActionRollback:
					got += "r"
				case wire.ActionStop:
					got += "s"
				default:
					got += "-"
				}
			}
			if got != c.want {
				t.Fatalf("the rules did %s, want %s", got, c.want)
			}
			policies = append(policies, r.announcePanel().Policy)
			if c.name == "both" {
				again := begin(t, conf)
				for k := range all {
					again.announcePanel()
					if same := again.absorb(again.counts(people)); !reflect.DeepEqual(same, all[k]) {
						t.Errorf("another machine learned %+v, want %+v", same, all[k])
					}
				}
			}
			stopped := false
			for k, action := range c.want {
				next := policies[k+1]
				if action == 'r' && !slices.Equal(next.Theta, policies[k-1].Theta) {
					t.Errorf("after epoch %d the estimate is %v, that of the epoch before was %v", k+1, next.Theta,
						policies[k-1].Theta)
				}
				stopped = stopped || action == 's'
				if (next.Play == glm.PlayDefault) != stopped {
					t.Errorf("after epoch %d the policy plays %s", k+1, next.Play)
				}
			}
		})
	}
}

// A destroyed cohort is compared with nothing, and leaves the window as it was.
func TestADestroyedPanelIsNotCompared(t *testing.T) {
	floor := 3.0
	c := lasting()
	c.Rules = plan.Rules{Stop: &floor, Window: 2}
	r := begin(t, c)
	for _, want := range []string{"", "destroyed", wire.ActionStop} {
		a := r.announcePanel()
		counts := r.counts(people)
		if want == "destroyed" {
			counts.Destroyed, counts.Releases = true, nil
		}
		learned := r.absorb(counts)
		if want == "destroyed" {
			if learned.Lift != nil || learned.Total != nil || learned.Action != "" || learned.Unchanged != 0 {
				t.Errorf("%+v", learned)
			}
		} else if learned.Action != want {
			t.Errorf("epoch %d: %q, want %q", a.Epoch, learned.Action, want)
		}
	}
}

// What contradicts itself, or goes with no panel, is refused before anything is announced.
func TestWhatDoesNotLastIsRefused(t *testing.T) {
	floor := 0.0
	for name, change := range map[string]func(*wire.Configuration){
		"no registered devices": func(c *wire.Configuration) { c.Terms.Registered = 0 },
		"no panel":              func(c *wire.Configuration) { c.Learner.Practical.Panel = 0 },
		"fewer registered":      func(c *wire.Configuration) { c.Terms.Registered = people - 1 },
		"other decisions":       func(c *wire.Configuration) { c.Terms.Decisions = 2 },
		"more records":          func(c *wire.Configuration) { c.Terms.Records = 6 },
		"negative":              func(c *wire.Configuration) { c.Terms.Records, c.Terms.Period = -1, 0 },
		"paper":                 func(c *wire.Configuration) { c.Learner.Profile = glm.Paper; c.Anytime = false },
		"window":                func(c *wire.Configuration) { c.Rules.Window = -1 },
		"rules without control": func(c *wire.Configuration) {
			c.Learner.Practical.Control, c.Rules.Stop = 0, &floor
		},
		"records without panels": func(c *wire.Configuration) {
			c.Terms.Registered, c.Terms.Decisions, c.Learner.Practical = 0, 0,
				learner.PracticalConfig{FirstCohort: people}
		},
		"a schema that is none": func(c *wire.Configuration) { c.Schema = []byte("{") },
	} {
		c := lasting()
		change(&c)
		if _, err := deployment.New(c); err == nil || !strings.HasPrefix(err.Error(), "deployment: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := deployment.New(lasting()); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(func() error {
		c := lasting()
		c.Terms.Registered = 0
		_, err := deployment.New(c)
		return err
	}(), learner.ErrConfig) {
		t.Error("the error does not say that the configuration is wrong")
	}
}

package device

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// panelPlan is an announcement of panels of 400 out of 3000, planned for the default epsilon over so many epochs.
func panelPlan(t *testing.T, records, period int) *plan.Announcement {
	t.Helper()
	learner := must(learner.New(learner.Config{Dimension: 2, Horizon: 5000}))
	step := learner.Next()
	step.Cohort = 400
	terms := plan.DefaultTermsFor(plan.Shares)
	terms.Registered, terms.Dishonest, terms.Decisions = 3000, 0.01, 7
	terms.Records, terms.Period, terms.ServerNoise = records, period, 1
	a := must(plan.Propose(step, terms)).Announced(step)
	return a
}

// Limits are held against what a plan of panels reveals over all epochs that one device may report in: a device that
// registers can serve all of them. The guarantees for the ledger are those of one epoch.
func TestLimitsAreForAllEpochsOfAPanelPlan(t *testing.T) {
	a := panelPlan(t, 4, 0)
	together, alone, err := plan.Lifetime(a)
	if err != nil {
		t.Fatal(err)
	}
	l := DefaultLimits()
	g, gAlone, err := l.check(a)
	if err != nil {
		t.Fatalf("default limits refuse the default plan: %v", err)
	}
	if privacy.Repeat(g, 4) != together || privacy.Repeat(gAlone, 4) != alone {
		t.Errorf("one epoch: %+v, %+v", g, gAlone)
	}
	ledger := privacy.Ledger{Epsilon: l.Epsilon, Delta: l.Delta}.Under(a.Plan.PerPerson(), int(a.Plan.Period), 0)
	for epoch := range uint64(4) {
		if ledger, err = ledger.Ask(epoch+1, start, 2, g, gAlone); err != nil {
			t.Fatalf("epoch %d of a plan that the limits allow: %v", epoch+1, err)
		}
	}
	if _, err := ledger.Ask(5, start, 2, g, gAlone); !errors.Is(err, privacy.ErrRecordUsed) {
		t.Errorf("a fifth of four epochs: %v", err)
	}
	just := together.Epsilon(l.Delta)
	for name, c := range map[string]struct {
		change func(*Limits)
		limit  string
		says   string
	}{
		"epsilon that all epochs just keep to": {func(l *Limits) { l.Epsilon = just }, "", ""},
		"epsilon that one epoch keeps to": {func(l *Limits) { l.Epsilon = 0.999 * just }, "epsilon",
			"in 4 epochs"},
		"a delta below the tails of all epochs": {func(l *Limits) { l.Delta = together.TailDelta * 0.999 }, "epsilon",
			"in 4 epochs"},
		"alone, just": {func(l *Limits) { l.EpsilonAlone = alone.Epsilon(l.Delta) }, "", ""},
		"alone, not over all epochs": {func(l *Limits) { l.EpsilonAlone = 0.999 * alone.Epsilon(l.Delta) },
			"epsilon_alone",
			"in 4 epochs"},
		"as many records":  {func(l *Limits) { l.Records = 4 }, "", ""},
		"fewer records":    {func(l *Limits) { l.Records = 3 }, "records", "in up to 4 epochs, this device allows 3"},
		"more liars":       {func(l *Limits) { l.Dishonest, l.Epsilon = 0.05, just }, "epsilon", "bounded only by"},
		"as many liars":    {func(l *Limits) { l.Dishonest, l.Epsilon = 0.01, just }, "", ""},
		"a number of them": {func(l *Limits) { l.MaxDishonest, l.Epsilon = 60, just }, "epsilon", "bounded only by"},
	} {
		l := DefaultLimits()
		c.change(&l)
		_, _, err := l.check(a)
		var weak *WeakPlan
		switch {
		case c.limit == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.limit != "" && (!errors.As(err, &weak) || weak.Limit != c.limit ||
			!strings.Contains(weak.Reason, c.says)):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A budget that begins anew every period bounds nothing over the deployment: people must have agreed to that, and to
// how often.
func TestABudgetPerPeriodNeedsConsent(t *testing.T) {
	a := timed(t, 2, 28, 48*time.Hour)
	for _, c := range []struct {
		period int
		says   string
	}{
		{0, "begins anew every 28 epochs, so that nothing bounds"}, {29, "no sooner than after 29"}, {28, ""}, {7, ""},
	} {
		l := DefaultLimits()
		l.Period = c.period
		_, _, err := l.check(a)
		var weak *WeakPlan
		if c.says == "" && err != nil ||
			c.says != "" && (!errors.As(err, &weak) || weak.Limit != "period" ||
				!strings.Contains(weak.Reason, c.says)) {
			t.Errorf("a device that allows periods of %d: %v", c.period, err)
		}
	}
	l := DefaultLimits()
	l.Period, l.Epsilon = 28, 0.5
	if _, _, err := l.check(a); err == nil || !strings.Contains(err.Error(), "in 2 of any 28 epochs") {
		t.Errorf("a smaller epsilon: %v", err)
	}
	arrival := a.Clone()
	arrival.Plan.Panel, arrival.Plan.Decisions, arrival.Plan.Records, arrival.Plan.Period = nil, 0, 0, 0
	l = DefaultLimits()
	l.Records = 1
	if _, _, err := l.check(arrival); err != nil {
		t.Errorf("who arrives reports once: %v", err)
	}
	for _, l := range []Limits{{Records: -1}, {Period: -1}} {
		found := 0
		for _, f := range l.Faults() {
			if f.Limit == "records" || f.Limit == "period" {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%+v has %d of these faults", l, found)
		}
	}
}

// A registered device of a plan with a period reports in as many epochs of each period as planned, no more, and goes on
// in the next one: one that stopped after its first period would be missing for a reason that nobody planned for.
func TestADeviceServesEveryPeriod(t *testing.T) {
	plain := timed(t, 2, 5, 48*time.Hour)
	l := DefaultLimits()
	l.Period = 5
	g, alone, err := l.check(plain)
	if err != nil {
		t.Fatal(err)
	}
	s := must(New(Config{Limits: l})).NewState(3).Register().Confirm([]byte("yes"))
	var served []uint64
	for epoch := uint64(1); epoch <= 16; epoch++ {
		a := plain.Clone()
		a.Epoch = epoch
		next, err := s.Ask(&Announced{Announcement: a, Releases: 2, judged: judgedAs(g, alone)}, start)
		if errors.Is(err, privacy.ErrRecordUsed) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		s = next
		s.Ledger = must(must(s.Ledger.Promise(epoch, start)).Spend(epoch))
		served = append(served, epoch)
	}
	if want := []uint64{1, 2, 6, 7, 11, 12, 16}; !slices.Equal(served, want) {
		t.Errorf("the device reports in epochs %v, want %v", served, want)
	}
}

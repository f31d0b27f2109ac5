package plan

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// panelTerms are the default terms of a channel for panels of 3000 devices or more.
func panelTerms(c Channel) Terms {
	t := DefaultTermsFor(c)
	t.Registered, t.Dishonest, t.Decisions, t.Records = 3000, 0.01, 7, 4
	return t
}

// controlled is a practical step with a release of rewards, which gets this share of mu^2.
func controlled(t interface{ Fatal(...any) }, cfg learner.Config, cohort int, norm, share float64) learner.Step {
	step := stepAt(t, cfg, cohort, norm)
	family, err := family.New(step.Policy.Family, step.Policy.MaxReward)
	if err != nil {
		t.Fatal(err)
	}
	s, err := statistic.NewRewards(family, cfg.Dimension)
	if err != nil {
		t.Fatal(err)
	}
	step.Statistics[0] = append(step.Statistics[0], s)
	step.Shares = [][]float64{{0.25 * (1 - share), 0.75 * (1 - share), share}}
	return step
}

// In every channel, with a control group and without: a plan of panels says what its terms say, a device finds that all
// epochs of one person keep to the budget, panels' tails included, and that the budget is used.
func TestPanelsKeepToTheBudgetOverAllEpochs(t *testing.T) {
	plain := stepAt(t, learner.Config{Dimension: 3, Horizon: 5000}, 400, 0.7)
	control := controlled(t, learner.Config{Dimension: 3, Horizon: 5000}, 400, 0.7, 0.1)
	for _, of := range []Terms{{Channel: Shuffle}, {Channel: Shares}, {Channel: Local}, {Channel: Central},
		{Channel: Shares, ServerNoise: 1}} {
		for _, records := range []int{1, 12} {
			terms := panelTerms(of.Channel)
			terms.ServerNoise, terms.Records, terms.Period = of.ServerNoise, records, 30
			step, tail := plain, DefaultTail
			if records == 12 {
				step, tail = control, 3e-7
				terms.Tail = tail
			}
			p, err := Propose(step, terms)
			if err != nil {
				t.Fatalf("%+v: %v", terms, err)
			}
			a := p.Announced(step)
			want := Panel{Registered: 3000, Dishonest: 0.01, Tail: tail / float64(records)}
			if a.Plan.Panel == nil || *a.Plan.Panel != want || a.Plan.Decisions != 7 || a.Plan.PerPerson() != records ||
				a.Plan.Period != 30 || a.Plan.Epsilon != terms.Epsilon || a.Plan.Delta != terms.Delta {
				t.Fatalf("%+v: %+v", terms, a.Plan)
			}
			if m := privacy.PanelDishonest(0.01, 400, want.Tail); int(a.Cohort.MaxDishonest) != m ||
				a.Dishonest(0.01) != m {
				t.Errorf("%d of a panel may be dishonest, want %d", a.Cohort.MaxDishonest, m)
			}
			together, alone, err := Lifetime(a)
			if err != nil {
				t.Fatal(err)
			}
			eps := together.Epsilon(terms.Delta)
			full := of.ServerNoise == 0 // with servers' noise beside it a plan reveals less
			if !(eps <= terms.Epsilon) || full && of.Channel != Shuffle && !(eps > 0.985*terms.Epsilon) ||
				of.Channel == Shuffle && !(eps > 0.9*terms.Epsilon) {
				t.Errorf("%+v: epsilon %v over %d epochs", of, eps, records)
			}
			if of.ServerNoise == 1 && !(alone.Epsilon(terms.Delta) <= terms.Epsilon) {
				t.Errorf("%+v: epsilon %v alone", of, alone.Epsilon(terms.Delta))
			}
			if math.Abs(p.Details.Epsilon-eps) > 1e-12 || p.Details.Delta != terms.Delta {
				t.Errorf("%+v: details say epsilon %v at delta %v, it is %v", of, p.Details.Epsilon, p.Details.Delta,
					eps)
			}
			one, err := Guarantee(a, 0)
			if err != nil {
				t.Fatal(err)
			}
			if together != privacy.Repeat(one, records) || one.TailDelta < want.Tail {
				t.Errorf("%+v: one epoch %+v, %d of them %+v", of, one, records, together)
			}
			if _, err := CheckRound(a); err != nil {
				t.Error(err)
			}
		}
	}
}

// A device believes nothing of a panel: what weakens it costs epsilon or is refused, and a number of dishonest reports
// that is smaller than what follows from the share changes nothing.
func TestWeakerPanelsAreNoticed(t *testing.T) {
	step := controlled(t, learner.Config{Dimension: 3, Horizon: 5000}, 400, 0.7, 0.1)
	p, err := Propose(step, panelTerms(Shuffle))
	if err != nil {
		t.Fatal(err)
	}
	good := p.Announced(step)
	before, err := Guarantee(good, 0)
	if err != nil {
		t.Fatal(err)
	}
	const delta = DefaultDelta / 4
	for name, c := range map[string]struct {
		change func(*Announcement)
		says   string
	}{
		"more of the registered are dishonest": {func(a *Announcement) { a.Plan.Panel.Dishonest = 0.2 }, ""},
		"a larger tail":                        {func(a *Announcement) { a.Plan.Panel.Tail = 1e-7 }, ""},
		"a larger scale of rewards":            {func(a *Announcement) { a.Encodings[2].Scale *= 1.01 }, "at scale"},
		"less noise on rewards": {func(
			a *Announcement) {
			a.Plan.Rounds[0].Releases[2].NoiseBits--
			a.Encodings[2].NoiseBits--
		}, ""},
		"a larger shift of rewards": {func(
			a *Announcement) {
			a.Plan.Rounds[0].Releases[2].Shift *= 1.1
			a.Encodings[2].Scale *= 1.1
		}, ""},
		"a tail that is no number": {func(a *Announcement) { a.Plan.Panel.Tail = math.NaN() },
			"part of delta"},
		"a tail below 0": {func(a *Announcement) { a.Plan.Panel.Tail = -1e-9 }, "part of delta"},
		"no tail, and some are dishonest": {func(a *Announcement) { a.Plan.Panel.Tail = 0 },
			"no noise to count on"},
		"a share that is no number": {func(a *Announcement) { a.Plan.Panel.Dishonest = math.NaN() },
			"share"},
		"all are dishonest": {func(a *Announcement) { a.Plan.Panel.Dishonest = 1 }, "share"},
		"fewer registered than drawn": {func(a *Announcement) { a.Plan.Panel.Registered = 399 },
			"drawn from 399"},
		"a second round": {func(a *Announcement) {
			a.Plan.Rounds = append(a.Plan.Rounds,
				a.Plan.Rounds[0])
		}, "one round"},
		"more decisions than can be added": {func(a *Announcement) { a.Plan.Decisions = MaxDecisions + 1 },
			"decisions"},
		"a curator": {func(a *Announcement) { a.Plan.Curator = &Curator{} }, "one round"},
		"a statistic that is not known": {func(
			a *Announcement) {
			a.Plan.Rounds[0].Releases[2].Statistic = "rewards!"
		}, "not known"},
		"rewards without a range of rewards": {func(
			a *Announcement) {
			a.Policy.Family = "poisson"
			a.Policy.MaxReward = 9
		}, "at scale"},
		"a smaller minimum":                     {func(a *Announcement) { a.Cohort.Minimum -= 50 }, ""},
		"more dishonest reports than the share": {func(a *Announcement) { a.Cohort.MaxDishonest += 50 }, ""},
	} {
		a := good.Clone()
		c.change(a)
		g, err := Guarantee(a, 0)
		switch {
		case c.says != "":
			if !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), c.says) || g.Promises() {
				t.Errorf("%s: %v, with %+v", name, err, g)
			}
			if _, err := Alone(a); c.says != "no noise to count on" && err == nil {
				t.Errorf("%s: accepted if nobody else is honest", name)
			}
			if _, err := Observers(a, 0); c.says != "no noise to count on" && err == nil {
				t.Errorf("%s: accepted for observers", name)
			}
		case err != nil || !(g.Epsilon(delta) > before.Epsilon(delta)):
			t.Errorf("%s: epsilon %v as before, %v; %v", name, g.Epsilon(delta), before.Epsilon(delta), err)
		}
	}
	fewer := good.Clone()
	fewer.Cohort.MaxDishonest = 0
	if g, err := Guarantee(fewer, 0); err != nil || g != before {
		t.Errorf("a number that the share contradicts counts: %+v, %v", g, err)
	}
	seen, err := Observers(fewer, 0)
	if err != nil || seen[0].Together != before {
		t.Errorf("observers: %+v, %v", seen, err)
	}
	// A device's own share is one of the registered devices.
	if own, err := Guarantee(good, good.Dishonest(0.05)); err != nil || !(own.Mu > before.Mu) {
		t.Errorf("5 %% dishonest: %+v, before %+v, %v", own, before, err)
	}
	arrival := good.Clone()
	arrival.Plan.Panel = nil
	if m := arrival.Dishonest(0.05); m != 20 || arrival.Dishonest(math.NaN()) != 400 || good.Dishonest(0.05) <= m {
		t.Errorf("5 %% of 400 who arrive are %d", m)
	}
}

// The release of rewards is certified beside Hessian and gradient, which keep what they gain by being certified
// together.
func TestRewardsAreCertifiedBesideThePair(t *testing.T) {
	step := controlled(t, learner.Config{Dimension: 4, Horizon: 5000}, 600, 1, 0.1)
	for _, c := range []Channel{Shuffle, Shares} {
		p, err := Propose(step, DefaultTermsFor(c))
		if err != nil {
			t.Fatal(err)
		}
		a := p.Announced(step)
		g, err := Guarantee(a, 0)
		if err != nil {
			t.Fatal(err)
		}
		var releases []privacy.Release
		honest := int(a.Cohort.Minimum - a.Cohort.MaxDishonest)
		for _, r := range a.Plan.Rounds[0].Releases {
			one, err := planned(a, r, counted(c, r, honest), map[statistic.Kind]int{})
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, one)
		}
		all, err := new(certificates).apart(releases)
		if err != nil {
			t.Fatal(err)
		}
		rewards, err := new(certificates).apart(releases[2:])
		if err != nil {
			t.Fatal(err)
		}
		two := a.Clone()
		two.Plan.Rounds[0].Releases, two.Encodings = two.Plan.Rounds[0].Releases[:2], two.Encodings[:2]
		pair, err := Guarantee(two, 0)
		if err != nil {
			t.Fatal(err)
		}
		if want := privacy.Compose(pair, rewards); !(g.Mu <= want.Mu*1.002) || !(g.Mu >= want.Mu*0.99) {
			t.Errorf("%s: mu %v, the pair and the rewards have %v", c, g.Mu, want.Mu)
		}
		if !(g.Mu < 0.99*all.Mu) || math.Abs(g.TailDelta-all.TailDelta) > 1e-9*all.TailDelta {
			t.Errorf("%s: %+v together, %+v apart", c, g, all)
		}
	}
}

func TestTermsOfPanelsThatContradictEachOtherAreRefused(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 2, Horizon: 5000}, 400, 0.7)
	for name, c := range map[string]struct {
		change func(*Terms)
		says   string
	}{
		"decisions without panels":        {func(t *Terms) { t.Registered, t.Records = 0, 0 }, "registered"},
		"records without panels":          {func(t *Terms) { t.Registered, t.Decisions = 0, 0 }, "registered"},
		"a tail without panels":           {func(t *Terms) { *t = DefaultTerms(); t.Tail = 1e-9 }, "registered"},
		"a period without panels":         {func(t *Terms) { *t = DefaultTerms(); t.Period = 5 }, "registered"},
		"fewer registered than a panel":   {func(t *Terms) { t.Registered = 399 }, "at least 399"},
		"fewer than nobody":               {func(t *Terms) { t.Registered = -1 }, "-1 registered"},
		"a period below its records":      {func(t *Terms) { t.Period = 3 }, "period of 3"},
		"a period below 0":                {func(t *Terms) { t.Period = -1 }, "period of -1"},
		"decisions below 0":               {func(t *Terms) { t.Decisions = -1 }, "-1 decisions in one report, want"},
		"too many decisions":              {func(t *Terms) { t.Decisions = MaxDecisions + 1 }, "want 0 to 4096"},
		"records below 0":                 {func(t *Terms) { t.Records = -1 }, "report in"},
		"a share of 1":                    {func(t *Terms) { t.Dishonest = 1 }, "share 1"},
		"a tail below 0":                  {func(t *Terms) { t.Tail = -1e-9 }, "-1e-09 of delta"},
		"a tail of all of delta":          {func(t *Terms) { t.Tail = 1e-6 }, "less than delta"},
		"a tail that is no number":        {func(t *Terms) { t.Tail = math.NaN() }, "NaN of delta"},
		"a delta below the default tail":  {func(t *Terms) { t.Delta = 1e-9 }, "set a smaller tail"},
		"more dishonest than honest ones": {func(t *Terms) { t.Dishonest = 0.96 }, "no noise to count on"},
	} {
		terms := panelTerms(Shuffle)
		c.change(&terms)
		if p, err := Propose(step, terms); err == nil || !strings.Contains(err.Error(), c.says) || p != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	rounds := step
	rounds.Statistics = append(rounds.Statistics, step.Statistics[0])
	rounds.Shares = [][]float64{{1, 1}, {1, 1}}
	if _, err := Propose(rounds, panelTerms(Shuffle)); !errors.Is(err, ErrPlan) ||
		!strings.Contains(err.Error(), "practical") {
		t.Errorf("two rounds: %v", err)
	}
	if _, err := ProposeCurated(step, panelTerms(Central), Curator{}); !errors.Is(err, ErrPlan) ||
		!strings.Contains(err.Error(), "panels") {
		t.Errorf("a curator: %v", err)
	}
	// Where no device may be dishonest, nothing of delta is spent on panels.
	honest := panelTerms(Shares)
	honest.Dishonest = 0
	p, err := Propose(step, honest)
	if err != nil || p.Plan.Panel.Tail != 0 || p.Cohort.MaxDishonest != DefaultDishonestReports {
		t.Errorf("%+v, %v", p, err)
	}
}

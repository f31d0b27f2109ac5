package explain

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// cost says what was spent and what is left of the promise. What left the shuffler is spent, whatever became of it.
func (f *Facts) cost() Section {
	s := Section{Title: "What it cost each person who took part, at most"}
	protected := "all that is ever made of their record"
	if f.Plan.Panel != nil {
		protected = f.Plan.Panel.Unit
	}
	if f.Terms {
		s.add("The terms promise each person epsilon %v at delta %g, for %s.", f.Promise, f.Delta, protected)
	} else {
		s.add("No terms are logged. The plan claims epsilon %v at delta %g, for %s.", f.Promise, f.Delta, protected)
	}
	epsilon, alone, spent, open := 0.0, 0.0, false, false
	for _, x := range f.Rounds {
		open = open || x.Outcome == Open
		if x.Left {
			spent = true
			epsilon, alone = math.Max(epsilon, float64(x.Epsilon)), math.Max(alone, float64(x.Alone))
		}
	}
	switch {
	case !spent && open:
		s.add("The logs do not say yet whether anything left the shuffler.")
		return s
	case !spent:
		s.add("By the shuffler's word nothing left it that says anything of a person. If that is so, nothing was " +
			"spent.")
		return s
	case f.Plan.Panel != nil:
		f.again(&s, epsilon, alone)
		return s
	}
	s.add("With the reports that left, counted or not, all releases that the plan makes of a record spend %s. %s",
		bound(privacy.Epsilon(epsilon)), remainder(f.Promise, epsilon))
	s.add("If no other device is honest: %s.", bound(privacy.Epsilon(alone)))
	s.add("A device takes part in one cohort, unless its owner lets it more often. Its own ledger keeps that, and no " +
		"log shows it. For whoever is in several cohorts, what these spend adds up.")
	return s
}

// again says what a panel cost a person who can be in several.
func (f *Facts) again(s *Section, epsilon, alone float64) {
	q := f.Plan.Panel
	s.add("With the reports that left, counted or not, this epoch spends %s. If no other device is honest: %s.",
		bound(privacy.Epsilon(epsilon)), bound(privacy.Epsilon(alone)))
	s.add("A device may be in %s. All of them together, with the fewest reports in each, spend %s. %s",
		epochs(q.Records, q.Period), bound(q.Lifetime), remainder(f.Promise, float64(q.Lifetime)))
	s.add("If no other device is honest: %s.", bound(q.LifetimeAlone))
	s.add("What a person spends in several panels adds up. In how many each one was, no log shows: the device's " +
		"ledger has it.")
	if q.Period > 0 {
		s.add("Who stays longer than %d epochs spends the budget of a period again, and nothing bounds all periods "+
			"together.",
			q.Period)
	}
}

// epochs is in how many a device may report.
func epochs(records, period uint32) string {
	if period > 0 {
		return fmt.Sprintf("%d of any %d epochs in a row", records, period)
	}
	return many(records, "such epoch")
}

// remainder says how much of a promise is left, rounded down.
func remainder(promise, spent float64) string {
	const scale = 1e4 // as privacy.Spell
	if rest := promise - spent; rest >= 0 {
		return fmt.Sprintf("Epsilon %.4f of the promise is left.", math.Floor(rest*scale)/scale)
	}
	return "THAT IS MORE THAN WAS PROMISED."
}

// What the logs cannot show.
const (
	unseen  = "That the noise was added, and that it was random, no log shows."
	leftOut = "a malicious one can leave honest devices out of it, which nobody sees, so that the share of dishonest " +
		"ones is larger"
)

// protects says whose noise protects a person.
func (f *Facts) protects() Section {
	p, s := f.Plan, Section{Title: "What protects each person"}
	if p.Curator {
		s.add("By the plan the analyzer adds noise to all that leaves it. Devices add none.")
		s.add("%s", unseen)
		s.add("The guarantee %s.", f.RestsOn)
		return s
	}
	devices, shuffler, analyzer := false, false, false
	for _, v := range p.Releases {
		devices, shuffler, analyzer = devices || v.NoiseBits > 0, shuffler || v.Shuffler > 0, analyzer || v.Analyzer > 0
	}
	if f.Channel == plan.Local {
		s.add("The noise of the person's own device, before anything leaves it. Nobody else is needed.")
	} else if devices {
		s.add("The noise of %s: every one adds its own, and of the %d reports that must come at least, %d may be "+
			"dishonest without their noise being missed.", many(p.Minimum-min(p.Minimum, p.Dishonest), "honest device"),
			p.Minimum,
			p.Dishonest)
	} else {
		s.add("No noise of devices.")
	}
	if q := p.Panel; q != nil && q.Dishonest > 0 && f.Channel != plan.Local {
		s.add("If at most %g %% of the devices of the pool are dishonest, more than %d of the panel are with "+
			"probability %.2g at most, which is part of delta. The shuffler says who is in the pool: "+
			"%s.", 100*q.Dishonest, p.Dishonest,
			q.Tail, leftOut)
	}
	switch {
	case shuffler && analyzer:
		s.add("Noise of both servers. Whoever adds noise knows it, so each server's protects from the other and the " +
			"public.")
	case shuffler:
		s.add("Noise of the shuffler, which protects from everybody but the shuffler.")
	case analyzer:
		s.add("Noise of the analyzer, which protects from everybody but the analyzer.")
	case f.Channel != plan.Local:
		s.add("No noise of servers: if all other devices are dishonest, only the person's own noise is left.")
	}
	s.add("%s", unseen)
	s.add("The guarantee %s.", f.RestsOn)
	return s
}

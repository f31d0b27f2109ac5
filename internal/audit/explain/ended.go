package explain

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// tellEnd says how a round ended, and whose word that is. Why a server did something is in no statement, so no
// sentence here says it.
func (f *Facts) tellEnd(x Round) Section {
	title, unsaid := x.Outcome, !x.Manifest && x.Shared == 0
	if x.Outcome == audit.RefusedOutcome {
		title = "REFUSED by the analyzer after it had left"
		if unsaid {
			title = "REFUSED by the analyzer"
		}
	}
	s := Section{Title: fmt.Sprintf("Release %d.%d of %q: %s", x.Epoch, x.Round, f.Deployment, title)}
	if x.Outcome == Open {
		s.add("It was announced, and neither server has signed how it ended.")
		return s
	}
	s.add("%s", f.states(x))
	if x.Again {
		s.add("THE SHUFFLER SIGNED FURTHER MANIFESTS OF THE ROUND, by which messages left or may have left. What " +
			"follows is of the first one.")
	}
	switch x.Outcome {
	case wire.Released.String():
		f.tellOutput(&s, x)
		s.add("The analyzer signed counts of it.")
	case wire.Destroyed.String():
		f.tellDestroyed(&s, x)
	case audit.RefusedOutcome:
		if unsaid {
			s.add("The analyzer signed that it counts none of it. No statement of the shuffler says that " +
				"anything left. The audit takes it as spent, because only what left can be refused.")
			break
		}
		f.tellOutput(&s, x)
		s.add("The analyzer signed that it counts none of it. It had what left: its refusal saves nobody's privacy. " +
			"No statement says why. An honest analyzer refuses where messages do not open, are duplicates or do not " +
			"fit the manifest; another one can refuse what it does not like, and so choose what counts. Ask its " +
			"operator, and count again what is retained.")
	default:
		f.tellOutput(&s, x)
		s.add("The analyzer signed no counts of it so far. It had what left: that is spent, whatever it signs later.")
	}
	return s
}

// states says what the shuffler states of who took part, held against the announced minimum.
func (f *Facts) states(x Round) string {
	if !x.Manifest {
		return fmt.Sprintf("The shuffler's log does not say how the round ended. The announced minimum is %s.",
			many(f.Plan.Minimum, "report"))
	}
	who := many(x.Enrolled, "device") + " enrolled"
	if f.Plan.Panel != nil {
		who = fmt.Sprintf("the panel has %s", many(x.Enrolled, "device"))
		if x.Registered > 0 {
			who += fmt.Sprintf(", drawn from a pool of %d", x.Registered)
		}
	}
	text := fmt.Sprintf("The shuffler states that %s, and that it took %s.", who, many(x.Reports, "report"))
	if x.Reports < f.Plan.Minimum {
		return text + fmt.Sprintf(" The announced minimum is %d.", f.Plan.Minimum)
	}
	return text + fmt.Sprintf(" That is no fewer than the announced minimum of %d.", f.Plan.Minimum)
}

// tellOutput says what the shuffler states that left it.
func (f *Facts) tellOutput(s *Section, x Round) {
	if x.Manifest && x.Reports < f.Plan.Minimum {
		s.add("THAT IS TOO FEW: nothing may leave of fewer than %s.", many(f.Plan.Minimum, "report"))
	}
	if x.Shared > 0 {
		s.add("The shuffler signed for one share of the sums of %s.", many(x.Shared, "report"))
	}
	if !x.Manifest || f.Channel == plan.Shares {
		return
	}
	order := "That their order says nothing of when they came, no log shows."
	if f.Channel == plan.Shuffle {
		order = "That their order is random, no log shows."
	}
	if whole := uint64(x.Reports)*uint64(x.Each) + x.Noise; x.Messages != whole {
		s.add("It states that %s left it. THAT IS NOT %d of each report and %d of its own noise. %s",
			many(x.Messages, "message"),
			x.Each, x.Noise, order)
		return
	}
	s.add("It states that %s left it: %d of each report, and %d of its own noise. %s", many(x.Messages, "message"),
		x.Each,
		x.Noise, order)
}

// tellDestroyed says what is known of a cohort that the shuffler destroyed.
func (f *Facts) tellDestroyed(s *Section, x Round) {
	if x.Reports < f.Plan.Minimum {
		s.add("It states that it destroyed the cohort. Of so few reports nothing may leave. That no more came is its " +
			"word: no log shows which reports it did not take.")
	} else {
		s.add("It states that it destroyed the cohort, ALTHOUGH THE REPORTS WERE ENOUGH. No statement says why. An " +
			"honest shuffler does so where it asks for more reports than was announced, or where reports were lost; " +
			"another one can destroy what it does not like, and so choose whose reports count. Ask its operator.")
	}
	switch {
	case x.Accepted != nil && *x.Accepted < f.Plan.Minimum:
		s.add("The analyzer signed that it accepts %s, which is below the minimum, too: with so few no share of the "+
			"sums may leave the shuffler. No statement says why it accepts no more.", many(*x.Accepted, "report"))
	case x.Accepted != nil:
		s.add("The analyzer had signed that it accepts %s.", many(*x.Accepted, "report"))
	}
	switch {
	case x.Shared > 0:
		s.add("It had signed for a share of the sums of %s, which can have left before. So they are spent like a "+
			"release.",
			many(x.Shared, "report"))
	case x.Messages > 0:
		s.add("It states that up to %s had left before, in their random order. The analyzer can have had them. So "+
			"they are spent like the whole release.", many(x.Messages, "message"))
	case f.Channel == plan.Shares:
		s.add("It states that no share of the sums left it. Rows that the analyzer verified before say nothing by " +
			"themselves.")
	default:
		s.add("It states that no message of it had left before.")
	}
}

// turnedAway says what the shuffler states that it refused in a round, and why.
func (x Round) turnedAway() Section {
	s := Section{Title: "What the shuffler states that it refused"}
	if len(x.Refused) == 0 {
		s.add("No report.")
	}
	for _, r := range x.Refused {
		switch {
		case uint64(r.TakenOut) == r.Reports:
			s.add("%s (%s): %s. Each had its slot already, and was taken out again.", many(r.Reports, "report"),
				r.Reason, r.Means)
		case r.TakenOut > 0:
			s.add("At least %s (%s): %s. %d of them had their slots already, and were taken out again.",
				many(r.Reports, "report"), r.Reason, r.Means, r.TakenOut)
		default:
			s.add("At least %s (%s): %s.", many(r.Reports, "report"), r.Reason, r.Means)
		}
	}
	return s
}

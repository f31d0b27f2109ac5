package explain

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// takesPart says who was in a round's cohort.
func (f *Facts) takesPart(x Round) string {
	if f.Plan.Panel == nil {
		return many(x.Enrolled, "device") + " enrolled"
	}
	if x.Registered == 0 {
		return "The panel has " + many(x.Enrolled, "device")
	}
	return fmt.Sprintf("The panel has %s, drawn from %d that were registered", many(x.Enrolled, "device"), x.Registered)
}

// drawn says how a panel comes about.
func (q *Panel) drawn(s *Section, size uint32) {
	s.add("The cohort is a panel: %d devices, drawn from at least %d that registered before, by a seed to which both servers "+
		"contribute. Neither can choose who is in it while the other is honest.", size, q.Registered)
	s.add("What is protected is %s. A report holds the sum of its decisions divided by %d, so that nobody sees how many there "+
		"were.", q.Unit, q.Decisions)
	s.add("Over all these epochs together, with the fewest reports in each, it reveals %s. If no other device is honest: %s.",
		bound(q.Lifetime), bound(q.LifetimeAlone))
	if q.Period > 0 {
		s.add("This budget is for each period of %d epochs. A person who stays longer spends it again.", q.Period)
	}
}

// again says what a panel cost a person who can be in several.
func (f *Facts) again(s *Section, epsilon float64) {
	q := f.Plan.Panel
	s.add("With the reports that came, this epoch spends %s.", bound(status.Epsilon(epsilon)))
	rest := "no more"
	if promise := float64(q.Lifetime); !math.IsInf(promise, 0) && promise <= f.Promise {
		rest = "within the promise"
	}
	s.add("A device can be in %s. All of them together, with the fewest reports in each, spend %s: %s.",
		many(q.Records, "such epoch"), bound(q.Lifetime), rest)
	s.add("If no other device is honest: %s.", bound(q.LifetimeAlone))
	s.add("The same person can be in several panels, so that what they spend adds up over these; the device's ledger has it.")
}

// compares says what the control group shows.
func (x Round) compares() Section {
	s := Section{Title: "Whether the policy helps"}
	if x.Lift != nil {
		s.add("In this epoch: %s.", lifted(*x.Lift))
	}
	if x.Total != nil {
		s.add("In all epochs so far: %s.", lifted(*x.Total))
	}
	if x.Unchanged > 0 {
		s.add("If the world were what it was, sums like these would have probability %.3g: the smaller, the more it has changed.",
			x.Unchanged)
	}
	switch x.Action {
	case wire.ActionRollback:
		s.add("By the announced rules the policy before this one is taken up again.")
	case wire.ActionStop:
		s.add("By the announced rules everybody gets the default arm from the next epoch on.")
	}
	return s
}

// lifted is a lift in words.
func lifted(l audit.Lift) string {
	if !l.Known() {
		return "too few rewards came for so much noise, so that nothing is known"
	}
	treated, control, lift := l.Shown()
	return fmt.Sprintf("mean reward %s of the policy and %s of the default arm; the difference is %s, with 95 %% "+
		"confidence between %.4g and %.4g", treated, control, lift, l.Low, l.High)
}

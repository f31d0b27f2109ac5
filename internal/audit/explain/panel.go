package explain

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// tellDraw says how a panel comes about.
func (q *Panel) tellDraw(s *Section, size uint32) {
	s.add("The cohort is a panel: %d devices, drawn from a pool of at least %d that registered before, by a seed to "+
		"which both servers contribute. While one of them is honest, the other cannot choose who of the pool is in "+
		"it. The shuffler says who is in the pool: %s.", size, q.Registered, leftOut)
	s.add("What is protected is %s. A report holds the sum of its decisions divided by %d, and has the same size for "+
		"any number of them.", q.Unit, q.Decisions)
	s.add("Over all these epochs together, with the fewest reports in each, it reveals %s. If no other device is "+
		"honest: %s.",
		bound(q.Lifetime), bound(q.LifetimeAlone))
	if q.Period > 0 {
		s.add("This budget is for each period of %d epochs. A person who stays longer spends it again, and nothing "+
			"bounds all periods together.", q.Period)
	}
}

// compares says what the control group shows.
func (x Round) compares() Section {
	s := Section{Title: "Whether the policy helps, as the analyzer signed it"}
	if !x.Recomputed {
		s.add("The audit did not confirm any of this.")
	}
	if x.Lift != nil {
		s.add("In this epoch: %s.", spellLift(*x.Lift))
	}
	if x.Total != nil {
		s.add("In all epochs so far: %s.", spellLift(*x.Total))
	}
	if x.Unchanged > 0 {
		s.add("If the world were what it was, sums like these would have probability %.3g: the smaller, the more it "+
			"has changed.",
			x.Unchanged)
	}
	switch x.Action {
	case wire.ActionRollback:
		s.add("By the rules the policy before this one is taken up again.")
	case wire.ActionStop:
		s.add("By the rules everybody gets the default arm from the next epoch on.")
	}
	return s
}

// spellLift is a lift in words.
func spellLift(l audit.Lift) string {
	if !l.Known() {
		return "nothing is known: with so much noise every difference is possible"
	}
	treated, control, lift := l.Shown()
	return fmt.Sprintf("mean reward %s of the policy and %s of the default arm; the difference is %s, with 95 %% "+
		"confidence between %.4g and %.4g", treated, control, lift, l.Low, l.High)
}

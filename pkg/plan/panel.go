package plan

import (
	"cmp"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
)

// MaxDecisions bounds the decisions of one report.
const MaxDecisions = learner.MaxDecisions

// Dishonest is how many reports of the announced cohort may be dishonest if this share of the devices that it comes
// from may be; the share is in [0, 1). Where devices enrol as they arrive these are the cohort's own slots, rounded up.
// Of a panel it is the number that the panel exceeds with a probability of at most Panel.Tail, whatever pool it is
// drawn from (privacy.PanelDishonest).
func (a *Announcement) Dishonest(share float64) int {
	if q := a.Plan.Panel; q != nil {
		return privacy.PanelDishonest(share, int(a.Cohort.Size), q.Tail)
	}
	if !(share >= 0 && share <= 1) {
		return int(a.Cohort.Size)
	}
	return int(math.Ceil(share * float64(a.Cohort.Size)))
}

// borne is the number of dishonest reports that the plan's guarantee has to bear: the announced one, the caller's own,
// and for a panel what follows from the announced share.
func (a *Announcement) borne(dishonest int) int {
	m := max(dishonest, int(a.Cohort.MaxDishonest))
	if q := a.Plan.Panel; q != nil {
		m = max(m, a.Dishonest(q.Dishonest))
	}
	return m
}

// checkPanel refuses a panel that no guarantee can be computed for.
func (a *Announcement) checkPanel() error {
	q := a.Plan.Panel
	switch {
	case q == nil:
		return nil
	case len(a.Plan.Rounds) != 1 || a.Plan.Curator != nil:
		return fmt.Errorf("%w: a panel needs a plan of one round, without a curator", ErrPlan)
	case q.Registered < a.Cohort.Size:
		return fmt.Errorf("%w: a panel of %d is drawn from %d registered devices", ErrPlan, a.Cohort.Size, q.Registered)
	case !(q.Dishonest >= 0 && q.Dishonest < 1):
		return fmt.Errorf("%w: a share %v of the registered devices may be dishonest, want one in [0, 1)", ErrPlan,
			q.Dishonest)
	case !(q.Tail >= 0 && q.Tail < 1):
		return fmt.Errorf("%w: the panel's part of delta is %v, want one in [0, 1)", ErrPlan, q.Tail)
	case a.Plan.Decisions > MaxDecisions:
		return fmt.Errorf("%w: %d decisions in one report, at most %d", ErrPlan, a.Plan.Decisions, MaxDecisions)
	}
	return nil
}

// drawn adds what a panel may give up to a guarantee that counts on honest devices: that more than Cohort.MaxDishonest
// of them are not.
func (a *Announcement) drawn(g privacy.Guarantee) privacy.Guarantee {
	if a.Plan.Panel == nil {
		return g
	}
	return privacy.Compose(g, privacy.Guarantee{TailDelta: a.Plan.Panel.Tail})
}

// Lifetime is what the announced plan can reveal about one device in all epochs that it may report in (Plan.Records),
// over the deployment, or over any Plan.Period epochs in a row where that is not 0: together and alone are those of
// Guarantee and Alone, repeated. It is the same as theirs where a device reports once. Errors wrap ErrPlan.
func Lifetime(a *Announcement) (together, alone privacy.Guarantee, err error) {
	if together, err = Guarantee(a, 0); err != nil {
		return privacy.NoGuarantee(), privacy.NoGuarantee(), err
	}
	if alone, err = Alone(a); err != nil {
		return privacy.NoGuarantee(), privacy.NoGuarantee(), err
	}
	n := a.Plan.PerPerson()
	return privacy.Repeat(together, n), privacy.Repeat(alone, n), nil
}

// records is over how many epochs the budget is divided.
func (t Terms) records() int { return max(1, t.Records) }

// tail is the part of Delta that each epoch's panel spends: none where no device may be dishonest.
func (t Terms) tail() float64 {
	if t.Registered == 0 || t.Dishonest == 0 {
		return 0
	}
	return cmp.Or(t.Tail, DefaultTail) / float64(t.records())
}

// panel is what terms say of a plan's panels; the plan is left as it is where there are none.
func (t Terms) panel(p *Plan) {
	if t.Registered == 0 {
		return
	}
	p.Panel = &Panel{Registered: uint32(t.Registered), Dishonest: t.Dishonest, Tail: t.tail()}
	p.Decisions, p.Records, p.Period = uint32(max(1, t.Decisions)), uint32(t.records()), uint32(t.Period)
}

// checkPanel refuses terms of panels that contradict each other, and what only panels have in terms without them.
func (t Terms) checkPanel() error {
	if t.Registered == 0 {
		if t.Tail != 0 || t.Decisions != 0 || t.Records != 0 || t.Period != 0 {
			return fmt.Errorf("%w: tail, decisions, records and period are of panels: say how many devices register "+
				"at least (registered), or leave them out", ErrPlan)
		}
		return nil
	}
	switch {
	case t.Registered < 0 || t.Registered > math.MaxUint32:
		return fmt.Errorf("%w: %d registered devices, want 1 to 2^32-1", ErrPlan, t.Registered)
	case !(t.Dishonest >= 0 && t.Dishonest < 1):
		return fmt.Errorf("%w: a share %v of the registered devices may be dishonest, want one in [0, 1)", ErrPlan,
			t.Dishonest)
	case t.Decisions < 0 || t.Decisions > MaxDecisions:
		return fmt.Errorf("%w: %d decisions in one report, want 0 to %d", ErrPlan, t.Decisions, MaxDecisions)
	case t.Records < 0 || t.Records > math.MaxUint16:
		return fmt.Errorf("%w: %d epochs that one device may report in, want 0 to %d", ErrPlan, t.Records,
			math.MaxUint16)
	case t.Period < 0 || t.Period > math.MaxUint16 || t.Period != 0 && t.Period < t.records():
		return fmt.Errorf("%w: a period of %d epochs with %d in which one device may report: the period must be at "+
			"least as long, and at most %d, or 0 for the whole deployment", ErrPlan, t.Period, t.records(),
			math.MaxUint16)
	case !(t.Tail >= 0 && t.Tail < t.Delta*(1-privacy.TailShare)):
		return fmt.Errorf("%w: %v of delta is for panels, want a number from 0 to less than delta, %v", ErrPlan, t.Tail,
			t.Delta)
	case t.Dishonest > 0 && t.Tail == 0 && !(DefaultTail < t.Delta*(1-privacy.TailShare)):
		return fmt.Errorf("%w: the default part of delta for panels, %v, is not below delta, %v: set a smaller tail",
			ErrPlan, DefaultTail, t.Delta)
	}
	return nil
}

// fits refuses a step that panels cannot serve under these terms.
func (t Terms) fits(step learner.Step) error {
	if ofPairs(step) {
		if err := pairsIn(t.Channel); err != nil {
			return err
		}
	}
	switch {
	case t.Registered == 0:
		return nil
	case len(step.Statistics) != 1:
		return fmt.Errorf("%w: panels are for epochs of one round, and this one has %d: they need the profile %s",
			ErrPlan,
			len(step.Statistics), glm.Practical)
	case t.Registered < step.Cohort:
		return &calibrate.Infeasible{Constraint: "Registered",
			Reason: fmt.Sprintf("a panel of %d devices is planned and they are drawn from at least %d", step.Cohort,
				t.Registered), Remedy: "plan smaller panels, or draw from more registered devices"}
	}
	return nil
}

// each is the budget of one epoch: what repeats to at most Epsilon at Delta over all the epochs that one device may
// report in, panels' tails included.
//
// With R epochs and a part s of delta for the tails of noise, each epoch gets mu/sqrt R, where mu is what (1-s) Delta
// less the panels' tail allows, and s Delta/R. Divide turns epsilon and delta into these two numbers again: delta is
// Delta/R, and epsilon what mu/sqrt R gives at (1-s) Delta/R.
func (t Terms) each() (epsilon, delta float64, err error) {
	if t.Registered == 0 {
		return t.Epsilon, t.Delta, nil
	}
	n, rest := float64(t.records()), 1-privacy.TailShare
	mu, err := privacy.MuFor(t.Epsilon, (rest*t.Delta-t.tail()*n)*(1-shiftSlack))
	if err != nil {
		return 0, 0, err
	}
	g := privacy.Guarantee{Mu: mu / math.Sqrt(n) * (1 - shiftSlack)}
	delta = t.Delta / n * (1 - shiftSlack)
	if epsilon = g.Epsilon(rest*delta) * (1 - shiftSlack); !(epsilon > 0) {
		return 0, 0, &calibrate.Infeasible{Constraint: "Epsilon",
			Reason: fmt.Sprintf("epsilon %v divided over %d epochs leaves nothing for one", t.Epsilon, t.records()),
			Remedy: "let a device report in fewer epochs, or raise epsilon"}
	}
	return epsilon, delta, nil
}

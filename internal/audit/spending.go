package audit

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// spending is what people were promised, and what they have spent.
type spending struct {
	*findings
	terms    *plan.Terms // of the configuration; nil: none was read
	promised promise     // of the epoch
	lived    lived       // in deployments of panels
}

// promise is what an epoch's plan reveals, at the delta of the terms.
type promise struct{ epsilon, alone float64 }

// promise computes at an epoch's first round what the announced plan reveals, and compares it with what is promised.
func (sp *spending) promise(r *round) {
	if a := r.a; a.Round == 0 || sp.promised == (promise{}) {
		if sp.report.Panel == nil {
			sp.report.Panel = panelOf(a.Plan)
		}
		var claim float64
		var err error
		if sp.promised, claim, err = guarantees(a, sp.delta(a)); err != nil {
			sp.wrong(WeakPlan, r.statement, "the plan bounds nothing: %v", err)
		} else {
			sp.keeps(r, claim)
		}
		sp.report.Epsilon = max(sp.report.Epsilon, privacy.Epsilon(sp.promised.epsilon))
		sp.report.EpsilonAlone = max(sp.report.EpsilonAlone, privacy.Epsilon(sp.promised.alone))
	}
	r.row.Promised, r.row.Alone = privacy.Epsilon(sp.promised.epsilon), privacy.Epsilon(sp.promised.alone)
}

// keeps holds the recomputed guarantee of a plan to the plan's claim and to the terms.
func (sp *spending) keeps(r *round, claim float64) {
	claim, epsilon, alone := sp.least(claim), sp.least(sp.promised.epsilon), sp.least(sp.promised.alone)
	p := &r.a.Plan
	switch t := sp.terms; {
	case !(claim <= p.Epsilon):
		sp.wrong(WeakPlan, r.statement, "it claims epsilon %v at delta %v, and its plan gives %v", p.Epsilon, p.Delta,
			claim)
	case t != nil && !(epsilon <= t.Epsilon):
		sp.wrong(WeakPlan, r.statement, "the terms promise epsilon %v at delta %v, and its plan gives %v", t.Epsilon,
			t.Delta, epsilon)
	case t != nil && t.ServerNoise == 1 && p.Channel != plan.Local && !(alone <= t.Epsilon):
		sp.wrong(WeakPlan, r.statement, "the terms promise epsilon %v from the servers' noise alone, and its plan "+
			"gives %v", t.Epsilon, alone)
	}
}

// guarantees are those of a plan over all releases that use a record of the epoch, and over all epochs that one device
// may report in, at delta and at the plan's own.
func guarantees(a *plan.Announcement, delta float64) (p promise, claim float64, err error) {
	g, alone, err := plan.Lifetime(a)
	p.epsilon, p.alone, claim = g.Epsilon(delta), alone.Epsilon(delta), g.Epsilon(a.Plan.Delta)
	return p, claim, err
}

// spend computes what a round cost the people of its cohort: what left the shuffler, whatever the analyzer made of it.
// s is the last statement of what left.
func (sp *spending) spend(s *statement, r *round) {
	of := r.signedOutput()
	if r.row.Left = of.Left(); !r.row.Left {
		return
	}
	together, _ := of.Guarantee()
	epsilon := together.Epsilon(sp.delta(r.a))
	r.row.Epsilon = privacy.Epsilon(epsilon)
	if t := sp.terms; t != nil && !(sp.least(epsilon) <= t.Epsilon) {
		sp.wrong(PromiseExceeded, s, "%d reports reveal epsilon %v of a record, promised is %v", of.Reports(), epsilon,
			t.Epsilon)
	}
	if r.a.Plan.Panel != nil {
		sp.lived.add(r.a.Epoch, together)
	}
}

// sum enters what people have spent up to a round.
func (sp *spending) sum(r *round) {
	if r.a.Plan.Panel == nil {
		sp.report.EpsilonSoFar = max(sp.report.EpsilonSoFar, r.row.Epsilon) // 0 where nothing left
		return
	}
	sp.report.EpsilonSoFar = sp.lived.epsilon(r.a, sp.delta(r.a))
	r.row.SoFar = sp.report.EpsilonSoFar
}

// delta is that of the terms; of the plan where no terms are logged.
func (sp *spending) delta(a *plan.Announcement) float64 {
	if sp.terms != nil {
		return sp.terms.Delta
	}
	return a.Plan.Delta
}

// lived is what people have spent in a deployment of panels so far, in the worst of its epochs.
type lived struct {
	worst  privacy.Guarantee // of any epoch of which something left, part by part
	epochs uint64            // such epochs
	last   uint64            // the last of them
}

// add takes in an epoch of which something left the shuffler, with what its plan reveals.
func (l *lived) add(epoch uint64, g privacy.Guarantee) {
	l.worst = larger(l.worst, g)
	if l.epochs == 0 || epoch != l.last { // an epoch can have several rounds
		l.epochs, l.last = l.epochs+1, epoch
	}
}

// larger is what bounds both guarantees.
func larger(g, h privacy.Guarantee) privacy.Guarantee {
	return privacy.Guarantee{Mu: math.Max(g.Mu, h.Mu), TailDelta: math.Max(g.TailDelta, h.TailDelta),
		Pure: math.Max(g.Pure, h.Pure), Rho: math.Max(g.Rho, h.Rho)}
}

// epsilon bounds what all epochs up to this one reveal about the person who was in as many of them as the plan allows.
func (l *lived) epsilon(a *plan.Announcement, delta float64) privacy.Epsilon {
	switch n := min(l.epochs, most(a)); {
	case n == 0:
		return 0
	case !l.worst.Promises():
		return privacy.Epsilon(math.Inf(1))
	default:
		return privacy.Epsilon(privacy.Repeat(l.worst, int(n)).Epsilon(delta))
	}
}

// most is in how many epochs up to an announced one a device can have reported, by the plan.
func most(a *plan.Announcement) uint64 {
	records, period := uint64(a.Plan.PerPerson()), uint64(a.Plan.Period)
	if period == 0 {
		return min(records, a.Epoch)
	}
	return a.Epoch/period*records + min(records, a.Epoch%period)
}

package audit

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

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

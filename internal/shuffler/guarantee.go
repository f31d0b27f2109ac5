package shuffler

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/plan"
)

// sized is an epoch with a number of reports.
type sized struct {
	epoch   uint64
	reports int
}

// guarantees are what the announced plans reveal of people, as the shuffler computes it for itself.
type guarantees struct {
	*core
	planned  map[uint64]*plan.Announcement // first announcement of each epoch
	epsilon  map[sized]float64             // by epoch and reports: it takes a while to compute
	promises map[uint64]promise            // by epoch
}

// promise is what a plan reveals about one person at most, in all epochs in which their device may report: +Inf where
// nothing bounds it.
type promise struct {
	epsilon float64
	alone   float64 // if no other device is honest
}

// promised keeps an announcement's plan, whose guarantee the shuffler computes for itself.
func (s *guarantees) promised(a *plan.Announcement) {
	if a.Final || a.Round > 0 {
		return
	}
	of := promise{epsilon: math.Inf(1), alone: math.Inf(1)}
	if together, alone, err := plan.Lifetime(a); err == nil {
		of = promise{together.Epsilon(a.Plan.Delta), alone.Epsilon(a.Plan.Delta)}
	}
	s.mu.Lock()
	s.planned[a.Epoch], s.promises[a.Epoch] = a, of
	s.mu.Unlock()
}

// guarantee is the epsilon of an epoch's whole plan with this many reports; 0 while its plan is not known, +Inf if it
// has none.
func (s *guarantees) guarantee(epoch uint64, reports int) float64 {
	at := sized{epoch, reports}
	s.mu.Lock()
	a, eps := s.planned[epoch], s.epsilon[at]
	s.mu.Unlock()
	if a == nil || eps > 0 {
		return eps
	}
	eps = math.Inf(1)
	if g, err := plan.GuaranteeWith(a, uint32(reports)); err == nil {
		eps = g.Epsilon(a.Plan.Delta)
	}
	s.mu.Lock()
	s.epsilon[at] = eps
	s.mu.Unlock()
	return eps
}

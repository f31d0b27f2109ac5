package shuffler

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Steps whose time is measured. Enrolment and admission include the wait for the disk.
const (
	stepEnrolment = "enrolment" // request to reply
	stepAdmission = "admission" // report to decision
	stepRelease   = "release"   // commitment to manifest
)

// Steps lists the steps whose time is measured.
func Steps() []string { return []string{stepEnrolment, stepAdmission, stepRelease} }

// roundID names one round of one epoch.
type roundID struct {
	epoch uint64
	round int
}

// sized is an epoch with a number of reports.
type sized struct {
	epoch   uint64
	reports int
}

// shown is an outcome as people read it.
func shown(o wire.Outcome) string {
	if o == wire.Released {
		return status.Released
	}
	return status.Destroyed
}

// promise is what a plan reveals about one person at most, in all epochs in which their device may report: +Inf where
// nothing bounds it.
type promise struct {
	epsilon float64
	alone   float64 // if no other device is honest
}

// promised keeps an announcement's plan, whose guarantee the shuffler computes for itself.
func (s *Shuffler) promised(a *plan.Announcement) {
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
func (s *Shuffler) guarantee(epoch uint64, reports int) float64 {
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

// panel describes the drawing of the latest epoch's panel; nil where there are no panels. The lock is held.
func (s *Shuffler) panel() *status.Panel {
	of := s.state.Panel()
	if of == nil {
		if _, open := s.state.Last(); !open && s.state.Registered() > 0 {
			return &status.Panel{Registered: s.state.Registered(), Waits: "Nothing is announced yet."}
		}
		return nil
	}
	p := &status.Panel{Registered: s.state.Registered(), Needed: of.Needed, Drawn: of.Drawn}
	switch {
	case of.Pooled != nil:
		n := int(of.Pooled.Registered)
		p.Pool = &n
		if !of.Drawn {
			p.Waits = fmt.Sprintf("Epoch %d waits for the analyzer's contribution to the draw.", of.Epoch)
		}
	case s.pool != nil && s.pool.Epoch == of.Epoch && s.pool.Devices < s.pool.Needed:
		p.Waits = s.pool.Waits()
	}
	return p
}

// Snapshot describes the shuffler to people. Everything in it is public or a number of reports.
func (s *Shuffler) Snapshot() status.Snapshot {
	out := status.Snapshot{Deployment: s.c.Deployment, Releases: []status.Round{}}
	s.mu.Lock()
	f, ok := s.state.Filling()
	out.Warnings = slices.Clone(s.warnings)
	narrow := s.narrowWarning(f)
	out.Panel = s.panel()
	rounds := s.state.Over()
	plans, most := slices.Collect(maps.Values(s.planned)), promise{}
	for _, of := range s.promises {
		most = promise{max(most.epsilon, of.epsilon), max(most.alone, of.alone)}
	}
	var layout channel.Layout
	var deadline *time.Time
	if ok && !f.Final {
		layout, _ = s.state.Expects(f.Epoch, uint32(f.Round))
		m, _ := s.moment()
		if at, fixed := s.state.Deadline(m.Now, m.Resumed); fixed {
			until := s.c.Clock.Now().Round(0).Add(at.Sub(m.Now)) // by the time of day, which people read
			deadline = &until
		}
	}
	s.mu.Unlock()
	if !ok {
		return out
	}
	out.Epoch, out.Round, out.Rounds, out.Final = f.Epoch, uint32(f.Round), f.Rounds, f.Final
	spent := status.Epsilon(0)
	for _, r := range rounds {
		row := status.Round{
			Epoch: r.Epoch, Round: r.Round, Outcome: shown(r.Outcome), Enrolled: &r.Enrolled, Reports: r.Reports,
		}
		if r.Outcome == wire.Released || r.Left > 0 { // what may have left is spent
			row.Messages, row.Epsilon = r.Messages*r.Reports, status.Epsilon(s.guarantee(r.Epoch, r.Reports))
			spent = max(spent, row.Epsilon)
		}
		out.Releases = append(out.Releases, row)
	}
	if !f.Final {
		if f.Dominated() {
			out.Warnings = append(out.Warnings, fmt.Sprintf("One host holds %d of the %d slots of epoch %d's cohort, "+
				"more than half: the other devices are hidden among few that this host does not know. "+
				"admission.host_share limits what one host may hold.", f.Largest, f.Slots, f.Epoch))
		}
		if narrow != "" {
			out.Warnings = append(out.Warnings, narrow)
		}
		out.Cohort = &status.Cohort{
			Size: f.Size, Minimum: f.Minimum, Enrolled: &f.Enrolled, Reports: &f.Reports, Messages: layout.Messages,
			Deadline: deadline, Waiting: s.outages.waiting(), Largest: &f.Largest,
		}
	}
	if len(plans) > 0 { // they differ from epoch to epoch, but not in this
		of := plans[0].Plan
		out.Budget = &status.Budget{Epsilon: status.Epsilon(most.epsilon), Delta: of.Delta, Spent: &spent}
		out.Budget.In(of.Channel, most.alone)
		out.Budget.Counts(of)
	}
	return out
}

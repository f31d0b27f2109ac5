package shuffler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

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
	case s.panels.pool != nil && s.panels.pool.Epoch == of.Epoch && s.panels.pool.Devices < s.panels.pool.Needed:
		p.Waits = s.panels.pool.Waits()
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
	plans, most := slices.Collect(maps.Values(s.guarantees.planned)), promise{}
	for _, of := range s.guarantees.promises {
		most = promise{max(most.epsilon, of.epsilon), max(most.alone, of.alone)}
	}
	var layout channel.Layout
	var deadline *time.Time
	if ok && !f.Final {
		layout, _ = s.state.Expects(f.Epoch, uint32(f.Round))
		m, _ := s.times.moment()
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
	spent := privacy.Epsilon(0)
	for _, r := range rounds {
		row := status.Round{
			Epoch: r.Epoch, Round: r.Round, Outcome: shown(r.Outcome), Enrolled: &r.Enrolled, Reports: r.Reports,
		}
		if r.Outcome == wire.Released || r.Left > 0 { // what may have left is spent
			row.Messages = r.Messages * r.Reports
			row.Epsilon = privacy.Epsilon(s.guarantees.guarantee(r.Epoch, r.Reports))
			spent = max(spent, row.Epsilon)
		}
		out.Releases = append(out.Releases, row)
	}
	if !f.Final {
		if f.Dominated() {
			out.Warnings = append(out.Warnings, fmt.Sprintf("One sponsor holds %d of the %d slots of epoch %d's "+
				"cohort, more than half: the other devices are hidden among few that it does not know. "+
				"admission.sponsor_share limits what one may hold.", f.Largest, f.Slots, f.Epoch))
		}
		if narrow != "" {
			out.Warnings = append(out.Warnings, narrow)
		}
		out.Cohort = &status.Cohort{
			Size: f.Size, Minimum: f.Minimum, Enrolled: &f.Enrolled, Reports: &f.Reports, Messages: layout.Messages,
			Deadline: deadline, Waiting: s.times.outages.waiting(), Largest: &f.Largest,
		}
	}
	if len(plans) > 0 { // they differ from epoch to epoch, but not in this
		of := plans[0].Plan
		out.Budget = &status.Budget{Epsilon: privacy.Epsilon(most.epsilon), Delta: of.Delta, Spent: &spent}
		out.Budget.In(of.Channel, most.alone)
		out.Budget.Counts(of)
	}
	return out
}

package audit

import (
	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Outcomes of a Row, besides those of manifests.
const (
	// RefusedOutcome is a cohort that the shuffler released and the analyzer did not count. What left is spent all
	// the same.
	RefusedOutcome = certificate.Refusal
	// UncountedOutcome is one that the shuffler released, and of which the analyzer signed no counts.
	UncountedOutcome = "uncounted"
)

// round is a round from its announcement to what was learned.
type round struct {
	*statement
	a        *plan.Announcement
	before   *wire.Manifest // of the last round before it, in the same epoch, that has one; nil: none
	pool     *pooled        // of plans of panels; nil: none was read
	draw     *wire.Draw     // the same
	accepted *wire.Accepted
	mixed    *mixture     // nil: no manifest was read
	summed   *wire.Summed // the first that was read; in the channel shares
	shared   *statement   // of summed
	counts   *wire.Counts
	counted  *statement    // the counts
	learned  *wire.Learned // as it must be; nil: it could not be computed
	known    bool          // what was learned was read
	row      Row
}

// pooled is the pool of an epoch's panel.
type pooled struct {
	*statement
	v *wire.Pool
}

// mixture is what the shuffler said of a round.
type mixture struct {
	*statement
	m *wire.Manifest
}

// newRound begins a round after another one; nil before the first.
func newRound(s *statement, a *plan.Announcement, last *round) *round {
	r := &round{statement: s, a: a, known: a.Final}
	if last != nil && last.a.Epoch == a.Epoch {
		if r.before = last.before; last.mixed != nil {
			r.before = last.mixed.m
		}
	}
	if !a.Final {
		r.row = Row{Epoch: a.Epoch, Round: a.Round, Size: a.Cohort.Size, Minimum: a.Cohort.Minimum, Announced: s.name,
			Refused: []Refused{}}
		if a.Question != nil {
			r.row.Asked = a.Question.Name
		}
	}
	return r
}

// signedOutput is what was signed of what left.
func (r *round) signedOutput() deployment.Signed {
	of := deployment.Signed{Announcement: r.a, Summed: r.summed, Counts: r.counts}
	if r.mixed != nil {
		of.Manifest = r.mixed.m
	}
	return of
}

// fill enters what both servers said of what left and of what was counted.
func (r *round) fill() {
	if r.pool != nil {
		r.row.Registered = r.pool.v.Registered
	}
	if r.counts != nil {
		r.row.Reports = r.counts.Reports
	}
	if r.mixed != nil { // its word goes before the analyzer's
		m := r.mixed.m
		r.row.Enrolled, r.row.Reports, r.row.Messages, r.row.Noise = m.Enrolled, m.Reports, m.Messages, m.NoiseMessages
		r.row.Manifest = true
		for _, one := range m.Refused {
			r.row.Refused = append(r.row.Refused, Refused{one.Reason.String(), one.Reports, one.TakenOut})
		}
	}
	destroyed := r.mixed != nil && r.mixed.m.Outcome == wire.Destroyed
	switch c := r.counts; {
	case c != nil && !c.Destroyed:
		r.row.Outcome = wire.Released.String()
		r.row.Influence, r.row.Moved = r.a.StateInfluence(c.Reports)
	case destroyed:
		r.row.Outcome = wire.Destroyed.String()
	case c != nil:
		r.row.Outcome = RefusedOutcome
	default:
		r.row.Outcome = UncountedOutcome
	}
}

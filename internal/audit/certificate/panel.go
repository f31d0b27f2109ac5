package certificate

import (
	"bytes"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Panel says from whom the epoch's cohort was drawn, and for how much of a person's life the guarantee is.
type Panel struct {
	Least      uint32 `json:"least_registered"` // fewest devices that it may be drawn from
	Registered uint32 `json:"registered"`       // devices that it was drawn from; 0 if it was not drawn
	// part of delta, of each epoch, for a panel with more dishonest devices
	Tail      float64 `json:"tail"`
	Decisions uint32  `json:"decisions"` // most of one report
	Records   uint32  `json:"records"`   // epochs that one device may report in
	Period    uint32  `json:"period"`    // out of so many that follow each other; 0: of the deployment
	Unit      string  `json:"unit_of_privacy"`
	Pool      Hex     `json:"pool"` // digests of the statements
	Draw      Hex     `json:"draw"`
	Seed      Hex     `json:"seed"` // of the panel, which follows from both
}

// Unit says what a plan protects: what can be replaced by anything without anybody noticing.
func Unit(p plan.Plan) string {
	if p.Panel == nil {
		return "one record of one person: one decision and what came of it"
	}
	epochs := "in one epoch"
	switch {
	case p.Period > 0:
		epochs = fmt.Sprintf("in up to %d of any %d epochs that follow each other", p.PerPerson(), p.Period)
	case p.Records > 1:
		epochs = fmt.Sprintf("in up to %d epochs of the deployment", p.Records)
	}
	if p.PerReport() == 1 {
		return "all that one person did " + epochs + ", one decision in each"
	}
	return fmt.Sprintf("all that one person did %s, up to %d decisions in each", epochs, p.PerReport())
}

// checkDrawn checks that the epoch's panel was drawn as announced, from a pool that was fixed before. A cohort of which
// nothing was released need not have one.
func checkDrawn(r *round) error {
	a := r.announcement
	if a.Plan.Panel == nil {
		if r.pool != nil || r.draw != nil {
			return fmt.Errorf("a panel was drawn, and none is announced")
		}
		return nil
	}
	announced := r.digests.announcement[:]
	switch {
	case r.manifest.Outcome != wire.Released && (r.pool == nil || r.draw == nil):
		return nil
	case r.pool == nil || r.draw == nil:
		return fmt.Errorf("the cohort's panel lacks the shuffler's pool or the analyzer's draw")
	case !bytes.Equal(r.pool.Announcement, announced) || !bytes.Equal(r.draw.Announcement, announced):
		return fmt.Errorf("the pool or the draw is of another announcement")
	case !bytes.Equal(r.draw.Pool, r.digests.pool[:]):
		return fmt.Errorf("the draw answers another pool")
	case !panel.Opens(a.Commitment, r.draw.Contribution):
		return fmt.Errorf("the draw is not what the announcement commits to")
	case r.pool.Registered < a.Plan.Panel.Registered:
		return fmt.Errorf("the panel was drawn from %d devices, announced are at least %d", r.pool.Registered,
			a.Plan.Panel.Registered)
	}
	return nil
}

// panelOf is the panel of a summary; nil of a plan without one.
func panelOf(r *round) *Panel {
	p := r.announcement.Plan
	if p.Panel == nil {
		return nil
	}
	out := &Panel{Least: p.Panel.Registered, Tail: p.Panel.Tail, Decisions: p.Decisions, Records: p.Records,
		Period: p.Period, Unit: Unit(p), Pool: Hex{}, Draw: Hex{}, Seed: Hex{}}
	if r.pool == nil || r.draw == nil {
		return out
	}
	seed := panel.NewSeed(r.digests.pool, r.draw.Contribution)
	out.Registered, out.Pool, out.Draw, out.Seed = r.pool.Registered, r.digests.pool[:], r.digests.draw[:], seed[:]
	return out
}

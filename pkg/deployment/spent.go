package deployment

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Signed is what both servers signed of a round; nil what they did not. It says what the round cost the people of its
// cohort at most. What left the shuffler is spent, whatever the analyzer signs afterwards: it had it. So is what may
// have left.
type Signed struct {
	Announcement *plan.Announcement // Guarantee needs it
	Manifest     *wire.Manifest
	Summed       *wire.Summed // the shuffler's share of the sums, in the channel shares
	Counts       *wire.Counts
}

// Left reports whether anything of the round left the shuffler, or may have. Statements that contradict each other are
// read so that it did.
func (r Signed) Left() bool {
	switch {
	case r.Summed != nil: // it is in the log before the share leaves, and what comes of the round is signed later
		return true
	case r.Counts != nil && !r.Counts.Destroyed:
		return true
	case r.Manifest == nil: // the analyzer refused something of which the shuffler's log says nothing
		return r.Counts != nil
	}
	return r.Manifest.Messages > 0 // as in every release
}

// Refused reports whether the analyzer signed that it does not count what the shuffler signed that it released.
func (r Signed) Refused() bool {
	return r.Counts != nil && r.Counts.Destroyed && r.Manifest != nil && r.Manifest.Outcome == wire.Released
}

// Reports is the fewest reports that a statement says left. Of a cohort that was destroyed after the shuffler's share
// of the sums was signed, it is those of the share.
func (r Signed) Reports() uint32 {
	if r.Summed != nil && r.Manifest != nil && r.Manifest.Outcome != wire.Released {
		return r.Summed.Reports
	}
	least := uint32(math.MaxUint32)
	if r.Manifest != nil {
		least = min(least, r.Manifest.Reports)
	}
	if r.Summed != nil {
		least = min(least, r.Summed.Reports)
	}
	if r.Counts != nil {
		least = min(least, r.Counts.Reports)
	}
	return least
}

// Guarantee bounds what left: that of the epoch's whole plan with these reports, and what is left of it if no other
// device is honest. It is privacy.NoGuarantee where nothing bounds it, and the zero Guarantee, which reveals nothing,
// where nothing left.
func (r Signed) Guarantee() (together, alone privacy.Guarantee) {
	if !r.Left() {
		return privacy.Guarantee{}, privacy.Guarantee{}
	}
	return of(plan.GuaranteeWith(r.Announcement, r.Reports())), of(plan.Alone(r.Announcement))
}

func of(g privacy.Guarantee, err error) privacy.Guarantee {
	if err != nil {
		return privacy.NoGuarantee()
	}
	return g
}

// Epsilon is Guarantee's at delta; +Inf where nothing bounds it, and 0 where nothing left.
func (r Signed) Epsilon(delta float64) (together, alone float64) {
	g, a := r.Guarantee()
	return g.Epsilon(delta), a.Epsilon(delta)
}

package audit

import (
	"bytes"

	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// pooled is the pool of an epoch's panel.
type pooled struct {
	*statement
	v *wire.Pool
}

// drawing is what an audit knows of all panels: 32 bytes of each, since a contribution that comes back is no secret.
type drawing struct {
	seen   map[[panel.ContributionSize]byte]string // what either server contributed or committed to, and where
	drawn  int                                     // panels whose seed is known
	undone int                                     // of those: nothing of the cohort left the shuffler
	first  string                                  // the manifest of the first of these
}

// new reports whether a commitment or contribution stands in no earlier statement, and keeps it.
func (d *drawing) new(b []byte, s *statement) (before string, ok bool) {
	key := [panel.ContributionSize]byte(b) // pkg/wire checks the length
	if before, known := d.seen[key]; known {
		return before, false
	}
	if d.seen == nil {
		d.seen = map[[panel.ContributionSize]byte]string{}
	}
	d.seen[key] = s.name
	return "", true
}

// committed refuses a commitment that was made before: what it hides is known by now, so that the shuffler could try
// contributions of its own until the panel suits it.
func (c *checker) committed(s *statement, a *plan.Announcement) {
	if a.Plan.Panel == nil {
		return
	}
	if before, ok := c.drawing.new(a.Commitment, s); !ok {
		c.wrong(ContributionRepeated, s, "the commitment %x stands in %s already, so that what it hides was known "+
			"before the pool was fixed", short(a.Commitment), before)
	}
}

// drawn holds the analyzer's contribution to the announcement that commits to it, and to the pool that it names.
func (c *checker) drawn(s *statement, v *wire.Draw) error {
	r := c.current
	switch {
	case r == nil || v.Epoch > r.a.Epoch || v.Epoch == r.a.Epoch && r.a.Final:
		c.wrong(OutOfOrder, s, "its epoch is not announced yet")
		return nil
	case v.Epoch < r.a.Epoch || r.draw != nil:
		c.wrong(SecondDraw, s, "the analyzer drew the panel of epoch %d before, or the epoch is over", v.Epoch)
		return nil
	case r.a.Plan.Panel == nil:
		c.wrong(OutOfOrder, s, "no panel is drawn in epoch %d: devices enrol as they arrive", v.Epoch)
		return nil
	case r.counts != nil:
		c.wrong(OutOfOrder, s, "the panel of epoch %d is drawn after its reports were counted", v.Epoch)
		return nil
	}
	r.draw = v
	c.drawing.drawn++
	c.about(s, v.Announcement, r)
	if !panel.Opens(r.a.Commitment, v.Contribution) {
		c.wrong(CommitmentBroken, s, "it reveals %x, which is not what %s commits to: the analyzer chose it after it "+
			"saw the pool", short(v.Contribution), r.name)
	}
	if err := c.poolOf(r); err != nil {
		return err
	}
	switch {
	case r.pool == nil:
		c.wrong(PoolMissing, s, "the shuffler's log has no pool of epoch %d, so that it could choose whom to draw "+
			"from after it knew this", v.Epoch)
	case !bytes.Equal(v.Pool, r.pool.digest[:]):
		c.wrong(PoolReplaced, r.pool.statement, "%s answers the pool %x, and this one has the digest %x: one of them "+
			"was exchanged afterwards", s.name, short(v.Pool), short(r.pool.digest[:]))
	}
	return nil
}

// poolOf reads the shuffler's log up to the pool of the announced epoch, and no further.
func (c *checker) poolOf(r *round) error {
	for r.pool == nil {
		s, err := c.shuffler.peek()
		if err != nil || s == nil {
			return err
		}
		epoch, _, _ := s.at()
		past := epoch < r.a.Epoch
		v, isPool := s.value.(*wire.Pool)
		if !past && (!isPool || epoch > r.a.Epoch) {
			return nil
		}
		c.shuffler.held = nil
		switch {
		case isPool:
			c.pooled(s, v, r, past)
		default:
			c.leftOver(s)
		}
	}
	return nil
}

// leftOver is what the shuffler says of an epoch that is over, other than a pool.
func (c *checker) leftOver(s *statement) {
	if v, ok := s.value.(*wire.Summed); ok {
		c.wrong(SecondSet, s, "a share of the sums of round %d of epoch %d was signed before", v.Round, v.Epoch)
		return
	}
	c.doubled(s)
}

// pooled takes a pool: of the announced round, or of an epoch that is over.
func (c *checker) pooled(s *statement, v *wire.Pool, r *round, past bool) {
	switch {
	case past || r.pool != nil:
		c.wrong(SecondPool, s, "the shuffler fixed the pool of epoch %d before, or the epoch is over: it could take "+
			"the one whose panel suits it", v.Epoch)
		return
	case r.a.Plan.Panel == nil:
		c.wrong(OutOfOrder, s, "no panel is drawn in epoch %d: devices enrol as they arrive", v.Epoch)
		return
	}
	r.pool = &pooled{s, v}
	c.about(s, v.Announcement, r)
	if least := r.a.Plan.Panel.Registered; v.Registered < least {
		c.wrong(PoolTooSmall, s, "the panel is drawn from %d devices, and at least %d are announced: among fewer, "+
			"more of the panel can be dishonest than is counted", v.Registered, least)
	}
	if before, ok := c.drawing.new(v.Contribution, s); !ok {
		c.wrong(ContributionRepeated, s, "the contribution %x stands in %s already, so that it could be known before "+
			"the analyzer chose its own", short(v.Contribution), before)
	}
}

// leftPool is a pool in what is left of the shuffler's log when the analyzer's is over.
func (c *checker) leftPool(s *statement, v *wire.Pool) {
	if last := c.current; last != nil && (v.Epoch < last.a.Epoch || v.Epoch == last.a.Epoch && !last.a.Final) {
		c.pooled(s, v, last, v.Epoch < last.a.Epoch || last.counts != nil)
		return
	}
	c.wrong(OutOfOrder, s, "epoch %d was never announced", v.Epoch)
}

// panelOf holds a manifest to the panel that was drawn.
func (c *checker) panelOf(x *mixture, r *round) {
	if r.a.Plan.Panel == nil {
		return
	}
	if x.m.Outcome != wire.Released {
		if r.draw != nil {
			if c.drawing.undone++; c.drawing.undone == 1 {
				c.drawing.first = x.name
			}
		}
		return
	}
	switch {
	case r.pool == nil && r.draw == nil: // where there is a draw, it was told
		c.wrong(PoolMissing, x.statement, "a cohort was released, and the shuffler's log has no pool that it was "+
			"drawn from")
	case r.pool != nil && x.m.Enrolled > r.pool.v.Registered:
		c.wrong(CohortExceeded, x.statement, "%d devices are in a panel that was drawn from %d", x.m.Enrolled,
			r.pool.v.Registered)
	}
	if r.draw == nil {
		c.wrong(DrawMissing, x.statement, "a cohort was released before the analyzer said what it contributes to the "+
			"draw: the shuffler chose its panel by itself")
	}
}

// panels adds to the report what is known of the panels at the end.
func (c *checker) panels() {
	r, d := c.report, c.drawing
	if r.Panel == nil {
		return
	}
	r.Panel.Drawn, r.Panel.Undone = d.drawn, d.undone
	r.note("Which devices are registered stands in no log, only the root of each pool: that nobody was left out of a " +
		"pool, and that nobody was in more panels than planned, is for devices, hosts and the shuffler's operator to " +
		"check.")
	if d.undone > 0 {
		r.note("Of %d of %d panels that were drawn nothing was released, the first in %s. Each time the servers got "+
			"another draw, so if it happens often, ask why.", d.undone, d.drawn, d.first)
	}
}

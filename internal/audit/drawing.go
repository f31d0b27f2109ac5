package audit

import (
	"bytes"

	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// drawing judges how panels are drawn. It keeps 32 bytes of each, since a contribution that comes back is no secret.
type drawing struct {
	*findings
	seen   map[[panel.ContributionSize]byte]string // what either server contributed or committed to, and where
	drawn  int                                     // panels whose seed is known
	undone int                                     // of those: nothing of the cohort left the shuffler
	first  string                                  // the manifest of the first of these
}

// keep reports whether a commitment or contribution is in no earlier statement, and keeps it.
func (d *drawing) keep(b []byte, s *statement) (before string, ok bool) {
	key := [panel.ContributionSize]byte(b) // pkg/wire checks the length
	if before, known := d.seen[key]; known {
		return before, false
	}
	d.seen[key] = s.name
	return "", true
}

// commit refuses a commitment that was made before: what it hides is known by now, so that the shuffler could try
// contributions of its own until the panel suits it.
func (d *drawing) commit(s *statement, a *plan.Announcement) {
	if a.Plan.Panel == nil {
		return
	}
	if before, ok := d.keep(a.Commitment, s); !ok {
		d.wrong(ContributionRepeated, s, "the commitment %x is in %s already, so that what it hides was known "+
			"before the pool was fixed", short(a.Commitment), before)
	}
}

// draw holds the analyzer's contribution to the announcement that commits to it, and reports whether it is the draw of
// the round under way. r is nil before the first.
func (d *drawing) draw(s *statement, v *wire.Draw, r *round) bool {
	switch {
	case r == nil || v.Epoch > r.a.Epoch || v.Epoch == r.a.Epoch && r.a.Final:
		d.wrong(OutOfOrder, s, "its epoch is not announced yet")
		return false
	case v.Epoch < r.a.Epoch || r.draw != nil:
		d.wrong(SecondDraw, s, "the analyzer drew the panel of epoch %d before, or the epoch is over", v.Epoch)
		return false
	case r.a.Plan.Panel == nil:
		d.wrong(OutOfOrder, s, "no panel is drawn in epoch %d: devices enrol as they arrive", v.Epoch)
		return false
	case r.counts != nil:
		d.wrong(OutOfOrder, s, "the panel of epoch %d is drawn after its reports were counted", v.Epoch)
		return false
	}
	r.draw = v
	d.drawn++
	d.about(s, v.Announcement, r)
	if !panel.Opens(r.a.Commitment, v.Contribution) {
		d.wrong(CommitmentBroken, s, "it reveals %x, which is not what %s commits to: the analyzer chose it after it "+
			"saw the pool", short(v.Contribution), r.name)
	}
	return true
}

// answer holds a draw to the pool that it names, where the shuffler's log has one.
func (d *drawing) answer(s *statement, v *wire.Draw, r *round) {
	switch {
	case r.pool == nil:
		d.wrong(PoolMissing, s, "the shuffler's log has no pool of epoch %d, so that it could choose whom to draw "+
			"from after it knew this", v.Epoch)
	case !bytes.Equal(v.Pool, r.pool.digest[:]):
		d.wrong(PoolReplaced, r.pool.statement, "%s answers the pool %x, and this one has the digest %x: one of them "+
			"was exchanged afterwards", s.name, short(v.Pool), short(r.pool.digest[:]))
	}
}

// take judges a pool: of the announced round, or of an epoch that is over.
func (d *drawing) take(s *statement, v *wire.Pool, r *round, past bool) {
	switch {
	case past || r.pool != nil:
		d.wrong(SecondPool, s, "the shuffler fixed the pool of epoch %d before, or the epoch is over: it could take "+
			"the one whose panel suits it", v.Epoch)
		return
	case r.a.Plan.Panel == nil:
		d.wrong(OutOfOrder, s, "no panel is drawn in epoch %d: devices enrol as they arrive", v.Epoch)
		return
	}
	r.pool = &pooled{s, v}
	d.about(s, v.Announcement, r)
	if least := r.a.Plan.Panel.Registered; v.Registered < least {
		d.wrong(PoolTooSmall, s, "the panel is drawn from %d devices, and at least %d are announced: among fewer, "+
			"more of the panel can be dishonest than is counted", v.Registered, least)
	}
	if before, ok := d.keep(v.Contribution, s); !ok {
		d.wrong(ContributionRepeated, s, "the contribution %x is in %s already, so that it could be known before "+
			"the analyzer chose its own", short(v.Contribution), before)
	}
}

// finish judges a pool in what is left of the shuffler's log when the analyzer's is over; last is the last round that
// was announced, nil without one.
func (d *drawing) finish(s *statement, v *wire.Pool, last *round) {
	if last != nil && (v.Epoch < last.a.Epoch || v.Epoch == last.a.Epoch && !last.a.Final) {
		d.take(s, v, last, v.Epoch < last.a.Epoch || last.counts != nil)
		return
	}
	d.wrong(OutOfOrder, s, "epoch %d was never announced", v.Epoch)
}

// release holds a manifest to the panel that was drawn.
func (d *drawing) release(x *mixture, r *round) {
	if r.a.Plan.Panel == nil {
		return
	}
	if x.m.Outcome != wire.Released {
		if r.draw != nil {
			if d.undone++; d.undone == 1 {
				d.first = x.name
			}
		}
		return
	}
	switch {
	case r.pool == nil && r.draw == nil: // where there is a draw, it was told
		d.wrong(PoolMissing, x.statement, "a cohort was released, and the shuffler's log has no pool that it was "+
			"drawn from")
	case r.pool != nil && x.m.Enrolled > r.pool.v.Registered:
		d.wrong(CohortExceeded, x.statement, "%d devices are in a panel that was drawn from %d", x.m.Enrolled,
			r.pool.v.Registered)
	}
	if r.draw == nil {
		d.wrong(DrawMissing, x.statement, "a cohort was released before the analyzer said what it contributes to the "+
			"draw: the shuffler chose its panel by itself")
	}
}

// conclude adds to the report what is known of the panels at the end.
func (d *drawing) conclude() {
	r := d.report
	if r.Panel == nil {
		return
	}
	r.Panel.Drawn, r.Panel.Undone = d.drawn, d.undone
	r.note("Which devices are registered is in no log, only the root of each pool: that nobody was left out of a " +
		"pool, and that nobody was in more panels than planned, is for devices, hosts and the shuffler's operator to " +
		"check.")
	if d.undone > 0 {
		r.note("Of %d of %d panels that were drawn nothing was released, the first in %s. Each time the servers got "+
			"another draw, so if it happens often, ask why.", d.undone, d.drawn, d.first)
	}
}

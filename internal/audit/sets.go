package audit

import (
	"bytes"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// sets judges which reports the two servers of the channel shares say that they add up.
type sets struct{ *findings }

// accept takes the analyzer's set of the round under way; r is nil before the first.
func (se *sets) accept(s *statement, v *wire.Accepted, r *round) {
	if r == nil || r.known || r.counts != nil || r.a.Epoch != v.Epoch || r.a.Round != v.Round {
		se.wrong(OutOfOrder, s, "a set is accepted between a round's announcement and its counts")
		return
	}
	if r.a.Plan.Channel != plan.Shares {
		se.wrong(OutOfOrder, s, "no set is accepted in the channel %s", r.a.Plan.Channel)
		return
	}
	se.about(s, v.Announcement, r)
	if r.accepted != nil {
		se.wrong(SecondSet, s, "the analyzer accepted a set of round %d of epoch %d before", v.Round, v.Epoch)
		return
	}
	r.accepted = v
}

// sum takes the shuffler's word on its share of the sums: of the announced round, or of one that is past.
func (se *sets) sum(s *statement, v *wire.Summed, r *round, past bool) {
	switch {
	case past || r.summed != nil:
		se.repeat(s, v)
		return
	case r.a.Plan.Channel != plan.Shares:
		se.wrong(OutOfOrder, s, "no share of a sum leaves in the channel %s", r.a.Plan.Channel)
		return
	}
	r.summed, r.shared = v, s
	se.about(s, v.Announcement, r)
	if v.Reports < r.a.Cohort.Minimum { // the share left, whatever the manifest says
		se.wrong(BelowMinimum, s, "a share of the sums of %d reports left, below the announced minimum of %d",
			v.Reports, r.a.Cohort.Minimum)
	}
}

// repeat refuses a share of the sums of a round that has one, or that is over.
func (se *sets) repeat(s *statement, v *wire.Summed) {
	se.wrong(SecondSet, s, "a share of the sums of round %d of epoch %d was signed before", v.Round, v.Epoch)
}

// compare compares what both servers signed before the shuffler's share of the sums left. It may have left although the
// manifest says that the cohort was destroyed.
func (se *sets) compare(x *mixture, r *round) {
	accepted, summed := r.accepted, r.summed
	switch {
	case accepted == nil:
		se.wrong(SetMissing, x.statement, "the analyzer signed no set of reports that it accepts")
	case summed == nil:
		se.wrong(SetMissing, x.statement, "the shuffler did not say which share of the sums leaves it")
	case !bytes.Equal(accepted.Set, summed.Set) || accepted.Reports != summed.Reports:
		se.wrong(SetsDiffer, x.statement,
			"the analyzer accepted the set %x of %d reports, the shuffler summed %x of %d", short(accepted.Set),
			accepted.Reports, short(summed.Set), summed.Reports)
	case accepted.Reports != x.m.Reports && x.m.Outcome == wire.Released:
		se.wrong(SetsDiffer, x.statement, "both servers signed a set of %d reports, and %d were released",
			accepted.Reports, x.m.Reports)
	}
}

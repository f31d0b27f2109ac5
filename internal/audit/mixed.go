package audit

import (
	"bytes"

	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// mixture is what the shuffler said of a round.
type mixture struct {
	*statement
	m *wire.Manifest
}

// mixedOf reads the shuffler's log up to the manifest of the announced round; nil if the next one is of a later round,
// or there is none.
func (c *checker) mixedOf(r *round) (*mixture, error) {
	for {
		s, err := c.shuffler.peek()
		if err != nil || s == nil {
			return nil, err
		}
		epoch, round, _ := s.at()
		if epoch > r.a.Epoch || epoch == r.a.Epoch && round > r.a.Round {
			return nil, nil
		}
		c.shuffler.held = nil
		past := epoch < r.a.Epoch || round < r.a.Round
		switch v := s.value.(type) {
		case *wire.Manifest:
			if !past {
				r.mixed = &mixture{s, v}
				return r.mixed, nil
			}
			c.doubled(s)
		case *wire.Pool:
			c.pooled(s, v, r, past)
		case *wire.Summed:
			switch {
			case past || r.summed != nil:
				c.wrong(SecondSet, s, "a share of the sums of round %d of epoch %d was signed before", round, epoch)
			case r.a.Plan.Channel != plan.Shares:
				c.wrong(OutOfOrder, s, "no share of a sum leaves in the channel %s", r.a.Plan.Channel)
			default:
				r.summed, r.shared = v, s
				c.about(s, v.Announcement, r)
				if v.Reports < r.a.Cohort.Minimum { // the share left, whatever the manifest says
					c.wrong(BelowMinimum, s, "a share of the sums of %d reports left, below the announced minimum of "+
						"%d",
						v.Reports, r.a.Cohort.Minimum)
				}
			}
		}
	}
}

// doubled is a manifest of a round that is over.
func (c *checker) doubled(s *statement) {
	epoch, round, _ := s.at()
	c.unbounded = c.unbounded || leaves(s)
	c.wrong(DoubledRelease, s, "the shuffler signed another manifest of round %d of epoch %d before, or one of a "+
		"later round: a cohort is released once, in its turn", round, epoch)
}

// leaves reports whether by a statement of the shuffler something left, or may have.
func leaves(s *statement) bool {
	switch v := s.value.(type) {
	case *wire.Manifest:
		return deployment.Signed{Manifest: v}.Left()
	case *wire.Summed:
		return deployment.Signed{Summed: v}.Left()
	}
	return false
}

// about holds a statement to the round's announcement.
func (c *checker) about(s *statement, announcement []byte, r *round) {
	if !bytes.Equal(announcement, r.digest[:]) {
		c.wrong(WrongAnnouncement, s, "it is about the announcement %x, and %s has the digest %x", short(announcement),
			r.name, short(r.digest[:]))
	}
}

// manifest checks how a round ended against its announcement and the round before.
func (c *checker) manifest(x *mixture, r *round) {
	m, a := x.m, r.a
	c.about(x.statement, m.Announcement, r)
	if m.Enrolled > a.Cohort.Size {
		c.wrong(CohortExceeded, x.statement, "%d devices enrolled in a cohort of %d", m.Enrolled, a.Cohort.Size)
	}
	devices := uint64(m.Reports)
	for _, one := range m.Refused {
		devices += uint64(one.TakenOut)
	}
	if b := c.before; b != nil && (m.Enrolled != b.Enrolled || devices > uint64(b.Reports)) {
		c.wrong(Accounting, x.statement, "%d reports and %d that were taken out, of %d devices, follow a round with "+
			"%d reports of %d devices: in a later round only those take part that reported in the one "+
			"before", m.Reports,
			devices-uint64(m.Reports), m.Enrolled, b.Reports, b.Enrolled)
	}
	c.panelOf(x, r)
	if r.summed != nil || a.Plan.Channel == plan.Shares && m.Outcome == wire.Released {
		c.sets(x, r)
	}
	noise, each := shuffle.NoiseMessages(a), uint64(a.ReportMessages())
	if c.before = m; m.Outcome != wire.Released {
		c.destroys(x, r, uint64(m.Reports)*each+noise)
		return
	}
	if m.Reports < a.Cohort.Minimum {
		c.wrong(BelowMinimum, x.statement, "%d reports were released, below the announced minimum of %d", m.Reports,
			a.Cohort.Minimum)
	}
	if m.NoiseMessages != noise {
		c.wrong(NoiseCount, x.statement, "the shuffler added %d messages of noise, planned are %d", m.NoiseMessages,
			noise)
	}
	if m.Messages-m.NoiseMessages != uint64(m.Reports)*each {
		c.wrong(MessageCount, x.statement, "%d messages left besides noise, and %d reports of %d messages hold %d",
			m.Messages-m.NoiseMessages, m.Reports, each, uint64(m.Reports)*each)
	}
}

// destroys takes a round that the shuffler destroyed, of which at most so many messages can have left.
func (c *checker) destroys(x *mixture, r *round, most uint64) {
	if x.m.Messages > most {
		c.wrong(MessageCount, x.statement, "%d messages may have left, and %d reports and the planned noise hold "+
			"%d", x.m.Messages,
			x.m.Reports, most)
	}
	if x.m.Reports >= r.a.Cohort.Minimum {
		if c.report.Enough++; c.report.Enough == 1 {
			c.enough = x.name
		}
	}
	of := ""
	if r.summed != nil {
		of = r.shared.name
	} else if x.m.Messages > 0 {
		of = x.name
	}
	if of == "" {
		return
	}
	if c.partly++; c.partly == 1 {
		c.firstPartly = of
	}
}

// sets compares what both servers of the channel shares signed before the shuffler's share of the sums left. It may
// have left although the manifest says that the cohort was destroyed.
func (c *checker) sets(x *mixture, r *round) {
	accepted, summed := r.accepted, r.summed
	switch {
	case accepted == nil:
		c.wrong(SetMissing, x.statement, "the analyzer signed no set of reports that it accepts")
	case summed == nil:
		c.wrong(SetMissing, x.statement, "the shuffler did not say which share of the sums leaves it")
	case !bytes.Equal(accepted.Set, summed.Set) || accepted.Reports != summed.Reports:
		c.wrong(SetsDiffer, x.statement, "the analyzer accepted the set %x of %d reports, the shuffler summed %x of %d",
			short(accepted.Set), accepted.Reports, short(summed.Set), summed.Reports)
	case accepted.Reports != x.m.Reports && x.m.Outcome == wire.Released:
		c.wrong(SetsDiffer, x.statement, "both servers signed a set of %d reports, and %d were released",
			accepted.Reports,
			x.m.Reports)
	}
}

// accepted takes the analyzer's set of the round under way.
func (c *checker) accepted(s *statement, v *wire.Accepted) {
	r := c.current
	if r == nil || r.known || r.counts != nil || r.a.Epoch != v.Epoch || r.a.Round != v.Round {
		c.wrong(OutOfOrder, s, "a set is accepted between a round's announcement and its counts")
		return
	}
	if r.a.Plan.Channel != plan.Shares {
		c.wrong(OutOfOrder, s, "no set is accepted in the channel %s", r.a.Plan.Channel)
		return
	}
	c.about(s, v.Announcement, r)
	if r.accepted != nil {
		c.wrong(SecondSet, s, "the analyzer accepted a set of round %d of epoch %d before", v.Round, v.Epoch)
		return
	}
	r.accepted = v
}

// rest reads what is left of the shuffler's log when the analyzer's is over: at most the round under way.
func (c *checker) rest() error {
	if c.current != nil && !c.current.known {
		if err := c.left(c.current); err != nil {
			return err
		}
	}
	for {
		s, err := c.shuffler.take()
		if err != nil || s == nil {
			return err
		}
		epoch, round, _ := s.at()
		if v, ok := s.value.(*wire.Pool); ok {
			c.leftPool(s, v)
			continue
		}
		if last := c.current; last != nil && (epoch < last.a.Epoch || epoch == last.a.Epoch && round <= last.a.Round &&
			!last.a.Final) {
			c.doubled(s)
			continue
		}
		c.unbounded = c.unbounded || leaves(s)
		c.wrong(UnannouncedRelease, s, "round %d of epoch %d was never announced", round, epoch)
	}
}

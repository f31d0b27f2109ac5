package audit

import (
	"bytes"
	"math"

	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
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

// counted holds counts against announcement and manifest, and computes what must be learned from them.
func (c *checker) counted(s *statement, v *wire.Counts) error {
	r := c.current
	switch {
	case r == nil || r.a.Final || v.Epoch > r.a.Epoch || v.Epoch == r.a.Epoch && v.Round > r.a.Round:
		c.wrong(OutOfOrder, s, "its round is not announced yet")
		return nil
	case v.Epoch < r.a.Epoch || v.Round < r.a.Round || r.counts != nil:
		c.wrong(DoubledCounts, s, "round %d of epoch %d was counted before, or is over", v.Round, v.Epoch)
		return nil
	}
	r.counts, r.counted = v, s
	c.about(s, v.Announcement, r)
	x, err := c.mixedOf(r)
	if err != nil {
		return err
	}
	if x == nil {
		c.wrong(ManifestMissing, s, "the shuffler's log has no manifest of round %d of epoch %d", v.Round, v.Epoch)
	} else {
		c.manifest(x, r)
		c.fits(s, v, x)
		if err := c.retained(x, r); err != nil {
			return err
		}
	}
	possible := c.possible(s, v, r.a)
	c.absorb(s, v, r, possible)
	r.fill()
	c.spends(s, r)
	return nil
}

// spends computes what a round cost the people of its cohort: what left the shuffler, whatever the analyzer made of it.
// s is the last statement of what left.
func (c *checker) spends(s *statement, r *round) {
	of := r.spent()
	if r.row.Left = of.Left(); !r.row.Left {
		return
	}
	together, _ := of.Guarantee()
	epsilon := together.Epsilon(c.delta(r.a))
	r.row.Epsilon = privacy.Epsilon(epsilon)
	if t := c.configuration; t != nil && !(epsilon*(1-c.o.Tolerance) <= t.Terms.Epsilon) {
		c.wrong(PromiseExceeded, s, "%d reports reveal epsilon %v of a record, promised is %v", of.Reports(), epsilon,
			t.Terms.Epsilon)
	}
	if r.a.Plan.Panel != nil {
		c.lived.add(r.a.Epoch, together)
	}
}

// spent is what was signed of what left.
func (r *round) spent() deployment.Signed {
	of := deployment.Signed{Announcement: r.a, Summed: r.summed, Counts: r.counts}
	if r.mixed != nil {
		of.Manifest = r.mixed.m
	}
	return of
}

// silent takes what the shuffler says of a round of which the analyzer signed no counts. What left is spent all the
// same.
func (c *checker) silent(r *round) error {
	x, err := c.mixedOf(r)
	if err != nil || x == nil && r.summed == nil {
		return err
	}
	s := r.shared
	if x != nil {
		c.manifest(x, r)
		if err := c.retained(x, r); err != nil {
			return err
		}
		s = x.statement
	}
	r.fill()
	c.spends(s, r)
	if r.row.Left {
		c.report.note("By %s messages of round %d of epoch %d left the shuffler, or may have, and the analyzer "+
			"signed no counts of it. It had them, so that what the plan reveals is spent, whatever it signs "+
			"later.", s.name, r.a.Round,
			r.a.Epoch)
	}
	return c.over(r)
}

// left ends a round whose last statement is not there: one that is under way, or that the analyzer left behind.
func (c *checker) left(r *round) error {
	r.known = true
	if r.counts == nil {
		return c.silent(r)
	}
	return c.over(r)
}

// over ends a round: what people have spent up to it is known, and its row is told.
func (c *checker) over(r *round) error {
	c.soFar(r)
	if err := c.again(r); err != nil {
		return err
	}
	if c.o.Row != nil {
		c.o.Row(r.row)
	}
	return nil
}

// again reads the further manifests of a round that follow its first one in the shuffler's log. No plan bounds what
// leaves by them.
func (c *checker) again(r *round) error {
	for {
		s, err := c.shuffler.peek()
		if err != nil || s == nil {
			return err
		}
		_, manifest := s.value.(*wire.Manifest)
		if epoch, round, _ := s.at(); !manifest || r.mixed == nil || epoch != r.a.Epoch || round != r.a.Round {
			return nil
		}
		c.shuffler.held = nil
		c.doubled(s)
		if leaves(s) {
			nothing := privacy.Epsilon(math.Inf(1))
			r.row.Left, r.row.Again, r.row.Epsilon = true, true, nothing
			if r.a.Plan.Panel != nil {
				r.row.SoFar = nothing
			}
		}
	}
}

// fits compares counts with the manifest that they name.
func (c *checker) fits(s *statement, v *wire.Counts, x *mixture) {
	if !bytes.Equal(v.Manifest, x.digest[:]) {
		c.wrong(ManifestReplaced, x.statement, "%s counted under the manifest %x, and this one has the digest %x: "+
			"one of them was exchanged afterwards", s.name, short(v.Manifest), short(x.digest[:]))
	}
	if v.Reports != x.m.Reports {
		c.wrong(ReportsDiffer, s, "%d reports were counted, the manifest %s says %d", v.Reports, x.name, x.m.Reports)
	}
	switch destroyed := x.m.Outcome == wire.Destroyed; {
	case destroyed && !v.Destroyed:
		c.wrong(DestroyedCounted, s, "the cohort was destroyed (%s), and counts of it are signed", x.name)
	case !destroyed && v.Destroyed:
		c.report.Refused++
		c.wrong(ReleaseRefused, s, "by %s %d reports left the shuffler, and the analyzer signed that it counts none "+
			"of them. It had them, so that they are spent like those that are counted", x.name, x.m.Reports)
	}
}

// possible reports whether counts have the planned shape and can come of so many reports.
func (c *checker) possible(s *statement, v *wire.Counts, a *plan.Announcement) bool {
	if v.Destroyed {
		return true
	}
	if len(v.Releases) != len(a.Encodings) {
		c.wrong(CountsShape, s, "%d releases are counted, the round has %d", len(v.Releases), len(a.Encodings))
		return false
	}
	for i, one := range v.Releases {
		switch curated := a.Plan.Curator != nil; {
		case curated != (len(one.Curated) > 0):
			c.wrong(CountsShape, s, "release %d has counts of another sort than its plan", i)
			return false
		case !curated && len(one.Ones) != len(a.Encodings[i].Coordinates):
			c.wrong(CountsShape, s, "release %d has counts of %d coordinates, planned are %d", i, len(one.Ones),
				len(a.Encodings[i].Coordinates))
			return false
		}
	}
	if a.Plan.Curator != nil {
		return true // the machine reads it, and says what is wrong
	}
	if _, err := deployment.Sums(a, v); err != nil {
		c.wrong(CountsImpossible, s, "the counts do not add up: %v", err)
		return false
	}
	return true
}

// absorb computes what follows from the counts.
func (c *checker) absorb(s *statement, v *wire.Counts, r *round, possible bool) {
	if v.Destroyed {
		c.report.Destroyed++
	} else {
		c.report.Releases++
	}
	switch {
	case c.machine == nil:
		return
	case !possible:
		c.lost(s)
		return
	}
	own := *v
	own.Announcement = r.digest[:] // what is wrong with it was told
	var err error
	if r.learned, err = c.machine.Absorb(&own, s.digest); err != nil {
		c.wrong(CountsImpossible, s, "nothing can be learned from the counts: %v", err)
		c.lost(s)
		return
	}
	c.report.WrongShare = c.machine.WrongShare()
	if estimate, err := c.machine.Estimate(); err == nil {
		r.row.Coefficients, r.row.HalfWidth, r.row.Interval = estimate.Theta, estimate.HalfWidth, estimate.Interval
	}
}

// learned holds what the analyzer says that it learned against what follows from the counts.
func (c *checker) learned(s *statement, v *wire.Learned) error {
	r := c.current
	switch {
	case r == nil || r.a.Final || r.counts == nil || v.Epoch > r.a.Epoch || v.Epoch == r.a.Epoch && v.Round > r.a.Round:
		c.wrong(OutOfOrder, s, "its round was not counted yet")
		return nil
	case v.Epoch < r.a.Epoch || v.Round < r.a.Round || r.known:
		c.wrong(DoubledCounts, s, "what was learned of round %d of epoch %d was said before, or it is over", v.Round,
			v.Epoch)
		return nil
	}
	r.known = true
	c.about(s, v.Announcement, r)
	if !bytes.Equal(v.Counts, r.counted.digest[:]) || v.Destroyed != r.counts.Destroyed {
		c.wrong(LearnedOther, s, "it is about the counts %x, destroyed: %t; %s has the digest %x, destroyed: %t",
			short(v.Counts), v.Destroyed, r.counted.name, short(r.counted.digest[:]), r.counts.Destroyed)
	}
	if own := r.learned; own != nil {
		same := c.numbers(SumsWrong, s, "the sums", own.Sums, v.Sums)
		same = c.numbers(IterateWrong, s, "the iterate", own.Iterate, v.Iterate) && same
		same = c.numbers(EpsilonWrong, s, "epsilon", [2]float64{own.Epsilon, own.EpsilonAlone},
			[2]float64{v.Epsilon, v.EpsilonAlone}) && same
		same = c.numbers(LiftWrong, s, "the lift", [2]*wire.Lift{own.Lift, own.Total},
			[2]*wire.Lift{v.Lift, v.Total}) && same
		same = c.numbers(ChangeWrong, s, "whether the world changed", own.Unchanged, v.Unchanged) && same
		if own.Action != v.Action {
			c.wrong(ActionWrong, s, "by the rules %s, and it says %s", acts(own.Action), acts(v.Action))
			same = false
		}
		if c.o.Tolerance == 0 && !bytes.Equal(own.Policy, v.Policy) {
			c.wrong(PolicyWrong, s, "the next policy has the digest %x, recomputed %x", short(v.Policy),
				short(own.Policy))
			same = false
		}
		if r.row.Recomputed = same; same {
			c.report.PoliciesRecomputed++
		}
	}
	c.stated = v.Policy
	r.row.Lift, r.row.Total, r.row.Unchanged, r.row.Action = LiftOf(v.Lift), LiftOf(v.Total), v.Unchanged, v.Action
	if r.row.Total != nil {
		c.report.Lift = r.row.Total
	}
	return c.over(r)
}

// acts is an action of the rules in words.
func acts(action string) string {
	if action == "" {
		return "nothing happens"
	}
	return "the action is " + action
}

// soFar enters what people have spent up to a round.
func (c *checker) soFar(r *round) {
	if r.a.Plan.Panel == nil {
		c.report.EpsilonSoFar = max(c.report.EpsilonSoFar, r.row.Epsilon) // 0 where nothing left
		return
	}
	c.report.EpsilonSoFar = c.lived.epsilon(r.a, c.delta(r.a))
	r.row.SoFar = c.report.EpsilonSoFar
}

// delta is that of the terms; of the plan where no terms are logged.
func (c *checker) delta(a *plan.Announcement) float64 {
	if c.configuration != nil {
		return c.configuration.Terms.Delta
	}
	return a.Plan.Delta
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

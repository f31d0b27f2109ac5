package audit

import (
	"bytes"
	"math"

	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// releases reads the shuffler's log, as far as the analyzer's asks for it, and judges what left the shuffler by it.
type releases struct {
	*findings
	log     *chain
	drawing *drawing // judges the pools in it
	sets    *sets    // judges the shares of sums in it

	enough      string // the manifest of the first cohort that was destroyed with reports enough
	partly      int    // of how many cohorts that were destroyed something may have left
	firstPartly string // the statement that says so of the first
	unbounded   bool   // something left that no announced plan bounds
}

// manifest reads the log up to the manifest of the announced round, and judges it; nil if the next one is of a later
// round, or there is none.
func (rel *releases) manifest(r *round) (*mixture, error) {
	for {
		s, err := rel.log.peek()
		if err != nil || s == nil {
			return nil, err
		}
		epoch, round, _ := s.at()
		if epoch > r.a.Epoch || epoch == r.a.Epoch && round > r.a.Round {
			return nil, nil
		}
		rel.log.skip()
		past := epoch < r.a.Epoch || round < r.a.Round
		switch v := s.value.(type) {
		case *wire.Manifest:
			if !past {
				r.mixed = &mixture{s, v}
				rel.judge(r.mixed, r)
				return r.mixed, nil
			}
			rel.repeat(s)
		case *wire.Pool:
			rel.drawing.take(s, v, r, past)
		case *wire.Summed:
			rel.sets.sum(s, v, r, past)
		}
	}
}

// pool reads the log up to the pool of the announced epoch, and no further.
func (rel *releases) pool(r *round) error {
	for r.pool == nil {
		s, err := rel.log.peek()
		if err != nil || s == nil {
			return err
		}
		epoch, _, _ := s.at()
		past := epoch < r.a.Epoch
		v, isPool := s.value.(*wire.Pool)
		if !past && (!isPool || epoch > r.a.Epoch) {
			return nil
		}
		rel.log.skip()
		switch summed, ok := s.value.(*wire.Summed); {
		case isPool:
			rel.drawing.take(s, v, r, past)
		case ok:
			rel.sets.repeat(s, summed)
		default:
			rel.repeat(s)
		}
	}
	return nil
}

// repeat refuses a manifest of a round that is over.
func (rel *releases) repeat(s *statement) {
	epoch, round, _ := s.at()
	rel.unbounded = rel.unbounded || leaves(s)
	rel.wrong(DoubledRelease, s, "the shuffler signed another manifest of round %d of epoch %d before, or one of a "+
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

// judge holds how a round ended to its announcement and to the round before.
func (rel *releases) judge(x *mixture, r *round) {
	m, a := x.m, r.a
	rel.about(x.statement, m.Announcement, r)
	if m.Enrolled > a.Cohort.Size {
		rel.wrong(CohortExceeded, x.statement, "%d devices enrolled in a cohort of %d", m.Enrolled, a.Cohort.Size)
	}
	devices := uint64(m.Reports)
	for _, one := range m.Refused {
		devices += uint64(one.TakenOut)
	}
	if b := r.before; b != nil && (m.Enrolled != b.Enrolled || devices > uint64(b.Reports)) {
		rel.wrong(Accounting, x.statement, "%d reports and %d that were taken out, of %d devices, follow a round with "+
			"%d reports of %d devices: in a later round only those take part that reported in the one "+
			"before", m.Reports, devices-uint64(m.Reports), m.Enrolled, b.Reports, b.Enrolled)
	}
	rel.drawing.release(x, r)
	if r.summed != nil || a.Plan.Channel == plan.Shares && m.Outcome == wire.Released {
		rel.sets.compare(x, r)
	}
	noise, each := shuffle.NoiseMessages(a), uint64(a.ReportMessages())
	if m.Outcome != wire.Released {
		rel.destroy(x, r, uint64(m.Reports)*each+noise)
		return
	}
	if m.Reports < a.Cohort.Minimum {
		rel.wrong(BelowMinimum, x.statement, "%d reports were released, below the announced minimum of %d", m.Reports,
			a.Cohort.Minimum)
	}
	if m.NoiseMessages != noise {
		rel.wrong(NoiseCount, x.statement, "the shuffler added %d messages of noise, planned are %d", m.NoiseMessages,
			noise)
	}
	if m.Messages-m.NoiseMessages != uint64(m.Reports)*each {
		rel.wrong(MessageCount, x.statement, "%d messages left besides noise, and %d reports of %d messages hold %d",
			m.Messages-m.NoiseMessages, m.Reports, each, uint64(m.Reports)*each)
	}
}

// destroy judges a round that the shuffler destroyed, of which at most so many messages can have left.
func (rel *releases) destroy(x *mixture, r *round, most uint64) {
	if x.m.Messages > most {
		rel.wrong(MessageCount, x.statement, "%d messages may have left, and %d reports and the planned noise hold "+
			"%d", x.m.Messages, x.m.Reports, most)
	}
	if x.m.Reports >= r.a.Cohort.Minimum {
		if rel.report.Enough++; rel.report.Enough == 1 {
			rel.enough = x.name
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
	if rel.partly++; rel.partly == 1 {
		rel.firstPartly = of
	}
}

// count compares counts with the manifest that they name.
func (rel *releases) count(s *statement, v *wire.Counts, x *mixture) {
	if !bytes.Equal(v.Manifest, x.digest[:]) {
		rel.wrong(ManifestReplaced, x.statement, "%s counted under the manifest %x, and this one has the digest %x: "+
			"one of them was exchanged afterwards", s.name, short(v.Manifest), short(x.digest[:]))
	}
	if v.Reports != x.m.Reports {
		rel.wrong(ReportsDiffer, s, "%d reports were counted, the manifest %s says %d", v.Reports, x.name, x.m.Reports)
	}
	switch destroyed := x.m.Outcome == wire.Destroyed; {
	case destroyed && !v.Destroyed:
		rel.wrong(DestroyedCounted, s, "the cohort was destroyed (%s), and counts of it are signed", x.name)
	case !destroyed && v.Destroyed:
		rel.report.Refused++
		rel.wrong(ReleaseRefused, s, "by %s %d reports left the shuffler, and the analyzer signed that it counts none "+
			"of them. It had them, so that they are spent like those that are counted", x.name, x.m.Reports)
	}
}

// again reads the further manifests of a round that follow its first one in the shuffler's log. No plan bounds what
// leaves by them.
func (rel *releases) again(r *round) error {
	for {
		s, err := rel.log.peek()
		if err != nil || s == nil {
			return err
		}
		_, manifest := s.value.(*wire.Manifest)
		if epoch, round, _ := s.at(); !manifest || r.mixed == nil || epoch != r.a.Epoch || round != r.a.Round {
			return nil
		}
		rel.log.skip()
		rel.repeat(s)
		if leaves(s) {
			nothing := privacy.Epsilon(math.Inf(1))
			r.row.Left, r.row.Again, r.row.Epsilon = true, true, nothing
			if r.a.Plan.Panel != nil {
				r.row.SoFar = nothing
			}
		}
	}
}

// finish reads what is left of the log when the analyzer's is over: at most the round under way, which is the last.
func (rel *releases) finish(last *round) error {
	for {
		s, err := rel.log.take()
		if err != nil || s == nil {
			return err
		}
		epoch, round, _ := s.at()
		if v, ok := s.value.(*wire.Pool); ok {
			rel.drawing.finish(s, v, last)
			continue
		}
		if last != nil && (epoch < last.a.Epoch || epoch == last.a.Epoch && round <= last.a.Round && !last.a.Final) {
			rel.repeat(s)
			continue
		}
		rel.unbounded = rel.unbounded || leaves(s)
		rel.wrong(UnannouncedRelease, s, "round %d of epoch %d was never announced", round, epoch)
	}
}

// conclude adds to the report what a reader must know of the cohorts that the shuffler destroyed, and of what no plan
// bounds.
func (rel *releases) conclude() {
	r := rel.report
	if r.Enough > 0 {
		r.note("Of the cohorts that the shuffler says it destroyed, %d had at least the announced minimum of "+
			"reports, the first in %s. No statement says why. An honest shuffler does it where it asks for more "+
			"reports than was announced, where reports were lost, and in the channel shares where the analyzer "+
			"accepts too few. A shuffler that destroys what it does not like chooses whose reports count: ask its "+
			"operator about each.", r.Enough, rel.enough)
	}
	if rel.partly > 0 {
		r.note("Of %d cohorts that the shuffler destroyed a part may have left before, the first by %s. The audit "+
			"counts them as spent like those that left whole.", rel.partly, rel.firstPartly)
	}
	if rel.unbounded {
		r.EpsilonSoFar = privacy.Epsilon(math.Inf(1))
	}
}

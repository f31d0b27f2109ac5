package device

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// structured is an announcement of two options of one coordinate.
func (f *fixture) structured(profile glm.Profile) *plan.Announcement {
	l := must(learner.New(learner.Config{
		Profile: profile, Dimension: 2, Structure: structure.Options(2, 1), Radius: 2, Horizon: 36, Epsilon: 4,
		Delta: 1e-3, MinCohort: 12, Practical: learner.PracticalConfig{FirstCohort: 12, Growth: 1},
		Paper: learner.PaperConfig{Rounds: 2},
	}))
	step := l.Next()
	step.Cohort = 12
	p := must(plan.Propose(step, plan.Terms{
		Epsilon: 4, Delta: 1e-3, DropOut: 0.2, MinCohort: 4, MaxShift: 2, VarianceRatio: 64,
	}))
	a := f.announcement(profile)
	a.Policy, a.Plan, a.Cohort, a.Encodings = step.Policy, p.Plan, p.Cohort, p.Encodings
	return a
}

// An arm that does not fit the announced structure is reported as the null record, to the last bit, and one that fits
// is not.
func TestARecordThatDoesNotFitIsReportedAsNull(t *testing.T) {
	t.Parallel()
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		f := newFixture(t)
		core := must(New(f.config()))
		a := must(core.Judge(f.announce(f.structured(profile)), 1, 0))
		if a.Weak() != nil {
			t.Fatal(a.Weak())
		}
		asked := must(core.NewState(3).Ask(a, start))
		state := must(asked.Promise(a, &wire.EnrolReply{Enrolled: true, Slot: 7, ReportAfter: time.Minute}, start))
		report := func(record statistic.Record) (ones [][]uint64) {
			r := state.Begin(a)
			r.open().records = decided(record)
			envelope, _, err := core.Report(state, r, a, f.shufflerKey.Public(), source(4))
			if err != nil {
				t.Fatal(err)
			}
			ones, _ = f.bits(f.open(envelope, a.Announcement).Payload, a.Announcement)
			return ones
		}
		null := report(statistic.Record{Null: true})
		misfit := report(statistic.Record{Arm: []float64{0.9, 0.1}, Reward: 1, Weight: 1})
		fits := report(statistic.Record{Arm: []float64{0.9, 0}, Reward: 1, Weight: 1})
		if len(null[0]) != 2 {
			t.Errorf("%s: %d products are reported of arms with one coordinate", profile, len(null[0]))
		}
		same := func(a, b [][]uint64) bool { return slices.EqualFunc(a, b, slices.Equal[[]uint64]) }
		if !same(misfit, null) || same(fits, null) {
			t.Errorf("%s: null %v, an arm that does not fit %v, one that fits %v", profile, null, misfit, fits)
		}
	}
}

// The app is told, and nothing is kept: the report will be the null record.
func TestArmsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.opened(f.config())
	must(d.Follow(f.announce(f.structured(glm.Practical)), start))
	if _, err := d.Decide([][]float64{{1, 0}, {0.5, 0.5}}, source(1)); !errors.Is(err, glm.ErrBadArm) {
		t.Errorf("an arm in two runs: %v", err)
	}
	if _, err := d.Decide([][]float64{{1, 0}, {0, 0.5}}, source(1)); err != nil {
		t.Error(err)
	}
}

// A later round with more numbers, of arms of another dimension or structure, would reveal more than the epoch's
// guarantee, which was set aside as it began.
func TestARoundWithOtherArmsDoesNotFollow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	core := must(New(f.config()))
	first := f.announcement(glm.Paper)
	for name, change := range map[string]func(*plan.Announcement){
		"fewer coordinates": func(a *plan.Announcement) { a.Policy.Dimension = 1 },
		"a structure":       func(a *plan.Announcement) { a.Policy.Structure = structure.Options(2, 1) },
	} {
		began, other := first.Clone(), first.Clone()
		change(other)
		other.Round = 1
		a, b := &Announced{Announcement: began, Digest: digestOf(first)}, &Announced{Announcement: other}
		b.Previous = a.Digest[:]
		if err := b.Follows(a); !errors.Is(err, ErrRewound) || !strings.Contains(err.Error(), "arms") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The same by way of signed announcements: they are in range, and the later one reveals more.
	began := f.structured(glm.Paper)
	a := must(core.Judge(f.announce(began), 1, 0))
	next := f.second(first)
	next.Previous, next.Plan = a.Digest[:], began.Plan
	for i, r := range next.Plan.Rounds[1].Releases {
		next.Encodings[i].NoiseBits, next.Encodings[i].Bias = r.NoiseBits, r.Bias
		next.Encodings[i].Scale *= 0.01 // moves one record less than planned
	}
	b := must(core.Judge(f.announce(next), 1, 1))
	if b.Weak() != nil || !(b.Guarantee().TailDelta > a.Guarantee().TailDelta) {
		t.Errorf("%v: %+v, and it began with %+v", b.Weak(), b.Guarantee(), a.Guarantee())
	}
	if err := b.Follows(a); !errors.Is(err, ErrRewound) {
		t.Error(err)
	}
}

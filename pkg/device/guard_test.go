package device

import (
	"errors"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Once a device's state is proved old, no answer gives it a place, not even one that the shuffler signed for the same
// request earlier, and no report is made.
func TestAProvedDeviceTakesNoLaterAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := wire.EnrolReply{Enrolled: true, Slot: 7, ReportAfter: time.Minute}
	held := first
	held.Held = true
	d, _ := f.device(glm.Practical)
	request := must(d.Enrol(start))
	if _, err := d.Answer(f.reply(request, held), start); !errors.Is(err, ErrRolledBack) {
		t.Fatal(err)
	}
	if got, err := d.Answer(f.reply(request, first), start); !errors.Is(err, ErrRolledBack) {
		t.Errorf("an earlier reply is taken: %+v %v", got, err)
	}
	if s := d.Status(); s.ReportAt != nil || s.Ledger.State(1) != privacy.Asked {
		t.Errorf("%+v", s)
	}
	if _, err := d.Report(start.Add(time.Hour)); err == nil {
		t.Error("a report after the proof")
	}
}

// A device that was restarted waits with its report as it promised.
func TestARestartedDeviceReportsNoEarlier(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, _ := f.device(glm.Practical)
	f.enrol(d)
	d = f.restart(d)
	if _, err := d.Report(start.Add(time.Minute - 1)); !errors.Is(err, ErrNoReport) {
		t.Errorf("a report before its time: %v", err)
	}
	must(d.Report(start.Add(time.Minute)))
}

// The cohort of an epoch is closed in its later rounds.
func TestNoPlaceIsAskedForInALaterRound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, a := f.device(glm.Paper)
	must(d.Follow(f.announce(f.second(a)), start))
	if _, err := d.Enrol(start); !errors.Is(err, ErrNoPlace) || len(d.Status().Ledger.Entries) != 0 {
		t.Errorf("%v, ledger %+v", err, d.Status().Ledger)
	}
}

// A later round that the limits rule out ends the promise, and wipes the record.
func TestAWeakRoundEndsThePromise(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, a := f.device(glm.Paper)
	f.enrol(d)
	must(d.Decide([][]float64{{0.6, 0.2}}, source(1)))
	must(d.Reward(decision(d), 1, start))
	must(d.Report(start.Add(time.Minute)))
	record := *d.record
	arm := only(record).Arm
	if record.Over() || arm[0] == 0 {
		t.Fatal("the record of a round that is not the last is gone")
	}
	next := f.second(a)
	next.Encodings[0].Scale *= 1.01 // moves one record further than planned
	if fresh, err := d.Follow(f.announce(next), start); !fresh || err != nil || d.last.Weak() == nil {
		t.Fatal(fresh, err, d.last.Weak())
	}
	if !record.Over() || arm[0] != 0 || d.Status().ReportAt != nil {
		t.Errorf("the record is kept: %v", arm)
	}
	if _, err := d.Report(start.Add(time.Hour)); !errors.Is(err, ErrNoReport) {
		t.Errorf("a report under a weak plan: %v", err)
	}
}

// The device's own bound on dishonest reports counts, whatever the plan says.
func TestTheOwnShareOfDishonestReportsCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.config()
	honest := must(must(New(c)).Judge(f.announce(f.announcement(glm.Practical)), 1, 0))
	c.Limits.Dishonest, c.Limits.Epsilon = 0.5, 100
	cautious := must(must(New(c)).Judge(f.announce(f.announcement(glm.Practical)), 1, 0))
	if honest.Weak() != nil || cautious.Weak() == nil && !(cautious.Guarantee().Mu > honest.Guarantee().Mu) {
		t.Errorf("%v, %+v; without dishonest devices %+v", cautious.Weak(), cautious.Guarantee(), honest.Guarantee())
	}
	// A part of a device is one: half a device more than announced counts as one more.
	a := f.announcement(glm.Practical)
	c.Limits.Dishonest = (float64(a.Cohort.MaxDishonest) + 0.5) / float64(a.Cohort.Size)
	if more := must(must(New(c)).Judge(f.announce(a), 1, 0)); !(more.Guarantee().Mu > honest.Guarantee().Mu) {
		t.Errorf("with half a device more dishonest %+v, without %+v", more.Guarantee(), honest.Guarantee())
	}
}

// The request names the announcement under which the device asks.
func TestARequestNamesItsAnnouncement(t *testing.T) {
	t.Parallel()
	f, core, a, _ := promised(t, glm.Practical)
	request := must(core.Request(a, 3))
	r, err := wire.OpenEnrolRequest(request, wire.Party{Deployment: deployment, Key: f.registrar.Public()})
	if err != nil || [32]byte(r.Request.Announcement) != a.Digest || r.Request.Epoch != 1 || r.Request.Device != 3 {
		t.Errorf("%+v %v", r.Request, err)
	}
}

// What Core.Report refuses by itself, whoever calls it.
func TestReportsThatAreNotMade(t *testing.T) {
	t.Parallel()
	f, core, a, state := promised(t, glm.Paper)
	key := f.shufflerKey.Public()
	unmade := func(what string, s State, r Record, a *Announced) {
		t.Helper()
		if _, _, err := core.Report(s, r, a, key, source(1)); err == nil {
			t.Errorf("%s: a report is made", what)
		}
	}
	r := state.Begin(a)
	_, next, err := core.Report(state, r, a, key, source(1))
	if err != nil {
		t.Fatal(err)
	}
	r.Made()
	unmade("the first round again", next, r, a)
	if _, kept := r.Remember([]float64{1, 0}, glm.Decision{Weight: 1}); kept {
		t.Error("a decision after the first report is kept")
	}
	wiped := state.Begin(a)
	wiped.Wipe()
	unmade("a wiped record", state, wiped, a)

	digest := digestOf(f.announcement(glm.Paper))
	other := f.announcement(glm.Paper)
	other.Epoch, other.Previous = 2, digest[:]
	second := must(core.Judge(f.announce(other), 2, 0))
	later := state
	later.Ledger.Records, later.Ledger.Epsilon = 2, 100
	later = must(must(later.Ask(second, start)).Promise(second, &wire.EnrolReply{Enrolled: true, Slot: 1}, start))
	unmade("the record of another epoch", later, state.Begin(a), second)

	weak := *a
	weak.judged = func() *judgement { return refused(errors.New("weak")) }
	unmade("a weak plan", state, state.Begin(a), &weak)
}

// A state owes a report only in its own epoch, until its last, and none of a round that it missed.
func TestWhatAStateOwes(t *testing.T) {
	t.Parallel()
	f, core, a, state := promised(t, glm.Paper)
	second := must(core.Judge(f.announce(f.second(f.announcement(glm.Paper))), 1, 1))
	for _, c := range []struct {
		reported int
		under    *Announced
		want     bool
	}{
		{0, a, true}, {1, a, true}, {0, second, false}, {1, second, true}, {len(a.Plan.Rounds), second, false},
	} {
		e := *state.Enrolment
		e.Reported = c.reported
		if got := (State{Enrolment: &e}).Owes(c.under); got != c.want {
			t.Errorf("%d reported, round %d: owes %v", c.reported, c.under.Round, got)
		}
	}
	e := *state.Enrolment
	e.Epoch = 2
	if (State{Enrolment: &e}).Owes(a) || (State{}).Owes(a) {
		t.Error("a report of another epoch, or of none, is owed")
	}
}

// spy is a channel that keeps the vectors that it is given.
type spy struct{ vectors [][]float64 }

func (*spy) Size() int { return 0 }

func (s *spy) Append(dst []byte, _ channel.Sender, vectors [][]float64, _ protocol.Source) ([]byte, error) {
	s.vectors = vectors
	for _, v := range vectors {
		for _, x := range v {
			if x != 0 {
				return append(dst, 1), nil
			}
		}
	}
	return dst, nil
}

// The vectors of a record are overwritten once its payload is made.
func TestVectorsAreOverwritten(t *testing.T) {
	t.Parallel()
	_, _, a, _ := promised(t, glm.Practical)
	watched, watcher := *a, new(spy)
	watched.channel = watcher
	made := must(watched.payload(decided(statistic.Record{Arm: []float64{0.6, 0.2}, Reward: 1, Weight: 1}),
		channel.Sender{}, from(source(1))))
	if len(made) != 1 {
		t.Fatal("the vectors are zero")
	}
	for _, v := range watcher.vectors {
		for _, x := range v {
			if x != 0 {
				t.Errorf("left in memory: %v", v)
			}
		}
	}
}

// Two plans are equal only if every number is.
func TestPlansDifferInEveryNumber(t *testing.T) {
	t.Parallel()
	a := newFixture(t).announcement(glm.Paper).Plan
	for name, change := range map[string]func(*plan.Plan){
		"epsilon":    func(p *plan.Plan) { p.Epsilon /= 2 },
		"delta":      func(p *plan.Plan) { p.Delta /= 2 },
		"tail delta": func(p *plan.Plan) { p.TailDelta /= 2 },
		"rounds":     func(p *plan.Plan) { p.Rounds = p.Rounds[:1] },
		"releases":   func(p *plan.Plan) { p.Rounds[1].Releases = nil },
		"shift":      func(p *plan.Plan) { p.Rounds[1].Releases[0].Shift /= 2 },
		"noise bits": func(p *plan.Plan) { p.Rounds[1].Releases[0].NoiseBits-- },
		"bias":       func(p *plan.Plan) { p.Rounds[1].Releases[0].Bias-- },
		"statistic":  func(p *plan.Plan) { p.Rounds[1].Releases[0].Statistic = statistic.Hessian },
		"channel":    func(p *plan.Plan) { p.Channel = plan.Shares },
		"curator":    func(p *plan.Plan) { p.Curator = &plan.Curator{} },
		"panel":      func(p *plan.Plan) { p.Panel = &plan.Panel{} },
		"decisions":  func(p *plan.Plan) { p.Decisions++ },
		"records":    func(p *plan.Plan) { p.Records++ },
		"period":     func(p *plan.Plan) { p.Period++ },
	} {
		b := a.Clone()
		if !a.Equal(b) {
			t.Fatal("a clone differs")
		}
		if change(&b); a.Equal(b) {
			t.Errorf("another %s is not seen", name)
		}
	}
}

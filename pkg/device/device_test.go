package device

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// open is a device that follows a first announcement and knows the shuffler's keys.
func (f *fixture) device(profile glm.Profile) (*Device, *plan.Announcement) {
	f.Helper()
	d := f.opened(f.config())
	a := f.announcement(profile)
	if fresh, err := d.Follow(f.announce(a), start); !fresh || err != nil {
		f.Fatal(fresh, err)
	}
	if err := d.Keys(f.keys(1, f.shufflerKey)); err != nil {
		f.Fatal(err)
	}
	return d, a
}

// enrol gives the device slot 7 and a minute.
func (f *fixture) enrol(d *Device) {
	f.Helper()
	yes := wire.EnrolReply{Enrolled: true, Slot: 7, ReportAfter: time.Minute}
	if got := must(d.Answer(f.reply(must(d.Enrol(start)), yes), start)); !got.Enrolled ||
		!got.ReportAt.Equal(start.Add(time.Minute)) {
		f.Fatalf("%+v", got)
	}
}

// restart is the device after its process died.
func (f *fixture) restart(d *Device) *Device { return must(Open(d.core.c, 0, must(d.Save()))) }

// In the paper's profile a device answers each round once, the first when it promised to and the later at a public time
// of its own; then the record is gone, and the ledger has one entry for all rounds.
func TestADeviceAnswersEveryRoundOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, a := f.device(glm.Paper)
	f.enrol(d)
	arms := [][]float64{{0.6, 0.2}, {-0.3, 0.5}}
	made := must(d.Decide(arms, source(1)))
	if again := must(d.Decide(arms, source(1))); !made.Sampled || again.Sampled {
		t.Errorf("decisions %+v, %+v", made, again)
	}
	must(d.Reward(decision(d), 1, start))
	now := start.Add(time.Minute)
	if _, err := d.Report(now.Add(-1)); !errors.Is(err, ErrNoReport) {
		t.Errorf("a report before its time: %v", err)
	}
	if r := f.open(must(d.Report(now)), a); r.Slot != 7 || r.Device != 3 || r.Round != 0 {
		t.Errorf("report %d of device %d in slot %d", r.Round, r.Device, r.Slot)
	}
	if _, err := d.Report(now); !errors.Is(err, ErrNoReport) {
		t.Errorf("a second report of the round: %v", err)
	}
	if _, err := d.Reward(decision(d), 1, start); !errors.Is(err, ErrLate) {
		t.Errorf("a reward after the report: %v", err)
	}
	next := f.second(a)
	if fresh, err := d.Follow(f.announce(next), now); !fresh || err != nil {
		t.Fatal(fresh, err)
	}
	due := *d.Status().ReportAt
	if wait := due.Sub(now); wait < 0 || wait > a.Timing.Jitter {
		t.Errorf("the second report is due after %v", wait)
	}
	if _, err := d.Report(due.Add(-1)); !errors.Is(err, ErrNoReport) {
		t.Errorf("the second report before its time: %v", err)
	}
	if r := f.open(must(d.Report(due)), next); r.Round != 1 {
		t.Errorf("round %d", r.Round)
	}
	if s := d.Status(); s.ReportAt != nil || len(s.Ledger.Entries) != 1 || s.Ledger.Entries[0].State != privacy.Spent ||
		!d.record.Over() {
		t.Errorf("at the end %+v", s)
	}
	if _, err := d.Enrol(start); !errors.Is(err, ErrNoPlace) {
		t.Errorf("the cohort is closed: %v", err)
	}
}

// A refusal gives the record back, an answer that is about another epoch changes nothing, and a reply to another
// request is none.
func TestAnswers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, _ := f.device(glm.Practical)
	if _, err := d.Answer(nil, start); err == nil {
		t.Error("an answer to nothing")
	}
	request := must(d.Enrol(start))
	another := must(wire.SealRequest([]byte("another"), f.shufflerKey.Public(), deployment))
	if _, err := d.Answer(f.reply(another.Sealed, wire.EnrolReply{Enrolled: true}), start); err == nil {
		t.Error("the reply to another request is taken")
	}
	if s := d.Status().Ledger.State(1); s != privacy.Asked {
		t.Errorf("the ledger says %q while no answer has come", s)
	}
	got := must(d.Answer(f.reply(request, wire.EnrolReply{Refusal: wire.RefusalWrongEpoch}), start))
	if !got.Again || d.Status().Ledger.State(1) != privacy.Asked {
		t.Errorf("%+v", got)
	}
	again := must(d.Enrol(start))
	if !bytes.Equal(f.asked(again).Signed, f.asked(request).Signed) || bytes.Equal(again, request) {
		t.Error("the request differs from the first, or it is sealed as the same bytes")
	}
	request = again
	got = must(d.Answer(f.reply(request, wire.EnrolReply{Refusal: wire.RefusalCohortFull}), start))
	if got.Enrolled || got.Refusal != "cohort_full" || len(d.Status().Ledger.Entries) != 0 {
		t.Errorf("%+v, ledger %+v", got, d.Status().Ledger)
	}
	f.enrol(d)
	if _, err := d.Enrol(start); !errors.Is(err, ErrNoPlace) || !errors.Is(err, privacy.ErrRecordUsed) {
		t.Errorf("a second place: %v", err)
	}
}

// An answer that comes after the next announcement is too late: the ledger keeps the question open, and nothing is
// promised.
func TestAnAnswerAfterTheNextAnnouncementIsTooLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, a := f.device(glm.Paper)
	yes := f.reply(must(d.Enrol(start)), wire.EnrolReply{Enrolled: true, Slot: 7, ReportAfter: time.Minute})
	must(d.Follow(f.announce(f.second(a)), start))
	if _, err := d.Answer(yes, start); err == nil || d.Status().Ledger.State(1) != privacy.Asked || d.record != nil {
		t.Errorf("%v, ledger %+v", err, d.Status().Ledger)
	}
}

// What the shuffler knows of a device and the device does not proves its state old, for good; but where an answer may
// have been lost it proves nothing.
func TestAnOldStateIsProved(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	held := wire.EnrolReply{Enrolled: true, Held: true, Slot: 7, ReportAfter: time.Minute}
	earlier := wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
	for name, reply := range map[string]wire.EnrolReply{"held": held, "enrolled earlier": earlier} {
		d, _ := f.device(glm.Practical)
		request := must(d.Enrol(start))
		if _, err := d.Answer(f.reply(request, reply), start); !errors.Is(err, ErrRolledBack) {
			t.Errorf("%s: %v", name, err)
		}
		d = f.restart(d)
		if _, err := d.Enrol(start); !errors.Is(err, ErrRolledBack) || d.Status().Refused == "" {
			t.Errorf("%s: after a restart: %v", name, err)
		}
		for _, again := range []func(*Device) *Device{f.restart, func(d *Device) *Device { return d }} {
			d, _ := f.device(glm.Practical)
			must(d.Enrol(start)) // whose answer is lost
			d = again(d)
			if _, err := d.Answer(f.reply(must(d.Enrol(start)), reply), start); err != nil {
				t.Errorf("%s, after a lost answer: %v", name, err)
			}
		}
	}
}

// Each kind of statement that a device must not follow is refused, and what it followed before stays in force.
func TestOtherPastsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, a := f.device(glm.Paper)
	second := f.second(a)
	change := func(from *plan.Announcement, f func(*plan.Announcement)) *plan.Announcement {
		b := from.Clone()
		f(b)
		return b
	}
	for name, b := range map[string]*plan.Announcement{
		"rewritten":      change(a, func(a *plan.Announcement) { a.Cohort.Size++ }),
		"skipped":        change(a, func(a *plan.Announcement) { a.Epoch, a.Previous = 3, second.Previous }),
		"forked":         change(second, func(a *plan.Announcement) { a.Previous = make([]byte, 32) }),
		"cohort changed": change(second, func(a *plan.Announcement) { a.Cohort.Minimum-- }),
		"timing changed": change(second, func(a *plan.Announcement) { a.Timing.RoundWindow += time.Second }),
		"plan changed":   change(second, func(a *plan.Announcement) { a.Plan.Epsilon /= 2 }),
	} {
		if fresh, err := d.Follow(f.announce(b), start); fresh || !errors.Is(err, ErrRewound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := d.Follow(sign(second, f.shuffler), start); !errors.Is(err, wire.ErrForeign) {
		t.Errorf("another signer: %v", err)
	}
	if fresh, err := d.Follow(f.announce(a), start); fresh || err != nil {
		t.Errorf("the one in force again: %v %v", fresh, err)
	}
	if _, err := f.restart(d).Follow(f.announce(change(a, func(a *plan.Announcement) { a.Cohort.Size++ })),
		start); !errors.Is(err, ErrRewound) {
		t.Errorf("rewritten, after a restart: %v", err)
	}
	if fresh, err := f.restart(d).Follow(f.announce(second), start); !fresh || err != nil {
		t.Errorf("the next one after a restart: %v", err)
	}
	empty := must(Open(f.config(), 0, nil))
	if _, err := empty.Follow(f.announce(second), start); !errors.Is(err, ErrRewound) {
		t.Errorf("a chain that begins in the middle: %v", err)
	}
}

// A retired key of the shuffler stays retired, also over a restart.
func TestRetiredKeysStayRetired(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, _ := f.device(glm.Practical)
	if err := d.Keys(f.keys(2, f.analyzerKey)); err != nil {
		t.Fatal(err)
	}
	d = f.restart(d)
	for name, set := range map[string][]byte{"older": f.keys(1, f.shufflerKey),
		"older, same key": f.keys(1, f.analyzerKey),
		"same number":     f.keys(2, f.shufflerKey)} {
		if err := d.Keys(set); !errors.Is(err, ErrRewound) || !bytes.Equal(d.keys.Keys[0], f.analyzerKey.Public()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.Keys(f.keys(2, f.analyzerKey)); err != nil {
		t.Errorf("the same set again: %v", err)
	}
}

// A plan that the limits rule out decides, and nobody is enrolled under it; so does a channel that the device does not
// allow. A device whose limits became stricter makes no report.
func TestLimitsRuleOutPlans(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for limit, change := range map[string]func(*Config){
		"epsilon":      func(c *Config) { c.Limits.Epsilon = 0.01 },
		"min_cohort":   func(c *Config) { c.Limits.MinCohort = 1000 },
		"max_messages": func(c *Config) { c.Limits.MaxMessages = 1 },
		"max_releases": func(c *Config) { c.Limits.MaxReleases = 1 },
		"max_norm":     func(c *Config) { c.Limits.MaxNorm = 1 },
		"trust":        func(c *Config) { c.Limits.Trust = []plan.Channel{plan.Shares, plan.Local, plan.Central} },
		// plans without server noise have no guarantee at all if no other device is honest
		"epsilon_alone": func(c *Config) { c.Limits.EpsilonAlone = 1e6 },
	} {
		c := f.config()
		change(&c)
		d := must(Open(c, 0, nil))
		must(d.Follow(f.announce(f.announcement(glm.Practical)), start))
		var weak *WeakPlan
		if _, err := d.Enrol(start); !errors.As(err, &weak) || weak.Limit != limit ||
			!strings.Contains(d.Status().Refused, limit) {
			t.Errorf("%s: %v", limit, err)
		}
		if got, err := d.Decide([][]float64{{1, 0}}, source(1)); err != nil || got.Sampled {
			t.Errorf("%s: decision %+v %v", limit, got, err)
		}
	}
	d, _ := f.device(glm.Practical)
	f.enrol(d)
	c := f.config()
	c.Limits.MinCohort = 1000
	stricter := must(Open(c, 0, must(d.Save())))
	if _, err := stricter.Report(start.Add(time.Hour)); !errors.Is(err, ErrNoReport) {
		t.Errorf("a report beyond the limits: %v", err)
	}
	c = f.config()
	c.Limits.Trust = []plan.Channel{plan.Shuffle, "smoke"}
	if _, err := Open(c, 0, nil); err == nil || !strings.Contains(err.Error(), `"smoke"`) {
		t.Errorf("a channel that does not exist is allowed: %v", err)
	}
	c.Limits.Trust = []plan.Channel{}
	if _, err := Open(c, 0, nil); err == nil || !strings.Contains(err.Error(), "must be a list of channels") {
		t.Errorf("a device that trusts no channel is opened: %v", err)
	}
	c.Limits.Trust, c.Limits.Epsilon = nil, 0
	if _, err := Open(c, 0, nil); err == nil ||
		!strings.Contains(err.Error(), "epsilon: 0 must be a finite number above 0") {
		t.Errorf("limits with a fault: %v", err)
	}
}

// The next epoch takes an open promise with it, and the last announcement ends enrolment.
func TestTheNextEpochEndsThePromise(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, a := f.device(glm.Practical)
	f.enrol(d)
	digest := digestOf(a)
	final := &plan.Announcement{Deployment: deployment, Epoch: 2, Previous: digest[:], Policy: a.Policy, Final: true}
	if fresh, err := d.Follow(f.announce(final), start); !fresh || err != nil {
		t.Fatal(fresh, err)
	}
	if _, err := d.Report(start.Add(time.Hour)); !errors.Is(err, ErrNoReport) {
		t.Errorf("a report of the epoch before: %v", err)
	}
	if _, err := d.Enrol(start); !errors.Is(err, ErrNoPlace) || !d.Status().Final {
		t.Errorf("enrolment after the end: %v", err)
	}
	if _, err := d.Decide([][]float64{{1, 0}}, source(1)); err != nil {
		t.Error(err)
	}
	d = f.restart(d)
	if s := d.Status(); !s.Final || s.Ledger.State(1) != privacy.Reserved || s.ReportAt != nil {
		t.Errorf("%+v", s)
	}
}

// The state's JSON is the one that hosts have on their disks.
func TestTheStateKeepsItsJSON(t *testing.T) {
	t.Parallel()
	s := State{Number: 3, Enrolment: &Enrolment{Epoch: 2, Slot: 7, ReportAt: start, Reported: 1}}
	s.Ledger = privacy.Ledger{Epsilon: 1, Delta: 1e-6, Records: 1}
	const want = `{"number":3,"ledger":{"epsilon":1,"delta":0.000001,"records":1},` +
		`"enrolment":{"epoch":2,"slot":7,"report_at":"2026-01-01T12:00:00Z","reported":1}}`
	if got := string(must(json.Marshal(s))); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What a ledger says under a name that this version does not know would be read as nothing spent.
func TestAStateWithOtherNamesIsRefused(t *testing.T) {
	f := newFixture(t)
	d, _ := f.device(glm.Practical)
	f.enrol(d)
	saved := must(d.Save())
	other := bytes.Replace(saved, []byte(`"tail_delta"`), []byte(`"TailDelta"`), 1)
	if bytes.Equal(saved, other) {
		t.Fatalf("the ledger has no tail_delta: %s", saved)
	}
	if _, err := Open(f.config(), 0, other); err == nil || !strings.Contains(err.Error(), "TailDelta") {
		t.Errorf("%v, want a refusal that names the key", err)
	}
	if _, err := Open(f.config(), 0, append(saved, '1')); err == nil {
		t.Error("a state with something behind it is read")
	}
}

package device

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A device's life where panels are drawn: it registers once, hears in each epoch whether it is in the panel, decides
// whenever its app likes, and reports once what it decided and was told in time.
func TestADeviceOfPanels(t *testing.T) {
	f := newFixture(t)
	d := f.opened(f.panels())
	first := f.panel()
	if _, err := d.Register(); !errors.Is(err, ErrNoPolicy) {
		t.Errorf("registered before anything was announced: %v", err)
	}
	must(d.Follow(f.announce(first), start))
	must(d.Register())
	if err := d.Keys(f.keys(1, f.shufflerKey)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Enrol(start); !errors.Is(err, ErrNoPlace) {
		t.Errorf("a device asks before it is registered: %v", err)
	}
	f.register(d)
	if _, err := d.Register(); !errors.Is(err, ErrNoPlace) {
		t.Errorf("registered twice: %v", err)
	}
	arms := [][]float64{{0.6, 0.2}, {-0.3, 0.5}}
	if made := must(d.Decide(arms, source(1))); made.Sampled || made.Handle != 0 {
		t.Errorf("sampled outside of a panel: %+v", made)
	}
	early := f.reply(must(d.Enrol(start)), wire.EnrolReply{Refusal: wire.RefusalWrongEpoch})
	if got := must(d.Answer(early, start)); !got.Again {
		t.Errorf("before the draw: %+v", got)
	}
	got := must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(first)), start))
	if !got.Enrolled || !got.ReportAt.Equal(start.Add(time.Minute)) {
		t.Fatalf("%+v", got)
	}
	var made []Decision
	for range perReport + 1 {
		made = append(made, must(d.Decide(arms, source(byte(len(made))))))
	}
	for i, m := range made {
		if m.Sampled != (i < perReport) || (m.Handle != 0) != m.Sampled {
			t.Errorf("decision %d: %+v", i, m)
		}
	}
	if _, err := d.Reward(0, 1, start); !errors.Is(err, ErrLate) {
		t.Errorf("a reward without a handle: %v", err)
	}
	must(d.Reward(made[0].Handle, 1, start))
	must(d.Reward(made[2].Handle, 0, start))
	if _, err := d.Reward(made[2].Handle, 1, start); !errors.Is(err, ErrReward) {
		t.Errorf("another reward: %v", err)
	}
	if _, err := d.Reward(made[1].Handle, 1, start.Add(time.Minute)); !errors.Is(err, ErrLate) {
		t.Errorf("a late reward: %v", err)
	}
	report := f.open(must(d.Report(start.Add(time.Minute))), first)
	if report.Slot != 7 || report.Device != 3 {
		t.Errorf("%+v", report)
	}
	if _, err := d.Reward(made[0].Handle, 1, start); !errors.Is(err, ErrLate) {
		t.Errorf("a reward after the report: %v", err)
	}
	second := after(first)
	must(d.Follow(f.announce(second), start))
	if got := must(d.Answer(f.reply(must(d.Enrol(start)), f.notDrawn(second)), start)); got.Enrolled || got.Again {
		t.Errorf("%+v", got)
	}
	if made := must(d.Decide(arms, source(1))); made.Sampled {
		t.Error("sampled by a device that is not in the panel")
	}
	third := after(second)
	must(d.Follow(f.announce(third), start))
	must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(third)), start))
	must(d.Report(start.Add(time.Minute)))
	if s := d.Status(); !s.Registered || s.Panels != 2 || s.Evidence != nil {
		t.Errorf("%+v", s)
	}
	last := after(third)
	must(d.Follow(f.announce(last), start))
	if _, err := d.Enrol(start); !errors.Is(err, ErrNoPlace) || !errors.Is(err, privacy.ErrRecordUsed) {
		t.Errorf("a third panel of a device that may be in two: %v", err)
	}
}

// The bits of a report are those that the encodings give for the sum of the statistics of the decisions that were
// rewarded, divided by the most decisions of a report: of one decision as of three. Each statistic has the same
// decisions.
func TestAReportOfSeveralDecisions(t *testing.T) {
	f := newFixture(t)
	arms := [][][]float64{{{0.6, 0.2}}, {{-0.3, 0.5}}, {{0.1, -0.9}}}
	for name, rewards := range map[string][]float64{
		"none": nil, "one": {1}, "all": {1, 0, 1}, "the second is not rewarded": {1, -1, 0},
	} {
		d, a := f.member()
		must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(a)), start))
		var want []statistic.Record
		for i, reward := range rewards {
			made := must(d.Decide(arms[i], source(1)))
			if reward >= 0 {
				must(d.Reward(made.Handle, reward, start))
				want = append(want, statistic.Record{Arm: arms[i][0], Reward: reward, Weight: 1})
			}
		}
		noise := d.noise(false)
		ones, _ := f.bits(f.open(must(d.Report(start.Add(time.Minute))), a).Payload, a)
		var sums [][]float64
		for _, s := range must(plan.CheckRound(a)).Statistics {
			sum := make([]float64, s.Dim())
			for _, r := range want {
				for j, v := range must(s.Vector(nil, r)) {
					sum[j] += v
				}
			}
			for j := range sum {
				sum[j] /= perReport
			}
			sums = append(sums, sum)
		}
		src := noise(sums)
		for i, sum := range sums {
			levels := must(a.Encodings[i].Round(nil, sum, src))
			got := make([]uint64, len(levels))
			for j, l := range levels {
				got[j] = uint64(l)
			}
			if err := a.Encodings[i].AddNoise(got, 1, src); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, ones[i]) {
				t.Errorf("%s: release %d: %v, want %v", name, i, ones[i], got)
			}
		}
	}
}

// What people are told of a plan of panels is what all epochs reveal in which their device may report, not what one
// does.
func TestThePromiseOfPanelsIsOfAllEpochsTogether(t *testing.T) {
	f := newFixture(t)
	core := must(New(f.panels()))
	a := must(core.Judge(f.announce(f.panel()), 1, 0))
	together, _, err := plan.Lifetime(f.panel())
	delta := f.panels().Limits.Delta
	p := core.Promise(a)
	if err != nil || p.Epsilon != together.Epsilon(delta) || !(p.Epsilon > a.Guarantee().Epsilon(delta)) {
		t.Errorf("epsilon %v is told, one epoch has %v and all together %v (%v)", p.Epsilon,
			a.Guarantee().Epsilon(delta),
			together.Epsilon(delta), err)
	}
	if !strings.Contains(p.Guarantee, privacy.Spell(p.Epsilon)) || !strings.HasSuffix(p.Guarantee, a.Plan.Together()) {
		t.Error(p.Guarantee)
	}
}

// Number and size of what a device sends, and the random words and memory that it takes, are those of the plan,
// whatever a person decides.
func TestTheWorkOfAReportDoesNotDependOnDecisions(t *testing.T) {
	f := newFixture(t)
	core := must(New(f.panels()))
	a := must(core.Judge(f.announce(f.panel()), 1, 0))
	asked := must(core.NewState(3).Register().Confirm([]byte{1}).Ask(a, start))
	state := must(asked.Promise(a, &wire.EnrolReply{Enrolled: true, Slot: 7}, start))
	type work struct {
		bytes, words int
		allocations  float64
	}
	var usual work
	for n := range perReport + 2 {
		src := &counting{Source: source(5)}
		var got work
		r := state.Begin(a)
		for range n {
			if i, kept := r.Remember([]float64{0.6, 0.2}, glm.Decision{Weight: 1}); kept {
				r.open().records[i].Reward, r.open().records[i].Null = 1, false
			}
		}
		envelope, _, err := core.Report(state, r, a, f.shufflerKey.Public(), src)
		if err != nil {
			t.Fatal(err)
		}
		got.bytes, got.words = len(envelope), src.words
		got.allocations = testing.AllocsPerRun(20, func() { must(a.contribution(r.open().records)) })
		if n == 0 {
			usual = got
		}
		if got != usual {
			t.Errorf("with %d decisions %+v, with none %+v", n, got, usual)
		}
	}
	if usual.bytes != wire.EnvelopeSize(a.ReportMessages()*seal.BitSize) || usual.words == 0 {
		t.Errorf("%+v", usual)
	}
}

// As many statistics are computed of real arms as a report holds decisions, whatever the record: a family that counts
// sees no difference.
func TestEveryReportComputesAsManyStatistics(t *testing.T) {
	f := newFixture(t)
	core := must(New(f.panels()))
	a := must(core.Judge(f.announce(f.panel()), 1, 0))
	for n := range perReport + 1 {
		watched := *a
		round, calls := *a.judged().round, 0
		round.Statistics = slices.Clone(round.Statistics)
		for i := range round.Statistics {
			round.Statistics[i].Family = counted{round.Statistics[i].Family, &calls}
		}
		watched.judged = func() *judgement { return &judgement{round: &round} }
		var records []*statistic.Record
		for range n {
			records = append(records, &statistic.Record{Arm: []float64{0.6, 0.2}, Reward: 1, Weight: 1})
		}
		must(watched.contribution(records))
		if want := perReport * 3; calls != want { // of a curvature twice, of a gradient once
			t.Errorf("with %d decisions the family is asked %d times, not %d", n, calls, want)
		}
	}
}

// counted is a family that counts how often it is asked.
type counted struct {
	family.Response
	calls *int
}

func (c counted) Mean(z float64) float64     { *c.calls++; return c.Response.Mean(z) }
func (c counted) Variance(z float64) float64 { *c.calls++; return c.Response.Variance(z) }

// A record of several decisions is wiped as one is.
func TestAllDecisionsOfARecordAreWiped(t *testing.T) {
	f := newFixture(t)
	d, a := f.member()
	must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(a)), start))
	for range perReport {
		must(d.Reward(must(d.Decide([][]float64{{0.61728, 0.2}}, source(1))).Handle, 1, start))
	}
	kept := slices.Clone(d.record.open().records)
	var arms [][]float64
	for _, r := range kept {
		arms = append(arms, r.Arm)
	}
	d.Close()
	for i, r := range kept {
		if arms[i][0] != 0 || arms[i][1] != 0 || !reflect.DeepEqual(*r, statistic.Record{Null: true}) {
			t.Errorf("decision %d is kept: %v %+v", i, arms[i], *r)
		}
	}
}

// A restart loses nothing: handles hold, and a report is full as it would have been.
func TestARestartedDeviceOfPanels(t *testing.T) {
	f := newFixture(t)
	d, a := f.member()
	request := must(d.Enrol(start))
	d = f.restart(d) // with an open question
	again := must(d.Enrol(start))
	if !bytes.Equal(f.asked(again).Signed, f.asked(request).Signed) || bytes.Equal(again, request) {
		t.Error("the request is another one after a restart, or is sealed as the same bytes")
	}
	request = again
	must(d.Answer(f.reply(request, f.drawn(a)), start))
	for i := range perReport + 1 {
		made := must(d.Decide([][]float64{{0.6, 0.2}}, source(byte(1+i))))
		if made.Sampled != (i < perReport) {
			t.Errorf("decision %d: %+v", i, made)
		}
		if d = f.restart(d); made.Sampled {
			must(d.Reward(made.Handle, 1, start))
		}
	}
	if full := *d.record; len(full.open().records) != perReport || full.open().records[perReport-1].Null {
		t.Error("the restarts lost decisions or rewards")
	}
	must(d.Report(start.Add(time.Minute)))
	d = f.restart(d)
	if _, err := d.Report(start.Add(time.Minute)); !errors.Is(err, ErrNoReport) {
		t.Errorf("a second report: %v", err)
	}
}

// A device that was away goes on with the epoch in force. What it had asked for or promised, and did not report, is
// taken back: nothing of it left the device.
func TestADeviceThatWasAway(t *testing.T) {
	f := newFixture(t)
	for _, promised := range []bool{false, true} {
		d, a := f.member()
		request := must(d.Enrol(start))
		if promised {
			must(d.Answer(f.reply(request, f.drawn(a)), start))
			must(d.Decide([][]float64{{0.6, 0.2}}, source(1)))
		}
		for range 3 {
			a = after(a)
			must(d.Follow(f.announce(a), start))
		}
		if s := d.Status(); len(s.Ledger.Entries) != 0 || s.ReportAt != nil || d.record != nil {
			t.Errorf("promised %v: %+v", promised, s)
		}
		late := f.drawn(a)
		late.ReportAfter = 0 // its time is over, and the deadline is not
		must(d.Answer(f.reply(must(d.Enrol(start)), late), start))
		if got := f.open(must(d.Report(start)), a); got.Epoch != 4 {
			t.Errorf("a report of epoch %d", got.Epoch)
		}
		final := &plan.Announcement{Deployment: deployment, Epoch: 5, Policy: a.Policy, Final: true}
		digest := digestOf(a)
		final.Previous = digest[:]
		must(d.Follow(f.announce(final), start))
		if s := d.Status(); len(s.Ledger.Entries) != 1 || s.Panels != 1 || !s.Final {
			t.Errorf("what has left is taken back: %+v", s)
		}
	}
}

// Devices that enrol as they arrive save nothing of panels.
func TestStatesWithoutPanelsAreAsBefore(t *testing.T) {
	f := newFixture(t)
	d, _ := f.device(glm.Practical)
	f.enrol(d)
	var saved, state map[string]json.RawMessage
	if err := json.Unmarshal(must(d.Save()), &saved); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(saved["state"], &state); err != nil {
		t.Fatal(err)
	}
	if len(saved) != 6 || saved["secret"] == nil || saved["record"] == nil || saved["evidence"] != nil ||
		len(state) != 4 || state["wish"] == nil ||
		state["registration"] != nil {
		t.Errorf("%v, %v", saved, state)
	}
	arrived := must(New(f.config()))
	announced := must(arrived.Judge(f.announce(f.announcement(glm.Practical)), 1, 0))
	asked := must(arrived.NewState(3).Ask(announced, start))
	later := *announced.Announcement
	later.Epoch = 2
	if kept := asked.Expire(&Announced{Announcement: &later}); len(kept.Ledger.Entries) != 1 {
		t.Error("what an arriving device asked for is taken back")
	}
	if _, err := d.Register(); !errors.Is(err, ErrNoPlace) {
		t.Errorf("a device registers where there are no panels: %v", err)
	}
	if made := must(d.Decide([][]float64{{0.6, 0.2}}, source(1))); made.Handle == 0 || !made.Sampled {
		t.Errorf("%+v", made)
	}
}

// The bytes that clients in other languages must come to.
func TestGoldenRequests(t *testing.T) {
	f := newFixture(t)
	core := must(New(f.panels()))
	a := must(core.Judge(f.announce(f.panel()), 1, 0))
	fixed := *a
	asking := core.NewState(3)
	asking.Request.Nonce = 7
	fixed.Digest = [32]byte{1} // the plan's digest follows from a search, which may change
	for name, of := range map[string]struct {
		request []byte
		want    string
	}{
		"registration": {must(core.Registration(asking)), "c5f50c20ffbd35ca"},
		"panel":        {must(core.Request(&fixed, 3)), "73d69c4851adea52"},
	} {
		if got := sha256.Sum256(of.request); hex.EncodeToString(got[:8]) != of.want {
			t.Errorf("%s: %x, want %s (%d bytes)", name, got[:8], of.want, len(of.request))
		}
		r, err := wire.OpenEnrolRequest(of.request, wire.Party{Deployment: deployment, Key: f.registrar.Public()})
		if err != nil || r.Request.Device != 3 || (r.Request.Epoch == 0) != (name == "registration") {
			t.Errorf("%s: %+v %v", name, r.Request, err)
		}
	}
}

var _ protocol.Source = (*counting)(nil)

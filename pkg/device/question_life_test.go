package device

import (
	"crypto/sha256"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// reopened is the device after a restart.
func reopened(d *Device) *Device {
	save := must(d.Save())
	d.Close()
	return must(Open(d.core.c, d.state.Number, save))
}

// A question that was announced is the epoch's for good: another range, other edges, other fields or no question at all
// under the same epoch is refused, before and after a restart and the report; so is a way back to an epoch before it.
func TestAnAnnouncedQuestionCannotBeChanged(t *testing.T) {
	f := newFixture(t)
	kind, q := aQuestion()
	a := f.ask(plan.Shuffle, 12, kind, q)
	d := f.opened(f.panels())
	must(d.Follow(f.announce(a), start))
	f.register(d)
	learns := ofPanels(f.panel())
	others := map[string]*plan.Announcement{"no question": learns}
	for name, change := range map[string]func(*statistic.Question){
		"a narrower range": func(q *statistic.Question) { q.Of[0].Low, q.Of[0].High = 0.4999, 0.5001 },
		"another field":    func(q *statistic.Question) { q.Of[0].Entries = []int{0} },
		"another name":     func(q *statistic.Question) { q.Name = "b" },
	} {
		others[name] = a.Clone()
		change(others[name].Question)
	}
	refused := func(when string) {
		t.Helper()
		for name, other := range others {
			if fresh, err := d.Follow(f.announce(other), start); fresh || !errors.Is(err, ErrRewound) {
				t.Errorf("%s: %s: %v", when, name, err)
			}
		}
	}
	refused("announced")
	must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(a)), start))
	refused("drawn")
	d = reopened(d)
	refused("restarted")
	must(d.Report(start.Add(time.Minute)))
	refused("reported")
	next := after(a)
	next.Question.Name = "b"
	must(d.Follow(f.announce(next), start))
	if fresh, err := d.Follow(f.announce(a), start); fresh || err != nil {
		t.Errorf("an epoch that is over: %v, %v", fresh, err)
	}
	if _, err := d.Enrol(start); err != nil || d.last.Question.Name != "b" {
		t.Errorf("asks %q: %v", d.last.Question.Name, err)
	}
}

// What a device recorded in an epoch that taught the learner is in no answer, whenever its reward comes: the record of
// the epoch before ends when the question is announced.
func TestAQuestionReadsNoRecordOfBefore(t *testing.T) {
	f := newFixture(t)
	d, before := f.member()
	must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(before)), start))
	made := must(d.Decide([][]float64{{0.3, 0.9}}, source(1)))
	kind, q := aQuestion()
	a := after(before)
	asks := f.ask(plan.Shuffle, 12, kind, q)
	a.Plan, a.Cohort, a.Encodings, a.Question = asks.Plan, asks.Cohort, asks.Encodings, asks.Question
	a.Policy, a.Plan.Panel = asks.Policy, before.Plan.Panel
	must(d.Follow(f.announce(a), start))
	if _, err := d.Reward(made.Handle, 1, start); !errors.Is(err, ErrLate) {
		t.Errorf("a reward of a decision before the question: %v", err)
	}
	must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(a)), start))
	if _, err := d.Reward(made.Handle, 1, start); !errors.Is(err, ErrLate) {
		t.Errorf("a reward of a decision before the question, once drawn: %v", err)
	}
	noise := d.noise(false)
	ones, _ := f.bits(f.open(must(d.Report(start.Add(time.Minute))), a).Payload, a)
	null := make([]float64, must(plan.CheckRound(a)).Statistics[0].Dim())
	src := noise([][]float64{null})
	var want []uint64
	for _, l := range must(a.Encodings[0].Round(nil, null, src)) {
		want = append(want, uint64(l))
	}
	if err := a.Encodings[0].AddNoise(want, 1, src); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ones[0], want) {
		t.Errorf("the report has %v, that of nothing %v", ones[0], want)
	}
}

// Whoever sees a report's bytes learns nothing of what is in it: in every channel reports of nothing, of one decision,
// of as many as fit, and of an erased record have one length, for every kind of question, and are due at one time.
func TestReportsToAQuestionLookAlike(t *testing.T) {
	f := newFixture(t)
	mean, q := aQuestion()
	for kind, q := range map[statistic.Kind]statistic.Question{
		mean: q, statistic.Fit: q,
		statistic.Histogram: {Name: "a", Of: []statistic.Quantity{{Low: 0, High: 1}}, Edges: []float64{0.5}},
	} {
		for _, channel := range plan.Channels() {
			a := f.ask(channel, 12, kind, q)
			c := f.panels()
			c.Limits.Trust, c.Limits.Epsilon = plan.Channels(), 1000
			c.Limits.MaxMessages = 1 << 16
			lengths := map[int]int{}
			for decisions := range perReport + 2 { // the last is erased
				d := f.opened(c)
				must(d.Follow(f.announce(a), start))
				f.register(d)
				reply := f.drawn(a)
				reply.Commitment = f.committed(a).Commitment
				must(d.Answer(f.reply(must(d.Enrol(start)), reply), start))
				for range min(decisions, perReport) {
					made := must(d.Decide([][]float64{{0.3, 0.9}}, source(1)))
					must(d.Reward(made.Handle, 1, start))
				}
				if decisions > perReport {
					d.Forget()
				}
				if _, err := d.Report(start.Add(time.Minute - time.Millisecond)); !errors.Is(err, ErrNoReport) {
					t.Errorf("%s: %s: %d decisions: a report before its time: %v", channel, kind, decisions, err)
				}
				lengths[len(must(d.Report(start.Add(time.Minute))))]++
			}
			if len(lengths) != 1 {
				t.Errorf("%s: %s: reports have the lengths %v", channel, kind, lengths)
			}
		}
	}
}

// Neither restarts between questions nor a clock that is set back or ahead give a device more epochs than its plan has.
func TestRestartsAndClocksGiveNoFurtherAnswer(t *testing.T) {
	f := newFixture(t)
	kind, q := aQuestion()
	a := f.ask(plan.Shuffle, 12, kind, q)
	d := f.opened(f.panels())
	must(d.Follow(f.announce(a), start))
	f.register(d)
	answered, now := 0, start
	for epoch := range 4 * perPerson {
		request, err := d.Enrol(now)
		if err == nil {
			d = reopened(d) // before the answer comes
			request, err = d.Enrol(now)
		}
		if err != nil {
			if !errors.Is(err, ErrNoPlace) || !errors.Is(err, privacy.ErrRecordUsed) {
				t.Fatal(err)
			}
		} else {
			must(d.Answer(f.reply(request, f.drawn(a)), now))
			d = reopened(d)
			must(d.Report(now.Add(time.Minute)))
			answered++
		}
		a = after(a)
		a.Question.Name += "b"
		now = start.Add(time.Duration([]int{-2, 5, -1, 9}[epoch%4]) * 365 * 24 * time.Hour)
		d = reopened(d)
		must(d.Follow(f.announce(a), now))
	}
	if answered != perPerson {
		t.Errorf("%d epochs were answered, the plan has %d", answered, perPerson)
	}
}

// A device that does not know what a later version announces, as one older than questions knows no question, refuses it
// and all that follows, and decides on by the policy that it has. Once it is updated it goes on from where it stood.
func TestADeviceOlderThanAQuestionTakesNoPart(t *testing.T) {
	f := newFixture(t)
	d, first := f.member()
	later := after(first)
	var s rifflev1.Signed
	if err := proto.Unmarshal(f.announce(later), &s); err != nil {
		t.Fatal(err)
	}
	known := s.Body
	s.Body = append(slices.Clone(known), 0xc0, 0x3e, 1) // a field with another number than any that there is
	s.Signature = must(seal.Sign(seal.Announcement, s.Body, f.analyzer))
	if fresh, err := d.Follow(must(proto.Marshal(&s)), start); fresh || !errors.Is(err, wire.ErrMalformed) {
		t.Fatalf("it follows what it does not know: %v", err)
	}
	next := after(later)
	digest := sha256.Sum256(nil) // of what it does not know
	next.Previous = digest[:]
	if fresh, err := d.Follow(f.announce(next), start); fresh || !errors.Is(err, ErrRewound) {
		t.Errorf("it follows what comes after: %v", err)
	}
	d = reopened(d)
	if _, err := d.Decide([][]float64{{0.3, 0.9}}, source(1)); err != nil || d.last.Epoch != 1 {
		t.Errorf("it decides under epoch %d: %v", d.last.Epoch, err)
	}
	if fresh, err := d.Follow(f.announce(later), start); !fresh || err != nil {
		t.Errorf("once it knows, it does not go on: %v", err)
	}
}

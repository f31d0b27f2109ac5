package device

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ask is an announcement of a panel of so many that asks a question.
func (f *fixture) ask(channel plan.Channel, size int, kind statistic.Kind, q statistic.Question) *plan.Announcement {
	learner := must(learner.New(learner.Config{Dimension: 2, Radius: 2, Horizon: 1200}))
	step := learner.Next()
	step.Cohort = size
	rewards := must(family.New(step.Policy.Family, step.Policy.MaxReward))
	step.Statistics = [][]statistic.Statistic{{{Kind: kind, Family: rewards, ArmDim: 2, Question: &q}}}
	step.Shares = [][]float64{{1}}
	terms := plan.DefaultTermsFor(channel)
	terms.Epsilon, terms.Registered, terms.Decisions, terms.Records = 2, 10*size, perReport, perPerson
	if size < terms.MinCohort {
		terms.MinCohort, terms.Registered, terms.Epsilon, terms.Delta, terms.VarianceRatio = 4, registered, 4, 1e-3, 64
	}
	p := must(plan.Propose(step, terms))
	a := ofPanels(f.announcement(glm.Practical))
	a.Policy, a.Plan, a.Cohort, a.Encodings, a.Question = step.Policy, p.Plan, p.Cohort, p.Encodings, &q
	return a
}

func aQuestion() (statistic.Kind, statistic.Question) {
	return statistic.Mean, statistic.Question{Name: "a", Of: []statistic.Quantity{
		{Entries: []int{1}, Low: -1, High: 1}, {Low: 0, High: 1}}}
}

// A malicious analyzer announces a question that reveals more than it says: each device takes no part, whatever is
// claimed, because it computes the guarantee from the question, the encoding and the noise. With limits that the honest
// plan just keeps, the honest question is answered.
func TestAQuestionThatLiesIsRefused(t *testing.T) {
	f := newFixture(t)
	for _, channel := range []plan.Channel{plan.Shuffle, plan.Shares, plan.Local} {
		kind, q := aQuestion()
		honest := f.ask(channel, 60, kind, q)
		all, _, err := plan.Lifetime(honest)
		if err != nil {
			t.Fatal(err)
		}
		c := f.panels()
		c.Limits = DefaultLimits()
		c.Limits.Epsilon = all.Epsilon(c.Limits.Delta) * (1 + 1e-9)
		core := must(New(c))
		judge := func(a *plan.Announcement) error {
			signed, _, err := wire.Sign(a, f.analyzer)
			if err != nil { // out of range, which every device finds as well
				return err
			}
			announced, err := core.Judge(signed, 1, 0)
			if err != nil {
				return err
			}
			return announced.registers()
		}
		if err := judge(honest); err != nil {
			t.Fatalf("%s: the honest question: %v", channel, err)
		}
		release := func(a *plan.Announcement) *plan.Release { return &a.Plan.Rounds[0].Releases[0] }
		for name, lie := range map[string]func(a *plan.Announcement){
			"half of the noise": func(a *plan.Announcement) {
				if n := release(a).NoiseBits; n > 1 {
					release(a).NoiseBits, a.Encodings[0].NoiseBits = n/2, n/2
				} else {
					release(a).Bias, a.Encodings[0].Bias = release(a).Bias/2, a.Encodings[0].Bias/2
				}
			},
			"less noise, and a small epsilon claimed": func(a *plan.Announcement) {
				release(a).Bias, a.Encodings[0].Bias = release(a).Bias/16, a.Encodings[0].Bias/16
				a.Plan.Epsilon = 0.01
			},
			"finer levels than planned": func(a *plan.Announcement) { a.Encodings[0].Scale *= 1.01 },
			"a shift that says less":    func(a *plan.Announcement) { release(a).Shift *= 0.99 },
			"more quantities than the plan's": func(a *plan.Announcement) {
				a.Question.Of = append(a.Question.Of, a.Question.Of[0])
				a.Encodings[0].Coordinates = append(a.Encodings[0].Coordinates, a.Encodings[0].Coordinates[:2]...)
			},
			"a second release": func(a *plan.Announcement) {
				a.Plan.Rounds[0].Releases = slices.Repeat(a.Plan.Rounds[0].Releases, 2)
				a.Encodings = slices.Repeat(a.Encodings, 2)
			},
			"the learner's releases beside it": func(a *plan.Announcement) {
				b := f.panel()
				a.Plan.Rounds[0].Releases = append(a.Plan.Rounds[0].Releases, b.Plan.Rounds[0].Releases...)
				a.Encodings = append(a.Encodings, b.Encodings...)
			},
			"of who arrives": func(a *plan.Announcement) {
				a.Plan.Panel, a.Plan.Decisions, a.Plan.Records, a.Commitment = nil, 0, 0, nil
			},
			"of one person": func(a *plan.Announcement) {
				a.Cohort = plan.Cohort{Size: 1, Minimum: 1}
			},
			"in more epochs": func(a *plan.Announcement) { a.Plan.Records = perPerson + 1 },
		} {
			a := honest.Clone()
			lie(a)
			err := judge(a)
			if err == nil {
				t.Errorf("%s: %s: the device takes part", channel, name)
			}
		}
	}
}

// A question is answered about what the device records after it was announced, and of nothing else: a decision of the
// epoch before is not in the report, the device's clip of a quantity is, and a device that decided nothing reports a
// null record of the same length.
func TestAnAnswerIsOfTheEpochOfItsQuestion(t *testing.T) {
	f := newFixture(t)
	kind, q := aQuestion()
	q.Of[0].Low, q.Of[0].High = -0.4, 0.4
	first := f.ask(plan.Shuffle, 12, kind, q)
	c := f.panels()
	lengths := map[int]bool{}
	for _, decides := range []bool{true, false} {
		d := f.opened(c)
		must(d.Follow(f.announce(first), start))
		f.register(d)
		must(d.Decide([][]float64{{0.1, -0.9}}, source(1))) // not drawn yet: no record
		must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(first)), start))
		var want []statistic.Record
		if decides {
			made := must(d.Decide([][]float64{{0.3, 0.9}}, source(1)))
			must(d.Reward(made.Handle, 1, start))
			want = []statistic.Record{{Arm: []float64{0.3, 0.9}, Reward: 1}}
		}
		noise := d.noise(false)
		envelope := must(d.Report(start.Add(time.Minute)))
		lengths[len(envelope)] = true
		ones, _ := f.bits(f.open(envelope, first).Payload, first)
		s := must(plan.CheckRound(first)).Statistics[0]
		vector := must(s.Report(nil, want, perReport))
		if decides && vector[0] != 1./perReport {
			t.Fatalf("the quantity is not clipped: %v", vector)
		}
		src := noise([][]float64{vector})
		levels := must(first.Encodings[0].Round(nil, vector, src))
		got := make([]uint64, len(levels))
		for j, l := range levels {
			got[j] = uint64(l)
		}
		if err := first.Encodings[0].AddNoise(got, 1, src); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, ones[0]) {
			t.Errorf("decides %v: reported %v, want %v", decides, ones[0], got)
		}
	}
	if len(lengths) != 1 {
		t.Errorf("reports have the lengths %v", lengths)
	}
}

// A device that has spent the epochs that its plan reserved answers no question, and a ledger takes none that exceeds
// what is left of the budget, whatever the plan says of epochs.
func TestAQuestionBeyondTheBudgetIsRefused(t *testing.T) {
	f := newFixture(t)
	kind, q := aQuestion()
	a := f.ask(plan.Shuffle, 12, kind, q)
	d := f.opened(f.panels())
	must(d.Follow(f.announce(a), start))
	f.register(d)
	for epoch := 1; epoch <= perPerson; epoch++ {
		must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(a)), start))
		must(d.Report(start.Add(time.Minute)))
		a = after(a)
		a.Question.Name += "b"
		must(d.Follow(f.announce(a), start))
	}
	if _, err := d.Enrol(start); !errors.Is(err, ErrNoPlace) || !errors.Is(err, privacy.ErrRecordUsed) {
		t.Errorf("a question after the last epoch that was reserved: %v", err)
	}
	g, err := plan.Guarantee(a, 0)
	if err != nil {
		t.Fatal(err)
	}
	const delta = 1e-3
	two := privacy.Repeat(g, 2).Epsilon(delta) * (1 + 1e-9) // platforms differ in the last bits
	ledger := privacy.Ledger{Epsilon: two, Delta: delta}.Under(100, 0, 0)
	for epoch := uint64(1); epoch <= 2; epoch++ {
		if ledger, err = ledger.Ask(epoch, start, 1, g, privacy.Guarantee{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = ledger.Ask(3, start, 1, g, privacy.Guarantee{})
	if !errors.Is(err, privacy.ErrBudget) {
		t.Errorf("a third question with a budget for two: %v", err)
	}
}

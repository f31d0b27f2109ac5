package deployment_test

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The first number of an arm's vector, and the reward.
var (
	ofArm    = statistic.Quantity{Entries: []int{0}, Low: -1, High: 1}
	ofReward = statistic.Quantity{Low: 0, High: 1}
)

func meanOf(name string) *statistic.Question {
	return &statistic.Question{Name: name, Of: []statistic.Quantity{ofArm, ofReward}}
}

// A question takes one epoch in which the learner stands still: with it and without, released or destroyed, the learner
// announces the same afterwards, and learns the same of the same counts.
func TestAQuestionLeavesTheLearnerWhereItWas(t *testing.T) {
	for _, destroyed := range []bool{false, true} {
		plain, asked := begin(t, lasting()), begin(t, lasting())
		first := asked.Begins()
		q := meanOf("first")
		if err := asked.Ask(statistic.Mean, q); err != nil || !first || asked.Begins() {
			t.Fatal(err)
		}
		q.Of[0].Low = 0.99 // after it was asked
		a := asked.announcePanel()
		if !reflect.DeepEqual(a.Question, meanOf("first")) ||
			!slices.Equal(kinds(a), []statistic.Kind{statistic.Mean}) ||
			a.Plan.Records != 2 || a.Cohort.Size != people || len(a.Commitment) == 0 {
			t.Fatalf("announced %+v", a)
		}
		if err := asked.Ask(statistic.Mean, meanOf("second")); !errors.Is(err, deployment.ErrOrder) {
			t.Errorf("a question within an epoch: %v", err)
		}
		counts := asked.counts(people - 1)
		if destroyed {
			counts.Destroyed, counts.Releases = true, nil
		}
		learned := asked.absorb(counts)
		if learned.Lift != nil || learned.Unchanged != 0 || learned.Action != "" ||
			(len(learned.Sums) == 1) == destroyed {
			t.Errorf("learned %+v", learned)
		}
		for range 3 {
			p, q := plain.announcePanel(), asked.announcePanel()
			if !reflect.DeepEqual(p.Policy, q.Policy) || !p.Plan.Equal(q.Plan) || q.Epoch != p.Epoch+1 ||
				q.Question != nil || !slices.Equal(p.Reference, q.Reference) {
				t.Fatalf("after a question epoch %d differs", q.Epoch)
			}
			l, k := plain.absorb(plain.counts(people)), asked.absorb(asked.counts(people))
			if !reflect.DeepEqual(l.Sums, k.Sums) || !bytes.Equal(l.Policy, k.Policy) {
				t.Fatalf("after a question epoch %d teaches something else", q.Epoch)
			}
		}
	}
}

// A question costs what the terms reserve for an epoch: all epochs of a person together keep the promise, whichever of
// them ask, and what an epoch may reveal is used.
func TestAQuestionCostsOneEpoch(t *testing.T) {
	for kind, q := range map[statistic.Kind]*statistic.Question{
		statistic.Mean: meanOf("a"), statistic.Fit: meanOf("a"),
		statistic.Histogram: {Name: "a", Of: []statistic.Quantity{ofArm}, Edges: []float64{-0.2, 0.4}},
	} {
		for _, channel := range plan.Channels() {
			c := panelOf(channel, 400, 4, 3)
			m := begin(t, c)
			a, payload, err := m.Asking(kind, q)
			if err != nil || payload == 0 {
				t.Fatalf("%s in %s: %v", kind, channel, err)
			}
			all, _, err := plan.Lifetime(a)
			if eps := all.Epsilon(c.Terms.Delta); err != nil || eps > c.Terms.Epsilon || eps < 0.9*c.Terms.Epsilon {
				t.Errorf("%s in %s: four epochs reveal %v, promised is %v: %v", kind, channel, eps, c.Terms.Epsilon,
					err)
			}
			want, err := deployment.ExpectedAnswer(a)
			if err != nil || !(want.Count.High > want.Count.Low) {
				t.Errorf("%s in %s: expected %+v, %v", kind, channel, want, err)
			}
			if !m.Begins() {
				t.Error("a question that was only looked at is asked")
			}
		}
	}
}

func TestQuestionsThatCannotBeAsked(t *testing.T) {
	m := begin(t, lasting())
	if err := m.Ask(statistic.Mean, meanOf("first")); err != nil {
		t.Fatal(err)
	}
	m.announcePanel()
	m.absorb(m.counts(people))
	if _, _, err := deployment.ReadQuestion(make([]byte, deployment.MaxQuestionFile+1)); !errors.Is(err,
		deployment.ErrQuestion) || !strings.Contains(err.Error(), "more than 65536 bytes") {
		t.Errorf("a huge file: %v", err)
	}
	ends := lasting()
	ends.Anytime = false
	over := begin(t, ends)
	for range 3 { // its horizon
		over.announcePanel()
		over.absorb(over.counts(people))
	}
	if err := over.Ask(statistic.Mean, meanOf("b")); !errors.Is(err, deployment.ErrQuestion) ||
		!strings.Contains(err.Error(), "the last policy is out") {
		t.Errorf("after the end: %v", err)
	}
	huge := lasting()
	huge.Terms.MaxMessages, huge.Terms.VarianceRatio = 40, 0
	for name, c := range map[string]struct {
		m    *run
		kind statistic.Kind
		q    *statistic.Question
		says string
	}{
		"a name again":         {m, statistic.Mean, meanOf("first"), "was given to a question before"},
		"a learner's":          {m, statistic.Gradient, meanOf("b"), "answers none"},
		"malformed":            {m, statistic.Mean, &statistic.Question{Name: "b"}, "0 quantities"},
		"none":                 {m, statistic.Mean, nil, "no question"},
		"of people who arrive": {begin(t, configuration(glm.Practical)), statistic.Mean, meanOf("b"), "admission.mode"},
		"with too few messages": {begin(t, huge), statistic.Histogram, &statistic.Question{Name: "b",
			Of: slices.Repeat([]statistic.Quantity{ofArm}, 60)}, ""},
	} {
		err := c.m.Ask(c.kind, c.q)
		if !errors.Is(err, deployment.ErrQuestion) || !strings.Contains(err.Error(), c.says) || !c.m.Begins() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Names and units of an answer are those of the announced schema; a range narrower than the field's is told.
func TestAnswersAreInTheUnitsOfTheSchema(t *testing.T) {
	schema, err := feature.Parse([]byte(`{"version":1,"context":[{"name":"age","kind":"number","low":20,"high":80},
		{"name":"member","kind":"flag"},{"name":"region","kind":"category","values":["north","south"]}],
		"arms":[{"name":"id","kind":"category","values":["a","b"]}],
		"terms":[["id"],["id","age"],["member","id"],["region"]]}`))
	if err != nil {
		t.Fatal(err)
	}
	vectors, err := schema.Encode(feature.Values{"age": 65.0, "member": true, "region": "south"},
		[]feature.Arm{{ID: "a"}, {ID: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	scale := schema.Scale()
	number := func(field string) statistic.Quantity {
		entries, err := schema.Sum(field)
		if err != nil {
			t.Fatal(err)
		}
		return statistic.Quantity{Entries: entries, Low: -scale, High: scale}
	}
	_, regions, err := schema.Places("region")
	if err != nil {
		t.Fatal(err)
	}
	places := &statistic.Question{Name: "a"}
	for _, g := range regions {
		places.Of = append(places.Of, statistic.Quantity{Entries: g, High: scale})
	}
	c := panelOf(plan.Shares, 400, 1, 1)
	c.Learner.Dimension, c.Schema = schema.Dimension(), schema.Canonical()
	for _, of := range []struct {
		kind  statistic.Kind
		q     *statistic.Question
		names []string
		want  []float64
	}{
		{statistic.Mean, &statistic.Question{Name: "a", Of: []statistic.Quantity{number("age"), number("member"),
			ofReward}}, []string{"age", "member (share true)", "reward"}, []float64{65, 1, 0.5}},
		{statistic.Mean, &statistic.Question{Name: "a", Of: []statistic.Quantity{
			{Entries: number("age").Entries, Low: -scale, High: scale / 3}, {Low: 0, High: 0.25}}},
			[]string{"age within 20 to 60", "reward within 0 to 0.25"}, []float64{60, 0.25}},
		{statistic.Histogram, places, []string{"region = north", "region = south", "any other"}, []float64{0, 1, 0}},
		{statistic.Histogram, &statistic.Question{Name: "a", Of: []statistic.Quantity{number("age")},
			Edges: []float64{0, scale / 2}}, []string{"age < 50", "50 ≤ age < 65", "age ≥ 65"}, []float64{0, 0, 1}},
	} {
		a, _, err := begin(t, c).Asking(of.kind, of.q)
		if err != nil {
			t.Fatal(err)
		}
		round, err := plan.CheckRound(a)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range vectors { // whichever arm is played
			v, err := round.Statistics[0].Vector(nil, statistic.Record{Arm: x, Reward: 0.5})
			if err != nil {
				t.Fatal(err)
			}
			for j := range v {
				v[j] *= 100
			}
			got, err := deployment.AnswerOf(a, []wire.Sum{{Values: v, Variance: make([]float64, len(v))}}, 100)
			if err != nil || len(got.Values) != len(of.want) {
				t.Fatalf("%+v, %v", got, err)
			}
			for j, want := range of.want {
				if v := got.Values[j]; v.Of != of.names[j] || math.Abs(v.Value-want) > 1e-6 {
					t.Errorf("%s: %+v, want %s %v", of.kind, v, of.names[j], want)
				}
			}
		}
	}
}

// What QuestionFile writes ReadQuestion reads, and nothing that it reads is more than a question may be.
func FuzzReadQuestion(f *testing.F) {
	for _, kind := range []statistic.Kind{statistic.Mean, statistic.Histogram, statistic.Fit} {
		text, err := deployment.QuestionFile(kind, meanOf("a"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"ask":"histogram","name":"b","of":[{"low":0,"high":1}],"edges":[0.5]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		kind, q, err := deployment.ReadQuestion(text)
		if err != nil {
			if !errors.Is(err, deployment.ErrQuestion) {
				t.Fatal(err)
			}
			return
		}
		if q.Validate(kind, 4) != nil {
			return
		}
		again, err := deployment.QuestionFile(kind, q)
		if err != nil {
			t.Fatal(err)
		}
		if k, same, err := deployment.ReadQuestion(again); err != nil || k != kind || !reflect.DeepEqual(same, q) {
			t.Fatalf("%+v is read as %+v: %v", q, same, err)
		}
	})
}

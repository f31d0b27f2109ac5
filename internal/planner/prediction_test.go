package planner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/planner/predict"
	"github.com/riffle-dp/riffle/internal/planner/predict/logged"
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// choices plans a decision among 3 options with a context of 3.
func choices(users int, epsilon float64, c plan.Channel) Options {
	o := Options{Users: users, Choices: 3, Context: 3, Family: "logistic", MaxReward: 1, Radius: 3,
		Terms: plan.DefaultTermsFor(c)}
	o.Epsilon, o.Channel = epsilon, c
	return o
}

// cohortsOf is a result of Run with cohorts alone, which is all that a prediction takes from it.
func cohortsOf(t *testing.T, o Options) *Result {
	t.Helper()
	s, err := o.rehearsal(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Result{Cohorts: s.cohorts}
}

func predicted(t *testing.T, o Options, p Prediction) *Result {
	t.Helper()
	r := cohortsOf(t, o)
	if err := Predict(context.Background(), o, p, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A plan with more noise is predicted to learn less, and one for few people with much noise is not to be run: then the
// prediction names changes, among them one that would do.
func TestAPredictionHasThePlansNoise(t *testing.T) {
	p := Prediction{Effect: 0.15, Runs: 8}
	clear, noisy := predicted(t, choices(2000, 4, plan.Shares), p), predicted(t, choices(300, 0.1, plan.Shares), p)
	a, b := clear.Prediction, noisy.Prediction
	if a.Verdict != WorthRunning || len(a.Changes) > 0 || a.Cases[a.Asked].ShareLast.Mean < 0.5 ||
		a.Cases[a.Asked].Better == nil {
		t.Errorf("2000 people at epsilon 4: %s, %v, %+v", a.Verdict, a.Reasons, a.Cases[a.Asked].Outcome)
	}
	if b.Verdict != DoNotRun || b.Cases[b.Asked].Worth() || len(b.Changes) < 3 {
		t.Errorf("300 people at epsilon .1: %s, %v, %+v", b.Verdict, b.Reasons, b.Changes)
	}
	helps := false
	for _, c := range b.Changes {
		helps = helps || c.Worth
	}
	if !helps {
		t.Errorf("no change helps: %+v", b.Changes)
	}
	same := predicted(t, choices(2000, 0.1, plan.Shares), p).Prediction
	if x, y := same.Cases[same.Asked], a.Cases[a.Asked]; x.Last.Mean > y.Last.Mean-y.Last.Error ||
		x.Learning.Mean > y.Learning.Mean-y.Learning.Error || x.Clear != y.Clear {
		t.Errorf("2000 people at epsilon .1 gain %+v and %+v, at epsilon 4 %+v and %+v", x.Learning, x.Last, y.Learning,
			y.Last)
	}
}

// The noise of a prediction is that of the channel as the analyzer plans it, at the point where the learner is: to a
// tenth, in every cohort of a run.
func TestAPredictionsNoiseIsTheChannels(t *testing.T) {
	for _, c := range []plan.Channel{plan.Shares, plan.Local} {
		o := choices(2000, 1, c)
		s, err := o.rehearsal(nil)
		if err != nil {
			t.Fatal(err)
		}
		proposer, compared := new(plan.Proposer), 0
		compare := func(step learner.Step) ([]float64, error) {
			got, err := s.noise(step)
			if err != nil {
				return nil, err
			}
			proposal, err := proposer.Propose(step, o.termsFor(c))
			if err != nil {
				return nil, err
			}
			for i, rel := range proposal.Details.Releases {
				if compared++; math.Abs(got[i]/rel.Deviation-1) > 0.1 {
					t.Errorf("%s, cohort %d, %s: noise %v, planned %v", c, step.Epoch+1, rel.Statistic, got[i],
						rel.Deviation)
				}
			}
			return got, nil
		}
		p, f := Prediction{Effect: 0.1}, s.config
		source, err := p.source(o.family(t), o, p.Effect)
		if err != nil {
			t.Fatal(err)
		}
		one := make(chan struct{}, 1) // the proposer is not for several runs at once
		one <- struct{}{}
		noise := func(step learner.Step) ([]float64, error) {
			<-one
			defer func() { one <- struct{}{} }()
			return compare(step)
		}
		if _, err := predict.Run(context.Background(), predict.Options{Learner: f, Noise: noise, People: source,
			Runs: 2}); err != nil {
			t.Fatal(err)
		}
		if compared < 4*len(s.cohorts) {
			t.Errorf("%s: %d sums compared in %d cohorts", c, compared, len(s.cohorts))
		}
	}
}

// A prediction for people who are not the planner's own, arms drawn from the ball, agrees with runs of the channel with
// its own noise: the gain of the last policy to .06, of some .33, by six runs.
func TestAPredictionAgreesWithTheChannel(t *testing.T) {
	const people = 1000
	o := Options{Users: people, Dimension: 4, Family: "logistic", MaxReward: 1, Radius: 3,
		Terms: plan.DefaultTermsFor(plan.Shares)}
	o.Channel = plan.Shares
	gain, best := 0.0, 0.0
	const runs = 6
	for seed := range uint64(runs) {
		world, err := population.Synthetic(population.SyntheticOptions{Users: 2 * people, Seed: seed, Dim: 4})
		if err != nil {
			t.Fatal(err)
		}
		source := rand.NewChaCha8([32]byte{byte(seed)})
		config, err := o.configured()
		if err != nil {
			t.Fatal(err)
		}
		h, err := play.Run(context.Background(), config, world.People(), play.Planned(o.Terms), source, source, nil)
		if err != nil {
			t.Fatal(err)
		}
		value, err := population.Value(world.People(), population.Greedy(h.Final.Theta))
		if err != nil {
			t.Fatal(err)
		}
		uniform, err := population.Value(world.People(), population.Uniform())
		if err != nil {
			t.Fatal(err)
		}
		top, err := population.Value(world.People(), func(_ int, p population.Person) (float64, error) {
			return p.Best(), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		gain, best = gain+(value-uniform)/runs, best+(top-uniform)/runs
	}
	got := predicted(t, o, Prediction{Effect: best, Runs: runs}).Prediction
	if c := got.Cases[got.Asked]; math.Abs(c.Last.Mean-gain) > 0.06 {
		t.Errorf("predicted gain %+v, by runs %v of at most %v", c.Last, gain, best)
	}
}

// The size of a simulation is bounded: fewer runs, only the effect that is asked for, and at last fewer people.
func TestSimulationsAreBounded(t *testing.T) {
	for _, c := range []struct {
		users, dimension int
		all              bool
	}{{5000, 15, true}, {1_000_000, 5, false}, {1_000_000, 100, false}} {
		o := Options{Users: c.users, Dimension: c.dimension}
		b, all := o.bound(DefaultRuns, 1, mostWork)
		people := c.users
		if !all {
			people = b.people
		}
		if all != c.all || b.runs < leastRuns || b.runs > DefaultRuns ||
			float64(people*b.runs)*o.cost() > 1.01*mostWork {
			t.Errorf("%+v: %+v, everybody %v", c, b, all)
		}
	}
	three := func() *Predicted {
		return &Predicted{Asked: 1, Cases: []Case{{Name: "small"}, {Name: "medium"}, {Name: "large"}}}
	}
	small := Options{Users: 5000, Dimension: 5}
	if p, b := three(), small.afford(three(), DefaultRuns); b != (bounds{DefaultRuns, 0}) {
		t.Errorf("%d cases within %+v", len(p.Cases), b)
	}
	p := three()
	if b := (Options{Users: 100_000, Dimension: 5}).afford(p, DefaultRuns); b.runs != leastRuns ||
		b.people < 30_000 || len(p.Cases) != 1 || p.Cases[p.Asked].Name != "medium" {
		t.Errorf("%+v within %+v", p.Cases, b)
	}
	// What was not simulated is no reason not to run, and notes say that it was not.
	p.Cases[0].Outcome = &predict.Outcome{Runs: 8, Simulated: 30_000, Horizon: 100_000,
		Last: predict.Estimate{Mean: 0.01, Error: 0.02}}
	if err := p.judge(context.Background(), Options{}, Prediction{}); err != nil || p.Verdict != Undecided {
		t.Errorf("%v, %s", err, p.Verdict)
	}
	if !strings.Contains(strings.Join(p.notes(), " "), "Only the first 30,000 of 100,000 people") ||
		!strings.Contains(p.Reasons[0], "fter the first 30,000 people of 100,000") {
		t.Errorf("notes %q and reasons %q do not say that not everybody was simulated", p.notes(), p.Reasons)
	}
}

// A log takes the place of assumptions, and what is printed says so and whose it is.
func TestAPredictionFromALog(t *testing.T) {
	log := logged.Decisions(0.5, 600)
	o := choices(2000, 1, plan.Shares)
	p := predicted(t, o, Prediction{Log: log, Runs: 4}).Prediction
	if len(p.Cases) != 1 || p.Log == nil || p.Log.Decisions != 600 || p.Verdict != WorthRunning {
		t.Errorf("%+v", p)
	}
	if !strings.Contains(p.People, "it is for those who hold it") {
		t.Errorf("people: %s", p.People)
	}
	baseline := 0.5
	plain := Options{Users: 2000, Dimension: 9, Family: "logistic", MaxReward: 1, Radius: 3, Terms: plan.DefaultTerms()}
	nine, other := cohortsOf(t, plain), plain
	other.Dimension = 5
	mixed := append([]predict.Decision{{Arms: [][]float64{{1, 0, 0, 1, 0, 0, 0, 0, 0}, {0, 0, 0, 1, 0, 0, 0, 0, 0}}}},
		log...)
	of := func(o Options) *Result {
		if o.Cohorts = nil; o.Dimension == 9 {
			return nine
		}
		return cohortsOf(t, o)
	}
	for name, c := range map[string]struct {
		o Options
		p Prediction
	}{
		"effect":     {plain, Prediction{Log: log, Effect: 0.1}},
		"baseline":   {plain, Prediction{Log: log, Baseline: &baseline}},
		"dimension":  {other, Prediction{Log: log}},
		"structure":  {o, Prediction{Log: mixed}},
		"short":      {plain, Prediction{Log: log[:1]}},
		"too large":  {plain, Prediction{Effect: 2}},
		"one run":    {plain, Prediction{Runs: 1}},
		"no context": {Options{}, Prediction{}},
	} {
		if name == "no context" {
			c.o = plain
			c.o.Cohorts = []int{500, 500}
		}
		if err := Predict(context.Background(), c.o, c.p, of(c.o)); !errors.Is(err, ErrOptions) &&
			!errors.Is(err, predict.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// That a log shows no effect is no proof that there is none, and no reason not to run. Nor is it one to run that a few
// private runs end somewhat above the best constant option.
func TestALogThatShowsNoEffectDecidesNothing(t *testing.T) {
	for _, last := range []float64{-0.001, 0.003} {
		p := &Predicted{Log: &predict.LogFacts{Decisions: 160}, Cases: []Case{{Outcome: &predict.Outcome{Runs: 8,
			Simulated: 1000, Horizon: 1000, Last: predict.Estimate{Mean: last, Error: 0.002},
			Clear: predict.Estimate{Mean: 0.001, Error: 0.002}}}}}
		if err := p.judge(context.Background(), Options{}, Prediction{}); err != nil || p.Verdict != Undecided ||
			!strings.Contains(strings.Join(p.Reasons, " "), "what 160 decisions do not tell from chance") {
			t.Errorf("last policy %v: %v, %s: %q", last, err, p.Verdict, p.Reasons)
		}
	}
}

// The words and numbers of a prediction that is not worth running, of one that is, and of one that cannot be.
func TestAPredictionInWords(t *testing.T) {
	three := 3000
	outcome := func(last float64) *predict.Outcome {
		return &predict.Outcome{Runs: 12, Simulated: 5000, Horizon: 5000, Constant: 0.6,
			Learning: predict.Estimate{Mean: -0.02, Error: 0.01}, Last: predict.Estimate{Mean: last, Error: 0.01},
			Clear:         predict.Estimate{Mean: 0.1, Error: 0.005},
			ShareLearning: &predict.Estimate{Mean: -0.2, Error: 0.1},
			ShareLast:     &predict.Estimate{Mean: last / 0.1, Error: 0.1},
			Policies:      []predict.Policy{{After: 0}, {After: 5000, Gain: predict.Estimate{Mean: last, Error: 0.01}}}}
	}
	p := &Predicted{Trust: plan.Shares, Asked: 1, People: "People.", Cases: []Case{{Name: "small", Effect: 0.05,
		Outcome: outcome(-0.01)}, {Name: "medium", Effect: 0.1, Outcome: outcome(0.08)}, {Name: "large", Effect: 0.2,
		Impossible: "no such effect"}}}
	p.Cases[1].Better = &three
	p.Cases[0].Below, p.Cases[1].Below = 7, 1
	if err := p.judge(context.Background(), Options{}, Prediction{}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.WriteString(p.text() + "\n")
	p.Verdict, p.Reasons = DoNotRun, []string{"Because."}
	p.Changes = []Change{{What: "20,000 people", Worth: true, Gain: &predict.Estimate{Mean: 0.05, Error: 0.01},
		Simulated: 8000, Users: 20_000}, {What: "epsilon 2", Impossible: "no plan"}}
	b.WriteString(p.text() + "\n" + strings.Join(p.notes(), "\n") + "\n")
	golden(t, "prediction.txt", b.Bytes())
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"verdict", "verdict_reasons", "cases", "asked", "changes", "gain_last", "share_last",
		"better_after", "runs_below", "gain_without_privacy", "gain_while_learning", "assumed_effect"} {
		if !strings.Contains(string(text), `"`+key+`":`) {
			t.Errorf("no %q in %s", key, text)
		}
	}
	if _, err := p.Chart().SVG(); err != nil {
		t.Error(err)
	}
}

func (o Options) family(t *testing.T) family.Family {
	t.Helper()
	f, err := family.New(o.Family, o.MaxReward)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

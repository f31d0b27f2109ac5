package program

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// ownPolicy is a policy of simulations.
type ownPolicy struct{}

func (ownPolicy) Decide([][]float64, protocol.Source) (learn.Choice, error) {
	return learn.Choice{}, nil
}

func begin(t *testing.T) *Learner {
	t.Helper()
	l, err := New(learner.Config{Profile: glm.SquareCB, Dimension: 3, Radius: 1, Horizon: 2000,
		Program: &learner.ProgramConfig{Arms: 4}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What a program may ask in a simulation, and no announcement carries, is refused whichever program asks it.
func TestQuestionsThatNoChannelCarriesAreRefused(t *testing.T) {
	l := begin(t)
	announced := func(kind statistic.Kind) learn.Statistic {
		s, err := learn.Announced(statistic.Statistic{Kind: kind, ArmDim: 3, WeightBound: 1, Family: family.Linear{}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	pair, sum := announced(statistic.Pair), announced(statistic.Covariance)
	own := sum
	own.Data = nil
	asks := func(form learn.Form, of ...learn.Statistic) learn.Question {
		return learn.Question{Form: form, Statistics: of}
	}
	for name, c := range map[string]struct {
		q    learn.Question
		says string
	}{
		"sums":         {asks(learn.Sums, sum), ""},
		"pairs":        {asks(learn.Reports, pair), ""},
		"records":      {asks(learn.Records, sum), "no channel"},
		"nothing":      {asks(learn.Nothing, sum), "no channel"},
		"no statistic": {asks(learn.Sums), "no channel"},
		"pure": {learn.Question{Form: learn.Sums, Statistics: []learn.Statistic{sum}, Pure: true},
			"no channel"},
		"its own":            {asks(learn.Sums, sum, own), "no data"},
		"reports of sums":    {asks(learn.Reports, sum), "arm and reward"},
		"reports of a few":   {asks(learn.Reports, pair, pair), "arm and reward"},
		"reports of its own": {asks(learn.Reports, own), "arm and reward"},
	} {
		_, _, err := l.statistics(c.q)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, ErrRefused) ||
			!strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A policy of a program is announced only if devices can follow it.
func TestPoliciesThatNoDeviceFollowsAreRefused(t *testing.T) {
	l := begin(t)
	good := l.asked.Policy.(learn.Data).Policy
	if _, err := l.policy(learn.Data{Policy: good}); err != nil {
		t.Fatal(err)
	}
	bad := good
	bad.Radius = -1
	for says, p := range map[string]learn.Policy{"no data": ownPolicy{}, "radius": learn.Data{Policy: bad}} {
		if _, err := l.policy(p); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// What goes wrong in the run itself is an error of Absorb, after which nothing has changed.
func TestARunThatFailsChangesNothing(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		program learn.Program
		want    error
	}{
		"at its start": {func(func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
			return nil, failed
		}, failed},
		"at the answer": {func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
			if _, err := ask(ownPolicy{}, learn.Question{Form: learn.Sums, People: 1}); err != nil {
				return nil, err
			}
			return nil, failed
		}, learner.ErrAggregate}, // the answer is of another question
		"after it": {func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
			_, err := ask(ownPolicy{}, learn.Question{Form: learn.Records, People: 1})
			return nil, errors.Join(err, failed)
		}, failed},
		"with its policy": {func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
			_, err := ask(ownPolicy{}, learn.Question{Form: learn.Records, People: 1})
			return ownPolicy{}, err
		}, ErrRefused},
	} {
		l := begin(t)
		before := l.Next()
		begins := l.start
		l.start = func(learn.Setting) (*learn.Learner, error) { return learn.Start(c.program) }
		a := zeros(l.asked.Question)
		if err := l.absorb(a); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if after := l.Next(); after.Epoch != before.Epoch || after.Cohort != before.Cohort || len(l.answers) != 0 ||
			!slices.Equal(after.Policy.Theta, before.Policy.Theta) {
			t.Errorf("%s: step %+v after an error, before it %+v", name, after, before)
		}
		l.start = begins
		if err := l.absorb(a); err != nil || l.Next().Epoch != 1 {
			t.Errorf("%s: the next answer: %v", name, err)
		}
	}
}

// Runs that would take all memory are refused before they do: auditors read configurations in logs of others.
func TestRunsTooLongToKeepAreRefused(t *testing.T) {
	for _, c := range []struct {
		profile glm.Profile
		horizon int
		options map[string]float64
		says    string
	}{
		{glm.LinUCB, 50 << 12, map[string]float64{bandit.First: 50, bandit.Growth: 1}, ""},
		{glm.LinUCB, 50<<12 + 50, map[string]float64{bandit.First: 50, bandit.Growth: 1}, "more than 4096 questions"},
		{glm.LinUCB, 1 << 31, nil, ""},
		{glm.OnlineLinUCB, 1 << 31, nil, "each of 107374182 people"},
		{glm.OnlineLinUCBCombiner, 1 << 31, nil, "each of 107374182 people"},
	} {
		big := learner.Config{Profile: c.profile, Radius: 1, Program: &learner.ProgramConfig{Arms: 4}}
		big.Dimension, big.Horizon, big.MinCohort, big.Program.Options = 2, c.horizon, 50, c.options
		_, err := New(big)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, ErrRefused) ||
			!strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s for %d people: %v", c.profile, c.horizon, err)
		}
	}
}

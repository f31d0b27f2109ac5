package learn_test

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/learn"
)

// uniform and greedy are policies that only their types tell apart.
type (
	uniform struct{ learn.Policy }
	greedy  struct{ learn.Policy }
)

var count = learn.Statistic{
	Name: "count", Lower: []float64{0}, Upper: []float64{1}, Diameter: 1,
	Vector: func(dst []float64, _ learn.Record) []float64 { return append(dst, 1) },
}

// two asks for the sum of two groups, and returns what ask returned last.
func two(seen *[]float64, last *error) learn.Program {
	return func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		for _, people := range []int{3, 5} {
			q := learn.Question{Form: learn.Sums, People: people, Statistics: []learn.Statistic{count}}
			answer, err := ask(uniform{}, q)
			if *last = err; err != nil {
				return nil, err
			}
			*seen = append(*seen, answer.Sums[0].Values[0])
		}
		return greedy{}, nil
	}
}

func sum(v float64) learn.Answer {
	return learn.Answer{People: 3, Sums: []learn.Sum{{Values: []float64{v}, Variance: []float64{0}}}}
}

// A program stands still between answers, gets them in order, ends with its last policy, and is left unchanged by an
// answer that does not fit.
func TestAProgramIsALearner(t *testing.T) {
	var seen []float64
	var last error
	l, err := learn.Start(two(&seen, &last))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, bad := range []learn.Answer{
		{}, {People: 3}, {People: 3, Sums: []learn.Sum{{Values: []float64{1, 2}, Variance: []float64{0, 0}}}},
		sum(math.NaN()),
	} {
		if err := l.Absorb(bad); !errors.Is(err, learn.ErrAnswer) || len(seen) != 0 || l.Next().Question.People != 3 {
			t.Errorf("%+v: %v, and the learner moved on", bad, err)
		}
	}
	for i, v := range []float64{7, 8} {
		if l.Next().Done || l.Next().Question.People != 3+2*i {
			t.Fatalf("step %d is %+v", i, l.Next())
		}
		if err := l.Absorb(sum(v)); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 2 || seen[0] != 7 || seen[1] != 8 || !l.Next().Done {
		t.Errorf("the program saw %v; done: %v", seen, l.Next().Done)
	}
	if _, ok := l.Next().Policy.(greedy); !ok {
		t.Errorf("the last policy is %T", l.Next().Policy)
	}
	if err := l.Absorb(sum(1)); !errors.Is(err, learn.ErrEnded) {
		t.Errorf("an answer after the end: %v", err)
	}
}

// A learner that is closed early ends its program with ErrEnded.
func TestAClosedLearnerEndsItsProgram(t *testing.T) {
	var seen []float64
	var last error
	l, err := learn.Start(two(&seen, &last))
	if err != nil {
		t.Fatal(err)
	}
	if l.Close(); !errors.Is(last, learn.ErrEnded) {
		t.Errorf("the program was told %v", last)
	}
}

// A program's own failure is the learner's, at its start and later; a question to nobody is one.
func TestAProgramThatFailsEndsItsLearner(t *testing.T) {
	failure := errors.New("no")
	if _, err := learn.Start(func(func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		return nil, failure
	}); !errors.Is(err, failure) {
		t.Errorf("a program that fails at once: %v", err)
	}
	l, err := learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		if _, err := ask(uniform{}, learn.Question{Form: learn.Records, People: 1}); err != nil {
			return nil, err
		}
		_, err := ask(uniform{}, learn.Question{Form: learn.Records})
		return nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Absorb(learn.Answer{People: 1, Records: []learn.Record{{Arm: []float64{1}}}}); err == nil {
		t.Error("a question to nobody was asked")
	}
}

// counting is a state that asks as often as it is told, and fails at an answer below 0.
type counting struct{ left int }

func (c *counting) Next() (learn.Step, error) {
	return learn.Step{Policy: uniform{}, Done: c.left == 0,
		Question: learn.Question{Form: learn.Sums, People: c.left, Statistics: []learn.Statistic{count}}}, nil
}

func (c *counting) Absorb(a learn.Answer) error {
	if a.Sums[0].Values[0] < 0 {
		return errors.New("below 0")
	}
	c.left--
	return nil
}

// A state is a learner, too: it checks answers, fails as the state does, ends, and waits on nothing.
func TestAStateIsALearner(t *testing.T) {
	l, err := learn.StartState(&counting{left: 2})
	if err != nil || l.Waits() {
		t.Fatalf("%v, waits: %v", err, l.Waits())
	}
	if err := l.Absorb(learn.Answer{People: 3}); !errors.Is(err, learn.ErrAnswer) {
		t.Errorf("no sums: %v", err)
	}
	for left := 2; left > 0; left-- {
		if step := l.Next(); step.Done || step.Question.People != left {
			t.Fatalf("%d are left: %+v", left, step)
		}
		if err := l.Absorb(sum(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Absorb(sum(1)); !l.Next().Done || !errors.Is(err, learn.ErrEnded) {
		t.Errorf("done: %v, %v", l.Next().Done, err)
	}
	failing, err := learn.StartState(&counting{left: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := failing.Absorb(sum(-1)); err == nil || errors.Is(err, learn.ErrAnswer) {
		t.Errorf("a state that fails: %v", err)
	}
	if _, err := learn.StartState(&counting{left: -1}); err == nil {
		t.Error("a question to nobody was asked")
	}
	waiting, err := learn.Start(two(new([]float64), new(error)))
	if err != nil {
		t.Fatal(err)
	}
	if !waiting.Waits() {
		t.Error("a program waits on nothing")
	}
	waiting.Close()
}

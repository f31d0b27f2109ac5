package learn

import (
	"errors"
	"fmt"
	"iter"
)

// Step is what happens next in a run of a learner.
type Step struct {
	Policy   Policy // in force for the question's people
	Question Question
	// Done says that the learner asks nothing more. The policy stays in force.
	Done bool
}

// ErrEnded is returned by ask to a program whose learner was closed. The program returns it.
var ErrEnded = errors.New("learn: the run is over")

// Program is a learner as it is read in a paper: it asks, goes on with the answer, and returns the policy to keep after
// its last question. It must return soon after ask gave an error.
//
// Why it is no learner.Learner: the policies and statistics of a program are functions, which run in one process with
// the people whom it asks, each of them once; those of a deployment are data that an announcement carries, so that a
// device bounds them itself, and one cohort may answer several rounds of them.
type Program func(ask func(Policy, Question) (Answer, error)) (Policy, error)

// State is a learner as data: where it stands between two answers, and how it goes on. Unlike a Program it waits
// nowhere, so that it can be kept and forgotten.
type State interface {
	// Next is the current step. It changes nothing that a later one depends on.
	Next() (Step, error)
	// Absorb takes an answer that fits the question (Question.Check). After an error the state is used no more.
	Absorb(Answer) error
}

// Start runs a program as a learner, up to its first question. Program and learner take turns: the program never runs
// while Next or Absorb do not. In between it waits on a goroutine of its own, which Close ends.
func Start(p Program) (*Learner, error) {
	w := &waiting{}
	w.next, w.stop = iter.Pull(func(yield func(Step) bool) {
		last, err := p(func(policy Policy, q Question) (Answer, error) {
			if !yield(Step{Policy: policy, Question: q}) {
				return Answer{}, ErrEnded
			}
			return w.answer, nil
		})
		if err == nil {
			yield(Step{Policy: last, Done: true})
		} else if !errors.Is(err, ErrEnded) {
			w.err = err
		}
	})
	if err := w.move(); err != nil {
		return nil, err
	}
	return StartState(w)
}

// waiting is a program that waits for an answer.
type waiting struct {
	next   func() (Step, bool)
	stop   func()
	step   Step
	answer Answer
	err    error
}

func (w *waiting) move() error {
	step, more := w.next()
	if w.err != nil {
		return w.err
	}
	if !more {
		return ErrEnded
	}
	w.step, w.answer = step, Answer{}
	return nil
}

// Next implements State.
func (w *waiting) Next() (Step, error) { return w.step, nil }

// Absorb implements State.
func (w *waiting) Absorb(a Answer) error {
	w.answer = a
	return w.move()
}

// StartState runs a state as a learner.
func StartState(s State) (*Learner, error) {
	l := &Learner{state: s}
	return l, l.move()
}

// Learner is a program or a state between two answers. It has no clock. It is not safe for concurrent use.
type Learner struct {
	state State
	step  Step
}

func (l *Learner) move() error {
	step, err := l.state.Next()
	if q := step.Question; err == nil && !step.Done && (q.Form != Nothing && q.People < 1 || step.Policy == nil) {
		err = fmt.Errorf("learn: a question to %d people without a policy or people", q.People)
	}
	if err != nil {
		l.Close()
		return err
	}
	l.step = step
	return nil
}

// Next is the current step. It changes nothing.
func (l *Learner) Next() Step { return l.step }

// Absorb takes the answer to the current step's question and moves on. On an error that wraps ErrAnswer nothing has
// changed; any other error ends the learner.
func (l *Learner) Absorb(a Answer) error {
	if l.step.Done {
		return ErrEnded
	}
	if err := l.step.Question.Check(a); err != nil {
		return err
	}
	if err := l.state.Absorb(a); err != nil {
		l.Close()
		return err
	}
	return l.move()
}

// Waits reports whether the learner holds a goroutine, which only Close ends: that of Start, not of StartState.
func (l *Learner) Waits() bool {
	_, waits := l.state.(*waiting)
	return waits
}

// Close frees what the learner holds. Nothing else may be called after it.
func (l *Learner) Close() {
	if w, waits := l.state.(*waiting); waits {
		w.stop()
	}
}

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

// Start runs a program as a learner, up to its first question. Program and learner take turns: the program never runs
// while Next or Absorb do not.
func Start(p Program) (*Learner, error) {
	l := &Learner{}
	next, stop := iter.Pull(func(yield func(Step) bool) {
		last, err := p(func(policy Policy, q Question) (Answer, error) {
			if q.Form != Nothing && q.People < 1 || policy == nil {
				return Answer{}, fmt.Errorf("learn: a question to %d people without a policy or people", q.People)
			}
			if !yield(Step{Policy: policy, Question: q}) {
				return Answer{}, ErrEnded
			}
			return l.answer, nil
		})
		if err == nil {
			yield(Step{Policy: last, Done: true})
		} else if !errors.Is(err, ErrEnded) {
			l.err = err
		}
	})
	l.next, l.stop = next, stop
	return l, l.move()
}

// Learner is a program between two answers. It has no clock. It is not safe for concurrent use.
type Learner struct {
	next   func() (Step, bool)
	stop   func()
	step   Step
	answer Answer
	err    error
}

func (l *Learner) move() error {
	step, more := l.next()
	if l.err != nil {
		l.stop()
		return l.err
	}
	if !more {
		return ErrEnded
	}
	l.step, l.answer = step, Answer{}
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
	l.answer = a
	return l.move()
}

// Close frees what the learner holds. Nothing else may be called after it.
func (l *Learner) Close() { l.stop() }

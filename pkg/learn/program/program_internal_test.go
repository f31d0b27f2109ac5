package program

import (
	"errors"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// manyEpochs is a learner of a program that may ask hundreds of cohorts.
func manyEpochs(t *testing.T, p glm.Profile) *Learner {
	t.Helper()
	l, err := New(learner.Config{Profile: p, Dimension: 3, Radius: 1, Horizon: 2000,
		Program: &learner.ProgramConfig{Arms: 4}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A program that is a state goes on from where it is: it is begun once, not at each answer.
func TestStatesAreNotReplayed(t *testing.T) {
	for _, p := range []glm.Profile{glm.LinUCB, glm.OnlineLinUCB, glm.OnlineLinUCBCombiner} {
		l, epochs := manyEpochs(t, p), 0
		l.start = func(learn.Setting) (*learn.Learner, error) { return nil, errors.New("begun anew") }
		for ; !l.Next().Done; epochs++ {
			if err := l.absorb(zeros(l.asked.Question)); err != nil {
				t.Fatalf("%s: epoch %d: %v", p, epochs, err)
			}
		}
		if epochs < 3 {
			t.Errorf("%s: %d epochs: the test shows nothing", p, epochs)
		}
	}
}

// broken is a state that fails at its next answer, having changed.
type broken struct{ step learn.Step }

func (b broken) Next() (learn.Step, error) { return b.step, nil }
func (broken) Absorb(a learn.Answer) error { a.Sums[0].Values[0]++; return errors.New("broken") }

// After an error nothing has changed: the state that had begun to change is made anew of the answers before.
func TestAStateThatFailedIsMadeAnew(t *testing.T) {
	l, same := manyEpochs(t, glm.LinUCB), manyEpochs(t, glm.LinUCB)
	for epoch := range 3 {
		if epoch > 0 {
			var err error
			if l.run, err = learn.StartState(broken{l.asked}); err != nil {
				t.Fatal(err)
			}
			before := l.Next()
			if err := l.absorb(zeros(l.asked.Question)); err == nil {
				t.Fatal("a broken state was taken for sound")
			}
			if !reflect.DeepEqual(l.Next(), before) {
				t.Errorf("epoch %d: an error changed the step", epoch)
			}
		}
		for _, of := range []*Learner{l, same} {
			a := zeros(of.asked.Question)
			a.Sums[0].Values[0], a.Sums[1].Values[0] = float64(40*epoch+20), -10
			if err := of.absorb(a); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(l.Next(), same.Next()) {
			t.Errorf("epoch %d: after an error comes\n%+v\nwithout it\n%+v", epoch, l.Next(), same.Next())
		}
	}
}

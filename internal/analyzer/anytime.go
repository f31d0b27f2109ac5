package analyzer

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/glm"
)

// mostPeople is the largest number of people that a horizon is extended by: a cohort's size fits into its field.
const mostPeople = 1 << 31

// next is the learner's step. With Config.Anytime a horizon that is over is followed by one twice as long, as in the
// doubling trick of bandits that do not know their horizon: for T people, then for 2T, 4T and so on. The learner goes
// on from all that it knows (glm.Learner.Extend), and no person is asked twice, so that a person's guarantee is that of
// a run with one horizon. What is announced stays a function of configuration and counts: a replay comes to the same.
func (z *Analyzer) next() (glm.Step, error) {
	step := z.learner.Next()
	l, ok := z.learner.(*glm.Learner)
	if !ok || !step.Done || !z.c.Anytime {
		return step, nil
	}
	more := l.Config().Horizon + z.c.Learner.Horizon // 2T after T, 4T after 3T
	if more > mostPeople {
		return step, nil
	}
	if err := l.Extend(more); err != nil {
		return step, fmt.Errorf("analyzer: %w", err)
	}
	planned := len(l.Schedule())
	z.note(func(p *Progress) { p.Epochs = planned })
	return l.Next(), nil
}

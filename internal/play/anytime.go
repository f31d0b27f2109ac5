package play

import (
	"cmp"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Anytime plays without knowing how many people will come, by the doubling trick: for cfg.Horizon people, then for
// twice as many, and so on. The practical profile goes on from what it knows (learner.Learner.Extend); any other starts
// a new learner and pays its warm-up again. Either way each person's record is in one cohort, and a
// person's guarantee is that of a single run.
type Anytime struct {
	cfg            learner.Config
	trust          Trust
	devices, noise protocol.Source
	current        *Batched
	left           int
	people         int
	messages       float64 // of the learners before the current one
}

// anytimeGrowth is the ratio of successive horizons.
const anytimeGrowth = 2

// NewAnytime starts with a learner for cfg.Horizon people.
func NewAnytime(cfg learner.Config, trust Trust, devices, noise protocol.Source) (*Anytime, error) {
	b, err := NewBatched(cfg, trust, devices, noise)
	if err != nil {
		return nil, err
	}
	return &Anytime{cfg: cfg, trust: trust, devices: devices, noise: noise, current: b, left: cfg.Horizon}, nil
}

// Choose implements Algorithm.
func (a *Anytime) Choose(arms [][]float64) (int, error) { return a.current.Choose(arms) }

// Prepare implements Preparer. The people after the current horizon may have another learner.
func (a *Anytime) Prepare(sets [][][]float64) { a.current.Prepare(sets[:min(len(sets), a.left)]) }

// Prepared implements Preparer.
func (a *Anytime) Prepared() int { return a.current.Prepared() }

// Propensity implements Randomized.
func (a *Anytime) Propensity() float64 { return a.current.Propensity() }

// Learn implements Algorithm.
func (a *Anytime) Learn(reward float64) error {
	if err := a.current.Learn(reward); err != nil {
		return err
	}
	a.people++
	if a.left--; a.left > 0 {
		return nil
	}
	a.cfg.Horizon *= anytimeGrowth
	a.left = a.cfg.Horizon
	if cmp.Or(a.cfg.Profile, glm.Practical) == glm.Practical {
		return a.current.extend(a.left)
	}
	a.messages += a.current.messages
	next, err := NewBatched(a.cfg, a.trust, a.devices, a.noise)
	a.current = next
	return err
}

// MessagesPerPerson implements Sender. People whose cohort is not full yet have sent nothing.
func (a *Anytime) MessagesPerPerson() float64 {
	return (a.messages + a.current.messages) / float64(max(1, a.people))
}

// Final implements Estimator: the estimate in force.
func (a *Anytime) Final() ([]float64, error) { return a.current.step.Policy.Theta, nil }

package program

import "github.com/riffle-dp/riffle/pkg/glm/learner"

// Sums is a learner of sums, as simulations and deployments run it. *learner.Learner documents the methods; *Learner is
// the other one.
type Sums interface {
	Config() learner.Config
	Schedule() []int
	Next() learner.Step
	Absorb(sums []learner.Aggregate) error
	Destroyed() error
}

// NewSums starts the profile's learner, of any profile but joint.
func NewSums(c learner.Config) (Sums, error) {
	if !c.Profile.Program() {
		return learner.New(c)
	}
	return New(c)
}

package learn

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Setting is what a learner or an estimator is told. It is public and fixed beforehand.
type Setting struct {
	Family    family.Family // of the rewards
	Dimension int
	Arms      int     // the most that a person has
	Horizon   int     // T, people
	Radius    float64 // S, a bound of the norm of theta*
	// Epsilon and Delta are the guarantee of a person. Learners that ask for records use them for their own noise; the
	// channel has them too. An epsilon of +Inf means no noise.
	Epsilon, Delta float64
	Failure        float64 // failure probability of confidence sets, in (0, 1)
	Kappa          float64 // a bound of 1/mu' where the paper's algorithm is told one; 0: learner.KappaBound
	// Noise is where a learner that reads records takes its noise from.
	Noise protocol.Source
	// Variant names a variant of the algorithm, Literal the paper's where the sound one is the default; "" the default.
	Variant string
	// Options are the algorithm's tunables by name. The algorithm's file documents names and defaults.
	Options map[string]float64
	// Structure says which coordinates of an arm can be other than 0 together; nil: any arm.
	Structure structure.Structure
	// Used, if not nil, takes down the value of each option that the algorithm asks for, its default if it is not set;
	// NaN where it asks with several defaults.
	Used map[string]float64
}

// Literal is the variant of every algorithm that follows its paper where the sound default does not.
const Literal = "literal"

// Option is a tunable, or its default where it is not set.
func (s Setting) Option(name string, otherwise float64) float64 {
	v, set := s.Options[name]
	if !set {
		v = otherwise
	}
	if before, asked := s.Used[name]; asked && before != v {
		s.Used[name] = math.NaN()
	} else if s.Used != nil {
		s.Used[name] = v
	}
	return v
}

// Check refuses a setting that no algorithm can take, and options that are none of those named.
func (s Setting) Check(variants, options []string) error {
	if s.Family == nil || s.Dimension < 1 || s.Horizon < 1 || !(s.Radius > 0) || math.IsInf(s.Radius, 0) {
		return fmt.Errorf("learn: dimension %d, horizon %d and radius %v must be positive and finite, and there must "+
			"be a family", s.Dimension, s.Horizon, s.Radius)
	}
	if !(s.Epsilon > 0) || !(s.Delta >= 0 && s.Delta < 1) || !(s.Failure > 0 && s.Failure < 1) {
		return fmt.Errorf("learn: epsilon %v must be positive, delta %v and failure %v probabilities", s.Epsilon,
			s.Delta, s.Failure)
	}
	if s.Variant != "" && !slices.Contains(variants, s.Variant) {
		return fmt.Errorf("learn: variant %q is none of %q", s.Variant, variants)
	}
	for name, v := range s.Options {
		if !slices.Contains(options, name) {
			return fmt.Errorf("learn: option %q is none of %q", name, options)
		}
		if math.IsNaN(v) {
			return fmt.Errorf("learn: option %q is not a number", name)
		}
	}
	return nil
}

// Policy is a policy for people of the setting, to be completed. Its Theta is zero.
func (s Setting) Policy(profile glm.Profile, play glm.Play) glm.Policy {
	return glm.Policy{Profile: profile, Family: s.Family.Name(), MaxReward: s.Family.MaxReward(),
		Dimension: s.Dimension, Radius: s.Radius, Structure: s.Structure,
		Theta: make([]float64, s.Dimension), Play: play}
}

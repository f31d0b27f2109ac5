package population

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// Defaults of [SyntheticOptions].
const (
	DefaultSyntheticUsers = 5000
	DefaultSyntheticDim   = 5
	DefaultSyntheticArms  = 10
	DefaultSyntheticNorm  = 3.0
	// DefaultLinearNorm is that of the family linear, whose mean rewards are within [-1, 1].
	DefaultLinearNorm = 1.0
)

// SyntheticOptions chooses a synthetic population. A field other than Seed that is zero takes its default.
type SyntheticOptions struct {
	Users int     // people to decide for; 0 = DefaultSyntheticUsers
	Seed  uint64  // of everything that is drawn
	Dim   int     // d; 0 = DefaultSyntheticDim
	Arms  int     // K; 0 = DefaultSyntheticArms
	Norm  float64 // norm of the true parameter, and the declared bound S; 0 = DefaultSyntheticNorm, DefaultLinearNorm
	// Family of the rewards, logistic or linear; empty: logistic.
	Family string
}

// Synthetic returns people whose rewards follow a logistic or a linear model: a parameter drawn uniformly from the
// sphere of radius Norm, arms drawn fresh for each person and uniformly from the unit ball, and rewards that are 1 with
// the probability that the model gives at <arm, parameter>, else the family's smallest. The true means are known, so
// regret is exact. No one is held out. Package environment has synthetic populations of other kinds and families.
func Synthetic(o SyntheticOptions) (*Population, error) {
	s, err := newSynthetic(o)
	if err != nil {
		return nil, err
	}
	return New(Info{
		Name: "synthetic", People: s.o.Users, Dim: s.o.Dim, Arms: s.o.Arms, Family: s.o.Family, MaxReward: 1,
		NormBound: s.o.Norm,
	}, s.people, nil), nil
}

type synthetic struct {
	o      SyntheticOptions
	family family.Family
	theta  []float64
}

func newSynthetic(o SyntheticOptions) (*synthetic, error) {
	o.Users = cmp.Or(o.Users, DefaultSyntheticUsers)
	o.Dim = cmp.Or(o.Dim, DefaultSyntheticDim)
	o.Arms = cmp.Or(o.Arms, DefaultSyntheticArms)
	o.Family = cmp.Or(o.Family, family.NameLogistic)
	if o.Norm == 0 {
		if o.Norm = DefaultSyntheticNorm; o.Family == family.NameLinear {
			o.Norm = DefaultLinearNorm
		}
	}
	if o.Users < 0 || o.Dim < 0 || o.Arms < 0 {
		return nil, fmt.Errorf("%w: users %d, dimension %d, arms %d; all must be positive", ErrOption, o.Users, o.Dim,
			o.Arms)
	}
	if !(o.Norm > 0) || math.IsInf(o.Norm, 1) {
		return nil, fmt.Errorf("%w: parameter norm %v; it must be positive and finite", ErrOption, o.Norm)
	}
	if err := ofFamily(o.Family, "synthetic people"); err != nil {
		return nil, err
	}
	if o.Family == family.NameLinear && o.Norm > 1 {
		return nil, fmt.Errorf("%w: parameter norm %v; mean rewards of the family %s need at most 1", ErrOption, o.Norm,
			o.Family)
	}
	model, err := family.New(o.Family, 1)
	if err != nil { // not reached
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	s := &synthetic{o: o, family: model, theta: make([]float64, o.Dim)}
	Sphere(s.theta, o.Norm, stream(o.Seed, streamParameter, 0))
	return s, nil
}

func (s *synthetic) people(yield func(Person, error) bool) {
	for i := range s.o.Users {
		if !yield(s.person(stream(s.o.Seed, streamPerson, uint64(i))), nil) {
			return
		}
	}
}

// person draws one person. The rewards of all arms are drawn, also of arms that will not be played: what an algorithm
// plays then cannot change anyone else's luck, and several algorithms can be compared on the same people.
func (s *synthetic) person(r *rand.Rand) Person {
	k := s.o.Arms
	p := Person{Arms: make([][]float64, k), Means: make([]float64, k), Rewards: make([]float64, k)}
	for a := range p.Arms {
		p.Arms[a] = make([]float64, s.o.Dim)
		Ball(p.Arms[a], r)
	}
	for a, x := range p.Arms {
		p.Means[a] = s.family.Mean(Dot(x, s.theta))
		least, most := s.family.MinReward(), s.family.MaxReward()
		if p.Rewards[a] = least; r.Float64()*(most-least) < p.Means[a]-least {
			p.Rewards[a] = most
		}
	}
	return p
}

// ofFamily refuses rewards of a family that they are not of.
func ofFamily(name, whose string) error {
	if name != family.NameLogistic && name != family.NameLinear {
		return fmt.Errorf("%w: the rewards of %s are of the family %s or %s, not %s", ErrOption, whose,
			family.NameLogistic, family.NameLinear, name)
	}
	return nil
}

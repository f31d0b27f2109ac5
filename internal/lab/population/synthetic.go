package population

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/glm"
)

// Defaults of [SyntheticOptions].
const (
	DefaultSyntheticUsers = 5000
	DefaultSyntheticDim   = 5
	DefaultSyntheticArms  = 10
	DefaultSyntheticNorm  = 3.0
)

// SyntheticOptions chooses a synthetic population. The zero value of each field but Seed and Holdout stands for its default.
type SyntheticOptions struct {
	Users     int     // people to decide for; 0 = DefaultSyntheticUsers
	Seed      uint64  // everything that is drawn
	Holdout   float64 // held-out people as a share of all people, in [0, 1); they come on top of Users
	Dim       int     // d; 0 = DefaultSyntheticDim
	Arms      int     // K; 0 = DefaultSyntheticArms
	Norm      float64 // norm of the true parameter, also the declared bound S; 0 = DefaultSyntheticNorm
	Family    string  // reward family; "" = "logistic"
	MaxReward float64 // R; 0 = 1
	FixedArms bool    // one arm set, drawn once, for everybody: no context, so a learner must explore
}

// Synthetic returns people whose rewards follow a generalized linear model: a parameter drawn uniformly from the sphere of radius
// Norm, arms drawn fresh for each person and uniform in the unit ball, rewards drawn from the family at <arm, parameter>. The true
// means are known, so regret is exact.
func Synthetic(o SyntheticOptions) (*Population, error) {
	s, err := newSynthetic(o)
	if err != nil {
		return nil, err
	}
	o = s.o
	held := int(math.Round(float64(o.Users) * o.Holdout / (1 - o.Holdout)))
	return New(Info{
		Name: "synthetic", People: o.Users, HeldOut: held, Dim: o.Dim, Arms: o.Arms, Family: o.Family, MaxReward: o.MaxReward,
		NormBound: o.Norm,
	}, s.people(streamPerson, o.Users), s.people(streamHeld, held)), nil
}

// SyntheticParameter returns the true parameter of the population that the same options give.
func SyntheticParameter(o SyntheticOptions) ([]float64, error) {
	s, err := newSynthetic(o)
	if err != nil {
		return nil, err
	}
	return s.theta, nil
}

type synthetic struct {
	o      SyntheticOptions
	family glm.Family
	theta  []float64
	fixed  [][]float64 // the common arm set, or nil
}

func newSynthetic(o SyntheticOptions) (*synthetic, error) {
	standard(&o.Users, DefaultSyntheticUsers)
	standard(&o.Dim, DefaultSyntheticDim)
	standard(&o.Arms, DefaultSyntheticArms)
	standard(&o.Norm, DefaultSyntheticNorm)
	standard(&o.Family, glm.FamilyLogistic)
	standard(&o.MaxReward, 1)
	if o.Users < 0 || o.Dim < 0 || o.Arms < 0 {
		return nil, fmt.Errorf("%w: users %d, dimension %d, arms %d; all must be positive", ErrOption, o.Users, o.Dim, o.Arms)
	}
	if !(o.Norm > 0) || math.IsInf(o.Norm, 1) {
		return nil, fmt.Errorf("%w: parameter norm %v; it must be positive and finite", ErrOption, o.Norm)
	}
	if err := checkShare(o.Holdout); err != nil {
		return nil, err
	}
	family, err := glm.NewFamily(o.Family, o.MaxReward)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOption, err)
	}
	s := &synthetic{o: o, family: family, theta: make([]float64, o.Dim)}
	sphere(s.theta, o.Norm, stream(o.Seed, streamParameter, 0))
	if o.FixedArms {
		s.fixed = s.arms(stream(o.Seed, streamArms, 0))
	}
	return s, nil
}

// standard replaces a zero value by its default.
func standard[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

func (s *synthetic) arms(r *rand.Rand) [][]float64 {
	arms := make([][]float64, s.o.Arms)
	for a := range arms {
		arms[a] = make([]float64, s.o.Dim)
		ball(arms[a], r)
	}
	return arms
}

func (s *synthetic) people(from purpose, n int) iter.Seq2[Person, error] {
	return func(yield func(Person, error) bool) {
		for i := range n {
			p, err := s.person(stream(s.o.Seed, from, uint64(i)))
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// person draws one person. All rewards are drawn, also those of arms that nobody will play: a player then cannot change anybody
// else's luck, and several players can be compared on the same people.
func (s *synthetic) person(r *rand.Rand) (Person, error) {
	p := Person{Means: make([]float64, s.o.Arms), Rewards: make([]float64, s.o.Arms)}
	if s.fixed == nil {
		p.Arms = s.arms(r)
	} else {
		p.Arms = make([][]float64, len(s.fixed))
		for a, x := range s.fixed {
			p.Arms[a] = append([]float64(nil), x...)
		}
	}
	for a, x := range p.Arms {
		z := dot(x, s.theta)
		p.Means[a] = s.family.Mean(z)
		reward, err := draw(s.family, z, r)
		if err != nil {
			return Person{}, err
		}
		p.Rewards[a] = reward
	}
	return p, nil
}

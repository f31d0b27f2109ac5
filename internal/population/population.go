// Package population provides the people to decide for: the environment that a run of Riffle meets and is valued on.
//
// A [Population] is a finite stream of people in a fixed order, plus people held out, on whom a final policy is valued.
// There are three kinds: the Adult census ([Adult]), a file with the reward of every arm ([File]) and a synthetic
// population with a known parameter ([Synthetic]). All are deterministic in their options and one seed: two passes over
// [Population.People] give the same people with the same rewards. The seed drives the environment only; it never
// reaches a device's randomness or a noise bit.
//
// Every person carries a reward for each arm, so that any policy can be scored on the same people. An algorithm may
// look at the reward of the arm that it played and at no other. The package does not enforce this.
//
// # Regret
//
// The value of an arm for a person is its true mean reward if the population knows it (synthetic populations), and the
// observed reward otherwise (labelled data: the census, files). The regret of a policy is the sum over people of
// the value of the person's best arm minus the value of the arm that was played:
//
//   - synthetic: the pseudo-regret of the bandit literature; the policy that knows the parameter has regret zero;
//   - labelled: the reward missed against the best arm in hindsight. No policy reaches zero, because people with the
//     same arms have different rewards. On the census the regret of a policy is the number of people for whom it was
//     wrong, and even a good fit is wrong for 15.5 % of them. Compare differences, and read the policy's value (its
//     mean reward) too.
package population

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// DefaultHoldout is the share of people that the programs hold out by default.
const DefaultHoldout = 0.2

// Errors of this package. They are wrapped with the value that was refused and what to do about it.
var (
	// ErrOption reports an option outside its range.
	ErrOption = errors.New("population")
	// ErrTooFew reports that a population has fewer people than were asked for.
	ErrTooFew = errors.New("population: too few people")
	// ErrArm reports an arm that a person does not have.
	ErrArm = errors.New("population: no such arm")
	// ErrEmpty reports that there were no people to value a policy on.
	ErrEmpty = errors.New("population: no people to value on")
)

// Person is one person to decide for. The slices belong to the receiver: no later person shares them.
type Person struct {
	// Arms holds the feature vector of each arm, at least one, all of the population's dimension and of l2 norm at most
	// 1 (to rounding).
	Arms [][]float64
	// Rewards holds the reward that each arm would give, in the family's range. Only the played arm's may reach a
	// learner.
	Rewards []float64
	// Means holds the true mean reward of each arm if the population knows it, else nil.
	Means []float64
	// Named are the context and arms that Arms was made of by a schema of features; nil without one.
	Named *decisions.Named
}

// values returns what this person's arms are worth: true means where known, rewards otherwise.
func (p Person) values() []float64 {
	if p.Means != nil {
		return p.Means
	}
	return p.Rewards
}

// Reward returns the reward of playing an arm.
func (p Person) Reward(arm int) (float64, error) {
	if arm < 0 || arm >= len(p.Rewards) {
		return 0, fmt.Errorf("%w: arm %d of a person with %d arms", ErrArm, arm, len(p.Rewards))
	}
	return p.Rewards[arm], nil
}

// Value returns what an arm is worth for scoring: its true mean reward where known, its reward otherwise.
func (p Person) Value(arm int) (float64, error) {
	v := p.values()
	if arm < 0 || arm >= len(v) {
		return 0, fmt.Errorf("%w: arm %d of a person with %d arms", ErrArm, arm, len(v))
	}
	return v[arm], nil
}

// Best returns the value of the person's best arm; 0 for a person without arms.
func (p Person) Best() float64 {
	values := p.values()
	if len(values) == 0 {
		return 0
	}
	return slices.Max(values)
}

// Uniform returns the expected value of an arm drawn uniformly; 0 for a person without arms.
func (p Person) Uniform() float64 {
	v := p.values()
	if len(v) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// Info describes a population.
type Info struct {
	Name      string  // "adult", "synthetic", or the file's name
	People    int     // people to decide for
	HeldOut   int     // people held out
	Dim       int     // dimension of every arm
	Arms      int     // the most arms that a person has
	Family    string  // reward family, a name that family.New knows
	MaxReward float64 // rewards are in [0, MaxReward], or in [-MaxReward, MaxReward] of the family linear
	NormBound float64 // S: the bound on the norm of the parameter that a learner should assume
	// Structure is what was declared of arms: every arm fits it. nil: nothing.
	Structure structure.Structure
	Clipping  Clipping
}

// Clipping counts the arms whose norm was above 1 and that were scaled down to norm 1, over the whole population
// (people held out and people past the requested number of users included).
type Clipping struct {
	Arms   int // arms clipped
	People int // people with at least one clipped arm
}

// Population is a stream of people to decide for, and people held out. Make one with [Adult], [File], [Synthetic] or
// [New].
type Population struct {
	info            Info
	people, holdout iter.Seq2[Person, error]
}

// New makes a population of two sequences that give the same people at every pass. A sequence ends after its first
// error. A nil holdout holds no one out.
func New(info Info, people, holdout iter.Seq2[Person, error]) *Population {
	if holdout == nil {
		holdout = func(func(Person, error) bool) {}
	}
	return &Population{info, people, holdout}
}

// Info describes the population.
func (p *Population) Info() Info { return p.info }

// People yields the Info().People people to decide for, in their order, from the first at each call. A non-nil error
// ends the sequence.
func (p *Population) People() iter.Seq2[Person, error] { return p.people }

// Holdout yields the Info().HeldOut people held out. No run may decide for them.
func (p *Population) Holdout() iter.Seq2[Person, error] { return p.holdout }

// checkShare refuses a holdout share outside [0, 1).
func checkShare(share float64) error {
	if !(share >= 0 && share < 1) {
		return fmt.Errorf("%w: holdout %v is not in [0, 1); %v is the usual share", ErrOption, share, DefaultHoldout)
	}
	return nil
}

// users resolves the requested number of people against those there are; 0 means all.
func users(requested, available int, name string) (int, error) {
	switch {
	case requested < 0:
		return 0, fmt.Errorf("%w: %d users; give a positive number, or 0 for all", ErrOption, requested)
	case available == 0:
		return 0, fmt.Errorf("%w: %s leaves no one to decide for; lower the holdout or give more people", ErrTooFew,
			name)
	case requested > available:
		return 0, fmt.Errorf("%w: %d users requested but %s has %d outside its holdout; ask for fewer users or lower "+
			"the holdout",
			ErrTooFew, requested, name, available)
	case requested == 0:
		return available, nil
	}
	return requested, nil
}

// Package environment holds the populations of experiments: synthetic ones with a known parameter, in which every
// source of difficulty can be set separately, the Adult census, and files of JSON Lines.
//
// A run of an environment is a [population.Population]; package population says what people, arms, rewards and regret
// are. The run is a function of the Spec, a seed and a number of people: algorithms on the same run meet the same
// people with the same luck. Nothing here protects anyone.
package environment

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// ErrSpec wraps every reason to refuse a Spec.
var ErrSpec = errors.New("environment: bad specification")

// The kinds of environments.
const (
	// Ball draws the arms of every person afresh and uniformly from the unit ball, as the public experiments of the GLM
	// bandit literature do. Contexts explore by themselves.
	Ball = "ball"
	// Fixed draws one such arm set for all people, per seed: a learner must explore, and greedy play gets stuck.
	Fixed = "fixed"
	// Changing draws a pool of five times Arms arms, per seed, and gives every person between two and Arms of them.
	Changing = "changing"
	// Rare is the rare direction of "Optimal regret locally private linear contextual bandit": a person's arms are +x
	// and -x, where x is the second of two directions with probability Rarity and the first otherwise. Few people teach
	// the second direction.
	Rare = "rare"
	// TwoPoint is the same paper's pair with the same covariance in which the weak direction decides: every person has
	// the arms (sqrt(1-Rarity), +-sqrt(Rarity)), so that nearly all of an arm's length says nothing about the choice.
	TwoPoint = "two-point"
	// Unit draws arms uniformly from the unit sphere: for every person afresh, or once (Draw).
	Unit = "unit"
	// Biased is the population of the experiments of "Improved rate for locally differentially private linear bandits":
	// the true parameter and every arm are uniform (d-1)-vectors of norm 1/sqrt(2) with 1/sqrt(2) appended, so that
	// means are in [0, 1]. The family is linear and rewards are 0 or 1 unless the Spec says otherwise.
	Biased = "biased"
	// Adversarial is an oblivious adversary's sequence of arm sets, in phases; see its file.
	Adversarial = "adversarial"
	// Options gives every person one context and every option weights of its own: arm k has the context in block k, and
	// the dimension is options times numbers of the context.
	Options = "options"
	// Adult is the census.
	Adult = "adult"
	// Census is the same people with other decisions, of the form of Options.
	Census = "census"
	// File is a file of JSON Lines.
	File = "file"
)

// Draw says whose the arms of Unit and Biased are.
const (
	Redrawn = "redrawn" // each person's own
	Same    = "fixed"   // the same for all people of a seed
)

// The laws of rewards of the linear family, both with the mean <x, theta>.
const (
	Rademacher = "rademacher" // the largest reward or its negative
	Bernoulli  = "bernoulli"  // the largest reward or 0; means must not be negative, so that it is for Biased
)

// Spec describes an environment. A zero field means its default.
type Spec struct {
	Kind      string  `json:"kind"`
	Dimension int     `json:"dimension,omitempty"`  // default 5; 2 for Rare and TwoPoint
	Arms      int     `json:"arms,omitempty"`       // K, default 10; 2 for Rare and TwoPoint; 100 for Biased
	Norm      float64 `json:"norm,omitempty"`       // of the true parameter, default 3; 1 if linear, its most
	Bound     float64 `json:"bound,omitempty"`      // S, the bound that learners are told; default Norm
	Family    string  `json:"family,omitempty"`     // default logistic; linear for Biased
	MaxReward float64 `json:"max_reward,omitempty"` // default 1
	// Parameter fixes the true parameter, and Norm with it; default: uniform on the sphere of radius Norm, per seed.
	Parameter []float64 `json:"parameter,omitempty"`
	// Table, if not 0, is the seed of the arms of every run: runs then differ in rewards only.
	Table uint64 `json:"table,omitempty"`
	// Scales multiplies the arms' coordinates of Ball, Fixed and Changing, each in (0, 1]: ill-conditioned contexts.
	Scales []float64 `json:"scales,omitempty"`
	Rarity float64   `json:"rarity,omitempty"` // of Rare and TwoPoint, in (0, 1); default 1/sqrt(people)
	Draw   string    `json:"draw,omitempty"`   // of Unit and Biased: redrawn (default) or fixed
	Noise  string    `json:"noise,omitempty"`  // of the linear family: rademacher (default), bernoulli (of Biased)
	Phases int       `json:"phases,omitempty"` // of Adversarial, default Dimension
	Map    string    `json:"map,omitempty"`    // of Adult: b7 (default) or block
	Path   string    `json:"path,omitempty"`   // of File
	// Options and Context declare how the arms of a File are made: an arm has Context numbers for each of Options
	// options, and zeros for all but one. Both or neither. In kind Options the declared are Arms options.
	Options int `json:"options,omitempty"`
	Context int `json:"context,omitempty"` // the constant among them; default 5 in kind Options
	// Holdout is the share held out of a File. Of Adult the original test file is held out, always.
	Holdout float64 `json:"holdout,omitempty"`
	// Change is how the world changes during the run; nil: not at all. Of Fixed arms, the new ones are the best and the
	// withdrawn ones the next best.
	Change *world.Change `json:"change,omitempty"`
	// Of kind Options: the law of contexts; what rewards depend on; what the options' scores differ by whatever the
	// context, in an order of the seed; and the standard deviation of rewards of the families linear and gaussian,
	// which are clipped to their range. Norm is that of each option's weights.
	Law      string    `json:"law,omitempty"`      // normal (default), heavy, correlated or useless
	Truth    string    `json:"truth,omitempty"`    // model (default), classes, separable, misfit, skewed or grades
	Offsets  []float64 `json:"offsets,omitempty"`  // default 0
	Spread   float64   `json:"spread,omitempty"`   // above 0
	Decision string    `json:"decision,omitempty"` // of Census
	// Test is how many people a synthetic environment that does not change over time holds out.
	Test int `json:"test,omitempty"`
	// People, if not 0, is how many an experiment has decide here, whatever its horizons are.
	People int `json:"people,omitempty"`
}

// Environment is one run of a Spec.
type Environment struct {
	*population.Population
	Family family.Family
	Theta  []float64 // the true parameter; nil if there is none
}

// Resolve checks the specification and fills its defaults in. Errors wrap ErrSpec.
func (s Spec) Resolve() (Spec, error) {
	kinds := []string{Ball, Fixed, Changing, Rare, TwoPoint, Unit, Biased, Adversarial, LowerBound, Options, Adult,
		Census, File}
	if !slices.Contains(kinds, s.Kind) {
		return s, fmt.Errorf("%w: kind %q is none of %s", ErrSpec, s.Kind, strings.Join(kinds, ", "))
	}
	if err := s.checkDecision(); err != nil {
		return s, err
	}
	s, err := s.resolveOptions()
	if err != nil {
		return s, err
	}
	if s.Kind == Adult || s.Kind == Census || s.Kind == File {
		if s.Change != nil {
			return s, fmt.Errorf("%w: environments of kind %q do not change", ErrSpec, s.Kind)
		}
		if s.Kind == File && s.Path == "" {
			return s, fmt.Errorf("%w: a file needs a path", ErrSpec)
		}
		return s, s.declared()
	}
	if s.Options != 0 || s.Context != 0 && s.Kind != Options {
		return s, fmt.Errorf("%w: options and context are declared of kind %s", ErrSpec, File)
	}
	dimension, arms := 5, 10
	switch {
	case s.pair():
		dimension, arms = 2, 2
	case s.Kind == LowerBound:
		arms = 2
	case s.Kind == Biased:
		arms, s.Family = 100, cmp.Or(s.Family, family.NameLinear)
	}
	if s.Parameter != nil {
		s.Dimension = cmp.Or(s.Dimension, len(s.Parameter))
		s.Norm = math.Sqrt(population.Dot(s.Parameter, s.Parameter))
	}
	s.Dimension, s.Arms = cmp.Or(s.Dimension, dimension), cmp.Or(s.Arms, arms)
	s.Family, s.MaxReward = cmp.Or(s.Family, family.NameLogistic), cmp.Or(s.MaxReward, 1)
	if s.Family == family.NameLinear {
		s.Norm = cmp.Or(s.Norm, s.MaxReward)
		if s.Kind == Biased {
			s.Noise = cmp.Or(s.Noise, Bernoulli)
		}
		s.Noise = cmp.Or(s.Noise, Rademacher)
	}
	if s.Kind == Unit || s.Kind == Biased {
		s.Draw = cmp.Or(s.Draw, Redrawn)
	}
	if s.Kind == Adversarial {
		s.Phases = cmp.Or(s.Phases, s.Dimension)
	}
	s.Norm = cmp.Or(s.Norm, 3)
	s.Bound = cmp.Or(s.Bound, s.Norm)
	if _, err := family.New(s.Family, s.MaxReward); err != nil {
		return s, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	switch {
	case s.pair() && (s.Dimension != 2 || s.Arms != 2):
		return s, fmt.Errorf("%w: %s has dimension 2 and 2 arms, not %d and %d", ErrSpec, s.Kind, s.Dimension, s.Arms)
	case s.Dimension < 1 || s.Dimension > glm.MaxDimension || s.Arms < 2:
		return s, fmt.Errorf("%w: dimension %d must be in [1, %d], arms %d at least 2", ErrSpec, s.Dimension,
			glm.MaxDimension, s.Arms)
	case !(s.Norm > 0) || math.IsInf(s.Norm, 0) || !(s.Bound > 0) || math.IsInf(s.Bound, 0):
		return s, fmt.Errorf("%w: norm %v and bound %v must be positive", ErrSpec, s.Norm, s.Bound)
	case s.Parameter != nil && len(s.Parameter) != s.Dimension, s.Scales != nil && len(s.Scales) != s.Dimension:
		return s, fmt.Errorf("%w: parameter and scales need %d numbers", ErrSpec, s.Dimension)
	case !(s.Rarity >= 0 && s.Rarity < 1):
		return s, fmt.Errorf("%w: rarity %v must be in (0, 1)", ErrSpec, s.Rarity)
	}
	if s, err = s.changes(); err != nil {
		return s, err
	}
	if err := s.laws(); err != nil {
		return s, err
	}
	for _, v := range s.Scales {
		if !(v > 0 && v <= 1) {
			return s, fmt.Errorf("%w: scale %v must be in (0, 1]", ErrSpec, v)
		}
	}
	return s, nil
}

// declared refuses options and context that mean nothing.
func (s Spec) declared() error {
	given := s.Options != 0 || s.Context != 0
	if given && (s.Kind != File || s.Options < 2 || s.Context < 1 || s.Options > glm.MaxDimension ||
		s.Context > glm.MaxDimension/s.Options) {
		return fmt.Errorf("%w: %d options of %d numbers: declared are, of kind %s, at least 2 of at least 1 and at "+
			"most %d in all", ErrSpec, s.Options, s.Context, File, glm.MaxDimension)
	}
	return nil
}

// laws refuses what does not fit the kind or the family.
func (s Spec) laws() error {
	linear := s.Family == family.NameLinear
	switch {
	case s.Kind == LowerBound && (s.Arms != 2 || s.Family != family.NameLogistic && s.Family != family.NameProbit):
		return fmt.Errorf("%w: kind %s has 2 arms and rewards of 0 and 1, logistic or probit", ErrSpec, LowerBound)
	case s.Test < 0 || s.Test > 0 && (s.Change != nil || s.Kind == Adversarial || s.Kind == LowerBound):
		return fmt.Errorf("%w: test %d is for environments whose people are all alike", ErrSpec, s.Test)
	case linear && s.Kind != Options && s.Norm > s.MaxReward*(1+1e-12):
		return fmt.Errorf("%w: a linear mean of a parameter of norm %v leaves [-%v, %v]", ErrSpec, s.Norm, s.MaxReward,
			s.MaxReward)
	case s.Noise != "" && (!linear || s.Noise != Rademacher && s.Noise != Bernoulli):
		return fmt.Errorf("%w: noise %q is for the linear family, %s or %s", ErrSpec, s.Noise, Rademacher, Bernoulli)
	case s.Noise == Bernoulli && s.Kind != Biased:
		return fmt.Errorf("%w: rewards of 0 and 1 need means above 0, as kind %s has them", ErrSpec, Biased)
	case s.Noise == Bernoulli && s.Parameter != nil && s.Parameter[s.Dimension-1] < s.Norm*(math.Sqrt2/2-1e-9):
		return fmt.Errorf("%w: rewards of 0 and 1 need a parameter whose last coordinate is 1/sqrt(2) of its norm",
			ErrSpec)
	case s.Draw != "" && (s.Kind != Unit && s.Kind != Biased || s.Draw != Redrawn && s.Draw != Same):
		return fmt.Errorf("%w: draw %q is for kinds %s and %s, %s or %s", ErrSpec, s.Draw, Unit, Biased, Redrawn, Same)
	case s.Kind == Biased && s.Dimension < 2:
		return fmt.Errorf("%w: kind %s needs at least 2 dimensions", ErrSpec, Biased)
	case s.Phases < 0 || s.Phases > 0 && s.Kind != Adversarial:
		return fmt.Errorf("%w: phases %d are for kind %s", ErrSpec, s.Phases, Adversarial)
	}
	return nil
}

func (s Spec) pair() bool { return s.Kind == Rare || s.Kind == TwoPoint }

// Label is a short name of the specification for tables.
func (s Spec) Label() string {
	r, err := s.Resolve()
	switch {
	case err != nil:
		return s.Kind
	case r.Kind == Adult:
		return "adult " + cmp.Or(r.Map, string(population.MapB7))
	case r.Kind == Census:
		return "census " + r.Decision
	case r.Kind == File:
		return r.Path
	}
	label := fmt.Sprintf("%s %s d=%d K=%d S=%.3g", r.Kind, r.Family, r.Dimension, r.Arms, r.Norm)
	if r.Draw == Same {
		label += " fixed"
	}
	if r.Scales != nil {
		label += " scaled"
	}
	if r.Kind == Options {
		label += " " + r.Law + " " + r.Truth
	}
	if r.Change != nil {
		label += ", " + r.Change.Kind
	}
	return label
}

// Open makes the run of a seed with the given number of people to decide for; 0 means all people of Adult or File.
func (s Spec) Open(seed uint64, people int) (*Environment, error) {
	s, err := s.Resolve()
	if err != nil {
		return nil, err
	}
	var p *population.Population
	switch s.Kind {
	case Adult:
		p, err = population.Adult(population.AdultOptions{Users: people, Seed: seed, Map: population.FeatureMap(s.Map),
			TestHoldout: true})
	case Census:
		p, err = s.census(seed, people)
	case File:
		p, err = population.File(s.Path, population.FileOptions{Users: people, Seed: seed, Holdout: s.Holdout,
			Family: s.Family, MaxReward: s.MaxReward, NormBound: s.Bound,
			Structure: structure.Options(s.Options, s.Context)})
	default:
		return s.synthetic(seed, people)
	}
	if err != nil {
		return nil, err
	}
	family, err := family.New(p.Info().Family, p.Info().MaxReward)
	return &Environment{Population: p, Family: family}, err
}

// Kappa is the largest 1/mu' over all arms of all people at the true parameter. Only an oracle knows it, but the
// published experiments give it to their algorithms. Without a true parameter it is learner.KappaBound.
func (e *Environment) Kappa() (float64, error) {
	if e.Theta == nil {
		return learner.KappaBound(e.Family, e.Info().NormBound), nil
	}
	kappa := 0.0
	for p, err := range e.People() {
		if err != nil {
			return 0, err
		}
		for _, x := range p.Arms {
			kappa = max(kappa, 1/e.Family.Variance(population.Dot(x, e.Theta)))
		}
	}
	return kappa, nil
}

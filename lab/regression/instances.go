package regression

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// The kinds of data. The papers are "Near-optimal private learning in linear contextual bandits" (near-optimal) and
// "Optimal regret locally private linear contextual bandit" (optimal).
const (
	// CaseI has contexts e1, and e2 for a share q = Amplitude/sqrt(people): a direction so rare that nobody needs it.
	CaseI = "case-i"
	// CaseII has contexts (First, +-s), s = Amplitude/people^(1/4): nearly the same second moments, but everybody needs
	// the weak direction. Both cases are section 3 of near-optimal and section 2.3 of optimal.
	CaseII = "case-ii"
	// RareDirection is the lower bound of Theorem 1 of optimal: e2 for a share c/sqrt(people), c = 1/(4 sqrt(2)
	// (e^epsilon - 1)), and theta is 0 or e2 by Hypothesis. Squared errors cannot be small on both.
	RareDirection = "rare-direction"
	// SmallAmplitude is that of its Theorem 2: contexts (1/2, +-Amplitude/people^(1/3)), exact rewards, and theta (1/2,
	// 0) or (1/2, 1/2) by Hypothesis.
	SmallAmplitude = "small-amplitude"
	// Directions has eight directions of the plane, equally often.
	Directions = "directions"
	// Isotropic draws every context from the unit sphere, with Scales on its axes.
	Isotropic = "isotropic"
	// Scaled has 300 unit vectors, drawn once, with axis scales 1, 1/2, 1/5, 1/10 and 1/20 unless given.
	Scaled = "scaled"
	// HighDimensional has the context e_i for a share proportional to i^-1.5, and a parameter that decays alike.
	HighDimensional = "high-dimensional"
	// RareOne is the lower bound of Proposition 3.1 of near-optimal: one dimension, the context 1 for a share Rarity
	// and else 0.
	RareOne = "rare-one"
	// OneContext is that of its Proposition 6.1: the only context is theta, a point of the unit sphere, and the reward
	// 1. Models of a short parameter need as many people as there are dimensions.
	OneContext = "one-context"
	// Adult is the census: does someone earn more than 50,000 dollars (1) or not (-1)?
	Adult = "adult"
	// File is a file of CSV or JSON Lines.
	File = "file"
)

var dataKinds = []string{CaseI, CaseII, RareDirection, SmallAmplitude, Directions, Isotropic, Scaled, HighDimensional,
	RareOne, OneContext, Adult, File}

// Spec describes data. A zero field means its default.
type Spec struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"` // for tables; default: the kind and what was set
	// Dimension is free for Isotropic (5), HighDimensional (1000) and OneContext (100).
	Dimension int       `json:"dimension,omitempty"`
	Theta     []float64 `json:"theta,omitempty"` // the true parameter, where the kind does not set it
	Law       string    `json:"law,omitempty"`   // rademacher (default, but for SmallAmplitude and OneContext) or exact
	// Amplitude is the constant before the power of the number of people: of CaseI (4), CaseII (2), SmallAmplitude
	// (.07).
	Amplitude float64 `json:"amplitude,omitempty"`
	First     float64 `json:"first,omitempty"` // coordinate of CaseII (.9)
	// Divide says that these powers are of people/Divide: estimators of several phases are published with the people of
	// one phase.
	Divide     float64   `json:"divide,omitempty"`
	Rarity     float64   `json:"rarity,omitempty"`     // of RareOne (.01)
	Hypothesis int       `json:"hypothesis,omitempty"` // 0 or 1
	Scales     []float64 `json:"scales,omitempty"`     // in (0, 1]
	Decay      float64   `json:"decay,omitempty"`      // of the parameter of HighDimensional: theta_i ~ i^-Decay (1)
	Map        string    `json:"map,omitempty"`        // of Adult: b7 (default) or block
	Path       string    `json:"path,omitempty"`       // of File
	Target     string    `json:"target,omitempty"`     // of File: the column of the reward; default "reward"
	// Low and High are the public range of the target of a File, which is mapped to [-1, 1]; default -1 and 1.
	Low     float64 `json:"low,omitempty"`
	High    float64 `json:"high,omitempty"`
	Holdout float64 `json:"holdout,omitempty"` // share of Adult and File that models are scored on; default 0.2
}

// Label names the data in tables.
func (s Spec) Label() string {
	if s.Name != "" {
		return s.Name
	}
	parts := []string{s.Kind}
	if s.Dimension > 0 {
		parts = append(parts, fmt.Sprintf("d=%d", s.Dimension))
	}
	if s.Amplitude > 0 {
		parts = append(parts, fmt.Sprintf("c=%g", s.Amplitude))
	}
	if s.Kind == RareDirection || s.Kind == SmallAmplitude && s.Theta == nil {
		parts = append(parts, fmt.Sprintf("H%d", s.Hypothesis))
	}
	if s.Kind == File {
		parts = append(parts, s.Path)
	}
	return strings.Join(parts, " ")
}

// Check refuses a specification that no number of people can have.
func (s Spec) Check() error {
	if !slices.Contains(dataKinds, s.Kind) {
		return fmt.Errorf("%w: kind %q is none of %s", ErrData, s.Kind, strings.Join(dataKinds, ", "))
	}
	if s.Law != "" && s.Law != Rademacher && s.Law != Exact {
		return fmt.Errorf("%w: law %q is neither %s nor %s", ErrData, s.Law, Rademacher, Exact)
	}
	d := s.dimension()
	switch {
	case d < 0 || d > 100000:
		return fmt.Errorf("%w: dimension %d must be in [1, 100000]", ErrData, d)
	case s.Kind == File && s.Path == "":
		return fmt.Errorf("%w: a file needs a path", ErrData)
	case s.Theta != nil && (len(s.Theta) != d || !(norm(s.Theta) <= 1+1e-9)):
		return fmt.Errorf("%w: theta %v must have %d coordinates and norm at most 1", ErrData, s.Theta, d)
	case s.Hypothesis != 0 && s.Hypothesis != 1:
		return fmt.Errorf("%w: hypothesis %d is neither 0 nor 1", ErrData, s.Hypothesis)
	case !(s.Rarity >= 0 && s.Rarity < 1) || !(s.Holdout >= 0 && s.Holdout < 1):
		return fmt.Errorf("%w: rarity %v and holdout %v must be in [0, 1)", ErrData, s.Rarity, s.Holdout)
	case !(s.Amplitude >= 0) || !(s.First >= 0 && s.First <= 1) || !(s.Divide >= 0) || !(s.Decay >= 0):
		return fmt.Errorf("%w: amplitude, divide and decay must not be negative, first must be in [0, 1]", ErrData)
	case s.Low > s.High:
		return fmt.Errorf("%w: the range [%v, %v] is empty", ErrData, s.Low, s.High)
	case s.Scales != nil && len(s.Scales) != d:
		return fmt.Errorf("%w: %d scales for %d dimensions", ErrData, len(s.Scales), d)
	}
	for _, v := range s.Scales {
		if !(v > 0 && v <= 1) {
			return fmt.Errorf("%w: scale %v must be in (0, 1]", ErrData, v)
		}
	}
	return nil
}

// dimension is that of the data; 0 where a file says it.
func (s Spec) dimension() int {
	switch s.Kind {
	case CaseI, CaseII, RareDirection, SmallAmplitude, Directions:
		return 2
	case Isotropic, Scaled:
		return cmp.Or(s.Dimension, 5)
	case HighDimensional:
		return cmp.Or(s.Dimension, 1000)
	case OneContext:
		return cmp.Or(s.Dimension, 100)
	case RareOne:
		return 1
	}
	return 0
}

// Open makes the data of a seed for so many people (0: all of Adult or a File). The epsilon is for RareDirection, whose
// contexts depend on it.
func (s Spec) Open(seed uint64, people int, epsilon float64) (*Data, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	switch {
	case s.Kind == Adult:
		return s.adult(seed, people)
	case s.Kind == File:
		return s.file(seed, people)
	case people < 1:
		return nil, fmt.Errorf("%w: %s needs a number of people", ErrData, s.Kind)
	}
	family, err := family.New(family.NameLinear, 1)
	if err != nil {
		return nil, err
	}
	d := &Data{Name: s.Label(), Dim: s.dimension(), Family: family, Radius: 1, Truth: true}
	law := cmp.Or(s.Law, Rademacher)
	draws := stream(seed, people, 'p')
	if s.Kind == Isotropic {
		theta := s.Theta
		if theta == nil {
			theta = sphere(d.Dim, stream(seed, 0, 't'))
		}
		fill := func(x []float64, rng *rand.Rand) {
			population.Sphere(x, 1, rng)
			for i, v := range s.Scales {
				x[i] *= v
			}
		}
		d.draw = dense(d.Dim, fill, theta, law, draws)
		test := stream(seed, 0, 'e')
		for range scorePeople {
			x := make([]float64, d.Dim)
			fill(x, test)
			d.contexts = append(d.contexts, Point{X: x, Mean: convex.Dot(x, theta), Weight: 1})
		}
		d.shifted = axes(theta)
		return d, nil
	}
	points, theta, own, err := s.points(seed, people, epsilon)
	if err != nil {
		return nil, err
	}
	d.contexts, d.shifted = points, axes(theta)
	d.draw = finite(points, cmp.Or(s.Law, own, Rademacher), draws)
	return d, nil
}

// scorePeople is how many contexts stand for a law that is not finite.
const scorePeople = 4000

// points are the kinds of people of a finite law with the true parameter, and the law of rewards that the kind has.
func (s Spec) points(seed uint64, people int, epsilon float64) (points []Point, theta []float64, law string,
	err error) {
	n := float64(people) / cmp.Or(s.Divide, 1)
	theta = s.Theta
	if theta == nil {
		theta = []float64{.4, .9}
	}
	add := func(weight float64, x ...float64) {
		x = unit(x)
		points = append(points, Point{X: x, Mean: convex.Dot(x, theta), Weight: weight})
	}
	share := func(q float64) error {
		if !(q > 0 && q <= 1) {
			return fmt.Errorf("%w: the share of the rare people of %s is %v with %d people; it must be in (0, 1]",
				ErrData, s.Kind, q, people)
		}
		return nil
	}
	switch s.Kind {
	case CaseI:
		q := cmp.Or(s.Amplitude, 4) / math.Sqrt(n)
		err = share(q)
		add(1-q, 1, 0)
		add(q, 0, 1)
	case CaseII:
		w := cmp.Or(s.Amplitude, 2) / math.Pow(n, .25)
		add(.5, cmp.Or(s.First, .9), w)
		add(.5, cmp.Or(s.First, .9), -w)
	case RareDirection:
		if !(epsilon > 0) {
			epsilon = 1
		}
		q := 1 / (4 * math.Sqrt2 * math.Expm1(epsilon)) / math.Sqrt(n)
		err = share(q)
		theta = []float64{0, float64(s.Hypothesis)}
		add(1-q, 1, 0)
		add(q, 0, 1)
	case SmallAmplitude:
		law = Exact
		if s.Theta == nil {
			theta = []float64{.5, float64(s.Hypothesis) / 2}
		}
		w := cmp.Or(s.Amplitude, .07) / math.Cbrt(n)
		add(.5, .5, w)
		add(.5, .5, -w)
	case Directions:
		for k := range 8 {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) / 8)
			add(1./8, cos, sin)
		}
	case Scaled:
		scales := s.Scales
		if scales == nil && s.dimension() == 5 {
			scales = []float64{1, .5, .2, .1, .05}
		}
		if s.Theta == nil {
			theta = []float64{.3, -.4, .5, .3, .6}
			if s.dimension() != 5 {
				theta = sphere(s.dimension(), stream(seed, 0, 't'))
			}
		}
		rng := stream(scaledTable, 0, 'c')
		for range 300 {
			x := make([]float64, s.dimension())
			population.Sphere(x, 1, rng)
			for i, v := range scales {
				x[i] *= v
			}
			add(1./300, x...)
		}
	case HighDimensional:
		points, theta = s.powers()
	case RareOne:
		if s.Theta == nil {
			theta = []float64{.5}
		}
		q := cmp.Or(s.Rarity, .01)
		add(q, 1)
		add(1-q, 0)
	case OneContext:
		law = Exact
		theta = sphere(s.dimension(), stream(seed, 0, 't'))
		points = []Point{{X: theta, Mean: 1, Weight: 1}}
	}
	return points, theta, law, err
}

// scaledTable is the seed of the contexts of Scaled, which are the same in every run.
const scaledTable = 1

// powers are the contexts and the parameter of HighDimensional.
func (s Spec) powers() ([]Point, []float64) {
	d := s.dimension()
	theta, square, sum := make([]float64, d), 0.0, 0.0
	for i := range theta {
		theta[i] = math.Pow(float64(i+1), -cmp.Or(s.Decay, 1))
		square += theta[i] * theta[i]
		sum += math.Pow(float64(i+1), -1.5)
	}
	for i := range theta {
		theta[i] /= math.Sqrt(square)
	}
	if s.Theta != nil {
		theta = s.Theta
	}
	points := axes(theta)
	for i := range points {
		points[i].Weight = math.Pow(float64(i+1), -1.5) / sum
	}
	return points, theta
}

func sphere(d int, rng *rand.Rand) []float64 {
	x := make([]float64, d)
	population.Sphere(x, 1, rng)
	return x
}

func norm(x []float64) float64 { return math.Sqrt(convex.Dot(x, x)) }

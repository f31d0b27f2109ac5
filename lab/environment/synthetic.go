package environment

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// The streams of random words of a run. Their numbers are part of what a seed means.
const (
	streamParameter = 1
	streamArms      = 2 // arms of people, in order
	streamRewards   = 3
	streamPool      = 4 // arms that are drawn once
	streamChange    = 5
	streamTest      = 6 // arms of people held out
	streamTestLuck  = 7 // their rewards
)

func stream(seed, purpose uint64) *rand.Rand {
	var key [32]byte
	copy(key[:8], "riffle/e")
	binary.LittleEndian.PutUint64(key[8:], seed)
	binary.LittleEndian.PutUint64(key[16:], purpose)
	return rand.New(rand.NewChaCha8(key))
}

// synthetic is a population with a known parameter. drawer returns the arms of the i-th person, from 0.
type synthetic struct {
	spec   Spec
	seed   uint64
	n      int
	theta  []float64
	family family.Family
	coin   bool    // rewards have two values, lowest and the largest
	lowest float64 // of rewards
	drawer func(i int, r *rand.Rand) [][]float64
	moving *moving  // nil: nothing changes
	blocks *options // nil: not of Options
}

func (s Spec) synthetic(seed uint64, people int) (*Environment, error) {
	if people < 1 {
		return nil, fmt.Errorf("%w: a synthetic environment needs a number of people", ErrSpec)
	}
	model, err := family.New(s.Family, s.MaxReward)
	if err != nil {
		return nil, err
	}
	e := &synthetic{spec: s, seed: seed, n: people, family: model, coin: s.Family == family.NameLogistic ||
		s.Family == family.NameProbit || s.Family == family.NameLinear}
	if s.Noise != Bernoulli {
		e.lowest = model.MinReward()
	}
	if s.Kind == Options {
		e.blocks = s.options(stream(seed, streamParameter), model)
		e.theta = e.blocks.theta()
	} else {
		e.theta = s.parameter(stream(seed, streamParameter))
		e.drawer = s.drawer(people, stream(s.table(seed), streamPool))
	}
	if c := s.Change; c != nil {
		e.moving = newMoving(*c, e.theta, stream(seed, streamChange))
		if s.Kind == Fixed && c.Kind == world.Arms { // one set for all, and the best come first
			arms := e.drawer(0, nil)
			slices.SortStableFunc(arms, func(x, y []float64) int {
				return cmp.Compare(population.Dot(y, e.theta), population.Dot(x, e.theta))
			})
		}
	}
	info := population.Info{Name: s.Label(), People: people, HeldOut: s.Test, Dim: s.Dimension, Arms: s.Arms,
		Family: s.Family, MaxReward: s.MaxReward, NormBound: s.Bound}
	if s.Kind == Options {
		info.Structure = structure.Options(s.Arms, s.Context)
	}
	return &Environment{Population: population.New(info, e.people, e.test), Family: model, Theta: e.theta}, nil
}

// drawer is how the arms of the i-th person are drawn. What is drawn once comes from pool.
func (s Spec) drawer(people int, pool *rand.Rand) func(i int, r *rand.Rand) [][]float64 {
	set := s.ball
	if s.Kind == Unit || s.Kind == Biased {
		set = s.sphere
	}
	switch {
	case s.Kind == Fixed || s.Draw == Same:
		arms := set(pool)
		return func(int, *rand.Rand) [][]float64 { return arms }
	case s.Kind == Changing:
		var arms [][]float64
		for range 5 {
			arms = append(arms, s.ball(pool)...)
		}
		return func(_ int, r *rand.Rand) [][]float64 { return some(arms, 2+r.IntN(s.Arms-1), r) }
	case s.pair():
		if s.Rarity == 0 { // about the square root of the people are rare
			s.Rarity = 1 / math.Sqrt(float64(people)+1)
		}
		set = s.pairs()
	case s.Kind == Adversarial:
		return s.adversary(people, pool).draw
	case s.Kind == LowerBound:
		return s.coordinatePair
	}
	return func(_ int, r *rand.Rand) [][]float64 { return set(r) }
}

// table is the seed of the arms.
func (s Spec) table(seed uint64) uint64 {
	if s.Table != 0 {
		return s.Table
	}
	return seed
}

func (s Spec) parameter(r *rand.Rand) []float64 {
	if s.Parameter != nil {
		return s.Parameter
	}
	theta := make([]float64, s.Dimension)
	switch {
	case s.Kind == Biased:
		drawLopsided(theta, s.Norm, r)
		return theta
	case s.Kind == LowerBound:
		s.signs(theta, r)
		return theta
	case !s.pair():
		population.Sphere(theta, s.Norm, r)
		return theta
	}
	// Both directions matter, neither sign is known.
	theta[0], theta[1] = s.Norm*0.6*sign(r), s.Norm*0.8*sign(r)
	return theta
}

func sign(r *rand.Rand) float64 { return float64(2*r.IntN(2) - 1) }

// arms are as many vectors as a person has arms, from draw.
func (s Spec) arms(draw func(x []float64)) [][]float64 {
	arms, memory := make([][]float64, s.Arms), make([]float64, s.Arms*s.Dimension)
	for a := range arms {
		arms[a] = memory[a*s.Dimension : (a+1)*s.Dimension : (a+1)*s.Dimension]
		draw(arms[a])
	}
	return arms
}

// ball draws an arm set from the unit ball, scaled.
func (s Spec) ball(r *rand.Rand) [][]float64 {
	return s.arms(func(x []float64) {
		population.Ball(x, r)
		for j, v := range s.Scales {
			x[j] *= v
		}
	})
}

// sphere draws an arm set of Unit or Biased.
func (s Spec) sphere(r *rand.Rand) [][]float64 {
	return s.arms(func(x []float64) {
		if s.Kind == Biased {
			drawLopsided(x, 1, r)
		} else {
			population.Sphere(x, 1, r)
		}
	})
}

// drawLopsided draws a vector of the given norm whose last coordinate is 1/sqrt(2) of it.
func drawLopsided(x []float64, norm float64, r *rand.Rand) {
	last := len(x) - 1
	population.Sphere(x[:last], norm*math.Sqrt2/2, r)
	x[last] = norm * math.Sqrt2 / 2
}

// some draws a subset without replacement.
func some(arms [][]float64, count int, r *rand.Rand) [][]float64 {
	out := make([][]float64, 0, count)
	for i, x := range arms { // selection sampling
		if r.IntN(len(arms)-i) < count-len(out) {
			out = append(out, x)
		}
	}
	return out
}

func (s Spec) pairs() func(r *rand.Rand) [][]float64 {
	if s.Kind == TwoPoint {
		long, short := math.Sqrt(1-s.Rarity), math.Sqrt(s.Rarity)
		return func(r *rand.Rand) [][]float64 {
			if r.IntN(2) == 0 {
				return [][]float64{{long, short}, {long, -short}}
			}
			return [][]float64{{long, -short}, {long, short}}
		}
	}
	return func(r *rand.Rand) [][]float64 {
		u, v := sign(r), 0.0
		if r.Float64() < s.Rarity {
			u, v = 0, u
		}
		return [][]float64{{u, v}, {-u, -v}}
	}
}

// people yields the run's people, the same at each call.
func (e *synthetic) people(yield func(population.Person, error) bool) {
	e.draw(e.n, stream(e.spec.table(e.seed), streamArms), stream(e.seed, streamRewards), yield)
}

// test yields the people held out.
func (e *synthetic) test(yield func(population.Person, error) bool) {
	e.draw(e.spec.Test, stream(e.spec.table(e.seed), streamTest), stream(e.seed, streamTestLuck), yield)
}

func (e *synthetic) draw(n int, arms, rewards *rand.Rand, yield func(population.Person, error) bool) {
	for i := range n {
		if e.blocks != nil {
			if !yield(e.blocks.person(arms, rewards), nil) {
				return
			}
			continue
		}
		all, theta := e.drawer(i, arms), e.theta
		if e.moving != nil {
			theta, all = e.moving.at(float64(i)/float64(e.n), all)
		}
		if !yield(e.person(all, theta, rewards), nil) {
			return
		}
	}
}

// person draws the rewards. If they have two values, all arms share one draw: the algorithm that plays the better arm
// has the better luck. This makes algorithms comparable on few people and does not change the law of any one
// algorithm's rewards.
func (e *synthetic) person(arms [][]float64, theta []float64, r *rand.Rand) population.Person {
	memory := make([]float64, 2*len(arms))
	p := population.Person{Arms: arms, Means: memory[:len(arms):len(arms)], Rewards: memory[len(arms):]}
	u, top := r.Float64(), e.family.MaxReward()
	for a, x := range arms {
		p.Means[a] = e.family.Mean(population.Dot(x, theta))
		switch {
		case !e.coin:
			model := family.Environment{Family: e.family, Theta: theta}
			p.Rewards[a] = model.Reward(x, r)
		case u*(top-e.lowest) < p.Means[a]-e.lowest:
			p.Rewards[a] = top
		default:
			p.Rewards[a] = e.lowest
		}
	}
	return p
}

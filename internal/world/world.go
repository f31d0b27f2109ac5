// Package world has the people of a deployment's life: they decide day after day, differ from each other and persist,
// and what works for them may change. It says how panels of them go on, too. A world is a function of a seed, so that
// algorithms, and a real deployment that is driven by it, meet the same people with the same luck. It protects no one.
package world

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// Family is the reward family of every world.
const Family = family.NameLogistic

// ErrSetting wraps every reason to refuse a World, a Change or a Setting.
var ErrSetting = errors.New("world: bad setting")

// World describes people and days. A zero field means its default.
//
// Rewards are 0 or 1, logistic in the product of an arm's vector and the true parameter. A person's vector of an arm is
//
//	sqrt(0.2) of the arm's own + sqrt(0.5) of the person's for this arm + sqrt(0.3) of the occasion's,
//
// each part Gaussian with variance 1/d per coordinate, and scaled down to norm 1 where it is longer: what works differs
// more between people than between arms, and from day to day.
type World struct {
	People    int     `json:"people"`    // default 3000
	Days      int     `json:"days"`      // default 60
	Dimension int     `json:"dimension"` // d, default 5
	Arms      int     `json:"arms"`      // default 5; arm 0 is the default arm
	Norm      float64 `json:"norm"`      // of the true parameter, which the learner is told as its bound; default 3
	// Rate is the mean number of decisions of a person in a day, default 1. A person's own rate is Gamma with shape 4
	// around it, so that half of them lie between 0.63 and 1.28 of it, and the number in a day is Poisson.
	Rate   float64 `json:"rate"`
	Change *Change `json:"change,omitempty"` // nil: nothing changes
}

// Resolve checks the world and fills its defaults in. Errors wrap ErrSetting.
func (w World) Resolve() (World, error) {
	w.People, w.Days = cmp.Or(w.People, 3000), cmp.Or(w.Days, 60)
	w.Dimension, w.Arms = cmp.Or(w.Dimension, 5), cmp.Or(w.Arms, 5)
	w.Norm, w.Rate = cmp.Or(w.Norm, 3), cmp.Or(w.Rate, 1)
	switch {
	case w.People < 100 || w.People > 1e7 || w.Days < 2 || w.Days > 10_000:
		return w, fmt.Errorf("%w: %d people must be in [100, 10^7], %d days in [2, 10000]", ErrSetting, w.People,
			w.Days)
	case w.Dimension < 1 || w.Dimension > glm.MaxDimension || w.Arms < 2:
		return w, fmt.Errorf("%w: dimension %d must be in [1, %d], arms %d at least 2", ErrSetting, w.Dimension,
			glm.MaxDimension, w.Arms)
	case !(w.Norm > 0 && w.Norm <= statistic.MaxParameterNorm) || !(w.Rate > 0 && w.Rate <= 100):
		return w, fmt.Errorf("%w: norm %v must be in (0, %v], rate %v in (0, 100]", ErrSetting, w.Norm,
			statistic.MaxParameterNorm, w.Rate)
	}
	if w.Change != nil {
		c, err := w.Change.Resolve(w.Dimension, w.Arms-1) // the default arm stays
		if err != nil {
			return w, fmt.Errorf("%w: %w", ErrSetting, err)
		}
		w.Change = &c
	}
	return w, nil
}

// ChangeDay is the day from 0 on which the world has changed at once; 0 if it never does.
func (w World) ChangeDay() int { return int(math.Ceil(w.Change.AtOnce() * float64(w.Days))) }

// The streams of random words of a world. Their numbers are part of what a seed means.
const (
	streamParameter = 1
	streamChange    = 2
	streamPeople    = 3
	streamDays      = 1 << 32 // and the number of the day
)

func stream(seed, purpose uint64) *rand.Rand {
	var key [32]byte
	copy(key[:8], "riffle/l")
	binary.LittleEndian.PutUint64(key[8:], seed)
	binary.LittleEndian.PutUint64(key[16:], purpose)
	return rand.New(rand.NewChaCha8(key))
}

// People are a world with its people. Every mode of a seed meets the same ones, on the same days, with the same luck.
type People struct {
	World
	seed    uint64
	family  family.Family
	theta   []float64 // the true parameter at the beginning
	towards []float64 // where it turns to
	rates   []float64
	own     []float64 // of person i, arm a: own[(i*Arms+a)*Dimension:]; the arm's own part is in it
}

// The shares of a vector's variance.
const (
	armShare      = 0.2
	personShare   = 0.5
	occasionShare = 0.3
)

// NewPeople makes the people of a resolved world from a seed.
func NewPeople(w World, seed uint64) (*People, error) {
	family, err := family.New(Family, 1)
	if err != nil {
		return nil, err
	}
	d := w.Dimension
	p := &People{World: w, seed: seed, family: family, theta: make([]float64, d), rates: make([]float64, w.People),
		own: make([]float64, w.People*w.Arms*d)}
	population.Sphere(p.theta, w.Norm, stream(seed, streamParameter))
	if c := w.Change; c != nil && c.Kind != Arms {
		p.towards = Orthogonal(p.theta, stream(seed, streamChange))
	}
	r := stream(seed, streamPeople)
	arms := make([]float64, w.Arms*d)
	for j := range arms {
		arms[j] = math.Sqrt(armShare/float64(d)) * r.NormFloat64()
	}
	rate := distuv.Gamma{Alpha: 4, Beta: 4 / w.Rate, Src: r}
	for i := range p.rates {
		p.rates[i] = rate.Rand()
		for j, v := range arms {
			p.own[i*len(arms)+j] = v + math.Sqrt(personShare/float64(d))*r.NormFloat64()
		}
	}
	return p, nil
}

// Occasion is one decision to make. Arm 0 is the default arm.
type Occasion struct {
	Person int
	Arms   [][]float64
	Means  []float64 // expected reward of each arm
	luck   float64   // in [0, 1): the reward of an arm is 1 if its mean exceeds this
}

// Best is the largest expected reward of an arm.
func (o Occasion) Best() float64 { return slices.Max(o.Means) }

// Reward is what the person gets from an arm: 0 or 1.
func (o Occasion) Reward(arm int) float64 {
	if o.luck < o.Means[arm] {
		return 1
	}
	return 0
}

// Day are the occasions of a day from 0, in a random order.
func (p *People) Day(day int) []Occasion {
	share := float64(day) / float64(p.Days)
	theta := append([]float64(nil), p.theta...)
	if p.towards != nil {
		Turned(theta, p.theta, p.towards, p.Change.Angle(share))
	}
	var out []Occasion
	r := stream(p.seed, streamDays+uint64(day))
	fresh := math.Sqrt(occasionShare / float64(p.Dimension))
	for i, rate := range p.rates {
		for range int(distuv.Poisson{Lambda: rate, Src: r}.Rand()) {
			o := Occasion{Person: i, luck: r.Float64()}
			memory := make([]float64, p.Arms*p.Dimension)
			for j, v := range p.own[i*len(memory) : (i+1)*len(memory)] {
				memory[j] = v + fresh*r.NormFloat64()
			}
			for a := range p.Arms {
				x := memory[a*p.Dimension : (a+1)*p.Dimension : (a+1)*p.Dimension]
				x, _ = convex.ToUnitBall(x)
				o.Arms = append(o.Arms, x)
			}
			if p.Change != nil { // the default arm stays
				o.Arms = append(o.Arms[:1:1], p.Change.Offered(o.Arms[1:], share)...)
			}
			for _, x := range o.Arms {
				o.Means = append(o.Means, p.family.Mean(population.Dot(x, theta)))
			}
			out = append(out, o)
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

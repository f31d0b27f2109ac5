// Package life simulates the life of a deployment in one process: the same people decide day after day, differ from each
// other and persist, and the world may change. It compares ways to form cohorts at the same guarantee for a person: one
// record a person as people arrive, and panels with several decisions in a report and several reports a person. Policies,
// learner, statistics, plans, encodings, noise and the draw of panels are those of a deployment; there is no transport.
// A simulation draws its noise from seeded generators: it protects no one.
package life

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/internal/lab/environment"
	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// ErrLife wraps every reason to refuse a World or a Setting.
var ErrLife = errors.New("life: bad setting")

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
	Rate   float64             `json:"rate"`
	Change *environment.Change `json:"change,omitempty"` // nil: nothing changes
}

// Resolve checks the world and fills its defaults in. Errors wrap ErrLife.
func (w World) Resolve() (World, error) {
	w.People, w.Days = cmp.Or(w.People, 3000), cmp.Or(w.Days, 60)
	w.Dimension, w.Arms = cmp.Or(w.Dimension, 5), cmp.Or(w.Arms, 5)
	w.Norm, w.Rate = cmp.Or(w.Norm, 3), cmp.Or(w.Rate, 1)
	switch {
	case w.People < 100 || w.People > 1e7 || w.Days < 2 || w.Days > 10_000:
		return w, fmt.Errorf("%w: %d people must be in [100, 10^7], %d days in [2, 10000]", ErrLife, w.People, w.Days)
	case w.Dimension < 1 || w.Dimension > glm.MaxDimension || w.Arms < 2:
		return w, fmt.Errorf("%w: dimension %d must be in [1, %d], arms %d at least 2", ErrLife, w.Dimension,
			glm.MaxDimension, w.Arms)
	case !(w.Norm > 0 && w.Norm <= glm.MaxParameterNorm) || !(w.Rate > 0 && w.Rate <= 100):
		return w, fmt.Errorf("%w: norm %v must be in (0, %v], rate %v in (0, 100]", ErrLife, w.Norm,
			glm.MaxParameterNorm, w.Rate)
	}
	if w.Change != nil {
		c, err := w.Change.Resolve(w.Dimension, w.Arms-1) // the default arm stays
		if err != nil {
			return w, fmt.Errorf("%w: %w", ErrLife, err)
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

// people are a world with its people. Every mode of a seed meets the same ones, on the same days, with the same luck.
type people struct {
	World
	seed    uint64
	family  glm.Family
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

func newPeople(w World, seed uint64) (*people, error) {
	family, err := glm.NewFamily(glm.FamilyLogistic, 1)
	if err != nil {
		return nil, err
	}
	d := w.Dimension
	p := &people{World: w, seed: seed, family: family, theta: make([]float64, d), rates: make([]float64, w.People),
		own: make([]float64, w.People*w.Arms*d)}
	population.Sphere(p.theta, w.Norm, stream(seed, streamParameter))
	if c := w.Change; c != nil && c.Kind != environment.Arms {
		p.towards = environment.Orthogonal(p.theta, stream(seed, streamChange))
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

// occasion is one decision to make.
type occasion struct {
	person int
	arms   [][]float64
	means  []float64 // expected reward of each arm
	luck   float64   // in [0, 1): the reward of an arm is 1 if its mean exceeds this
}

func (o occasion) best() float64 {
	best := o.means[0]
	for _, m := range o.means[1:] {
		best = max(best, m)
	}
	return best
}

func (o occasion) reward(arm int) float64 {
	if o.luck < o.means[arm] {
		return 1
	}
	return 0
}

// day are the occasions of a day, in a random order. They are valid until the next call.
func (p *people) day(day int) []occasion {
	share := float64(day) / float64(p.Days)
	theta := append([]float64(nil), p.theta...)
	if p.towards != nil {
		environment.Turned(theta, p.theta, p.towards, p.Change.Angle(share))
	}
	var out []occasion
	r := stream(p.seed, streamDays+uint64(day))
	fresh := math.Sqrt(occasionShare / float64(p.Dimension))
	for i, rate := range p.rates {
		for range int(distuv.Poisson{Lambda: rate, Src: r}.Rand()) {
			o := occasion{person: i, luck: r.Float64()}
			memory := make([]float64, p.Arms*p.Dimension)
			for j, v := range p.own[i*len(memory) : (i+1)*len(memory)] {
				memory[j] = v + fresh*r.NormFloat64()
			}
			for a := range p.Arms {
				x := memory[a*p.Dimension : (a+1)*p.Dimension : (a+1)*p.Dimension]
				x, _ = convex.ToUnitBall(x)
				o.arms = append(o.arms, x)
			}
			if p.Change != nil { // the default arm stays
				o.arms = append(o.arms[:1:1], p.Change.Offered(o.arms[1:], share)...)
			}
			for _, x := range o.arms {
				o.means = append(o.means, p.family.Mean(population.Dot(x, theta)))
			}
			out = append(out, o)
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

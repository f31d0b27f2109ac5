package predict

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// Assumed is people who are assumed. A person's context is (z, 1)/|(z, 1)|, where the numbers of z are independent and
// normal with a variance of 1/2 together: among records of people that were made into contexts, one number says little
// and the constant is most of the length. Every option has weights for the context, drawn from a normal law and centred
// over the options; those of the constant are such that half of what separates options is the same for everybody, or
// less where the effect is out of reach otherwise. Without a context every option has such a vector of its own, drawn
// anew for each person, and all options share one vector of weights. All weights are scaled until the effect is the one
// that is asked for, and rewards follow the family. Each run draws weights of its own.
type Assumed struct {
	Family  family.Family
	Options int // K, at least 2
	// Context is P, the numbers of a context: the dimension is K P. 0: every option has vectors of Dimension numbers.
	Context   int
	Dimension int
	// Effect is by how much the mean reward of the option that is best for a person exceeds that of the best constant
	// option, on average over people, in units of the reward.
	Effect float64
	// Baseline is the mean reward of the best constant option; nil: what follows if a score of 0 is the middle.
	Baseline *float64
}

// Check refuses what is out of range (ErrOptions). Whether the effect is possible, only Run finds.
func (a Assumed) Check() error {
	f := a.Family
	switch {
	case a.Options < 2:
		return fmt.Errorf("%w: %d options: with fewer than 2 there is nothing to choose", ErrOptions, a.Options)
	case a.Context < 0 || a.Dimension < 1 || a.Context > 0 && a.Dimension != a.Options*a.Context:
		return fmt.Errorf("%w: %d options with a context of %d in %d dimensions: the dimension must be their product",
			ErrOptions, a.Options, a.Context, a.Dimension)
	case !(a.Effect > 0 && a.Effect < family.RewardSpan(f)):
		return fmt.Errorf("%w: an effect of %g must be above 0 and below %g, the span of rewards", ErrOptions,
			a.Effect, family.RewardSpan(f))
	case a.Baseline != nil && !(*a.Baseline > f.MinReward() && *a.Baseline < f.MaxReward()):
		return fmt.Errorf("%w: a baseline of %g must be between %g and %g, as rewards are", ErrOptions, *a.Baseline,
			f.MinReward(), f.MaxReward())
	}
	return nil
}

const (
	// calibrationPeople set the size of the weights of one run: an effect of .1 is met to some .005.
	calibrationPeople = 600
	halvings          = 16 // of the interval in which a scale or a shift is sought
	// mostScale bounds the standard deviation of a weight, and mostShift what is added to all options alike.
	mostScale = 12.0
	mostShift = 64.0
	mostDraws = 12 // of weights, for one run
)

// common is how large the weights of the constant are beside those of the other numbers, in the order in which they are
// tried: the first makes half of what separates options the same for everybody, the last nothing.
var common = []float64{math.Sqrt2 / 2, math.Sqrt2 / 4, 0}

// world implements Source.
func (a Assumed) world(run int) (*world, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	r := rand.New(stream(uint64(run), streamModel))
	largest := 0.0
	for i := range mostDraws {
		c := a.calibration(r, common[i*len(common)/mostDraws])
		scale, shift, reached := c.solve(a.Effect)
		if largest = max(largest, reached); reached < a.Effect {
			continue
		}
		w := &world{model: family.Environment{Family: a.Family, Theta: c.theta(scale, shift)}, draw: a.draw}
		if _, w.constant = c.constant(scale, shift); a.Context == 0 {
			w.constant = -1
		}
		w.norm = convex.Norm(w.model.Theta)
		return w, nil
	}
	return nil, fmt.Errorf("%w: %g; with these options, numbers and baseline at most about %.2g is possible",
		ErrEffect, a.Effect, largest)
}

// draw is the options of one person.
func (a Assumed) draw(r *rand.Rand) [][]float64 {
	arms := make([][]float64, a.Options)
	if a.Context == 0 {
		for i := range arms {
			arms[i] = situation(make([]float64, a.Dimension), r)
		}
		return arms
	}
	all := make([]float64, a.Options*a.Dimension)
	x := situation(all[:a.Context:a.Context], r) // where the first option has it
	for i := range arms {
		arms[i] = all[i*a.Dimension : (i+1)*a.Dimension]
		copy(arms[i][i*a.Context:], x)
	}
	return arms
}

// situation fills x with a context, or with the numbers of an option. Of one number alone the constant is left.
func situation(x []float64, r *rand.Rand) []float64 {
	n := len(x) - 1
	square := 1.0
	for i := range n {
		x[i] = r.NormFloat64() / math.Sqrt(2*float64(n))
		square += x[i] * x[i]
	}
	x[n] = 1
	for i := range x {
		x[i] /= math.Sqrt(square)
	}
	return x
}

// calibration finds the size of weights. Scores are linear in it: scale * unit + shift * intercept.
type calibration struct {
	a               Assumed
	weights         []float64 // of all coordinates, for a scale of 1
	unit, intercept [][]float64
}

// calibration draws weights, those of the constant common times as large as the others.
func (a Assumed) calibration(r *rand.Rand, common float64) *calibration {
	c := &calibration{a: a, weights: make([]float64, a.Dimension)}
	for i := range c.weights {
		if c.weights[i] = r.NormFloat64(); a.Context > 0 && (i+1)%a.Context == 0 {
			c.weights[i] *= common
		}
	}
	if p := a.Context; p > 0 {
		for j := range p {
			mean := 0.0
			for k := range a.Options {
				mean += c.weights[k*p+j] / float64(a.Options)
			}
			for k := range a.Options {
				c.weights[k*p+j] -= mean
			}
		}
	}
	ones := c.theta(0, 1)
	for range calibrationPeople {
		arms := a.draw(r)
		unit, intercept := make([]float64, len(arms)), make([]float64, len(arms))
		for i, x := range arms {
			unit[i], intercept[i] = convex.Dot(x, c.weights), convex.Dot(x, ones)
		}
		c.unit, c.intercept = append(c.unit, unit), append(c.intercept, intercept)
	}
	return c
}

// theta is the parameter of a scale and a shift, which is added to each option's weight of the constant.
func (c *calibration) theta(scale, shift float64) []float64 {
	theta := make([]float64, len(c.weights))
	for i, w := range c.weights {
		theta[i] = scale * w
	}
	size := c.a.Context
	if size == 0 {
		size = c.a.Dimension
	}
	for i := size - 1; i < len(theta); i += size {
		theta[i] += shift
	}
	return theta
}

// constant is what the best constant option earns on average, and which one it is.
func (c *calibration) constant(scale, shift float64) (value float64, option int) {
	_, value, option = c.values(scale, shift)
	return value, option
}

// values are the mean rewards of the best option of each person and of the best constant option.
func (c *calibration) values(scale, shift float64) (each, constant float64, option int) {
	sums := make([]float64, c.a.Options)
	for i, unit := range c.unit {
		top := math.Inf(-1)
		for k, u := range unit {
			m := clampedMean(c.a.Family, scale*u+shift*c.intercept[i][k])
			sums[k] += m
			top = max(top, m)
		}
		each += top
	}
	n := float64(len(c.unit))
	all := 0.0
	for k, s := range sums {
		if all += s; s > sums[option] {
			option = k
		}
	}
	constant = sums[option]
	if c.a.Context == 0 {
		constant = all / float64(len(sums)) // which place an option has says nothing
	}
	return each / n, constant / n, option
}

// solve finds the scale and the shift with the given effect, and which effect they have: less than the given one if it
// is out of reach, and then the largest seen.
func (c *calibration) solve(effect float64) (scale, shift, reached float64) {
	at := func(scale float64) (float64, float64) {
		shift := c.shift(scale)
		each, constant, _ := c.values(scale, shift)
		return each - constant, shift
	}
	low, high := 0.0, 0.5
	for {
		if reached, _ = at(high); reached >= effect {
			break
		}
		if low, high = high, 2*high; high > mostScale {
			return 0, 0, reached
		}
	}
	for range halvings {
		middle := (low + high) / 2
		if e, _ := at(middle); e >= effect {
			high = middle
		} else {
			low = middle
		}
	}
	reached, shift = at(high)
	return high, shift, max(reached, effect)
}

// shift gives the best constant option its baseline.
func (c *calibration) shift(scale float64) float64 {
	if c.a.Baseline == nil {
		return 0
	}
	low, high := -mostShift, mostShift
	for range halvings {
		middle := (low + high) / 2
		if v, _ := c.constant(scale, middle); v >= *c.a.Baseline {
			high = middle
		} else {
			low = middle
		}
	}
	return (low + high) / 2
}

package environment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// The laws of contexts of Options. A context is p numbers, a constant among them, of norm at most 1; u are p - 1
// numbers drawn for the person.
const (
	// Normal: u is normal, and the context (u/sqrt(p-1), 1) scaled to norm 1.
	Normal = "normal"
	// Heavy: u has Student's law with 2 degrees of freedom, of no variance, and the context (u/(4 sqrt(p-1)), 1/2) is
	// scaled to norm 1 if it is longer: most contexts are nearly alike, and a few are far out.
	Heavy = "heavy"
	// Correlated: as Normal, with u_i = f + 0.3 e_i for one f of the person, which correlates any two by 0.92.
	Correlated = "correlated"
	// Useless: as Normal, but only the first two numbers have weights.
	Useless = "useless"
)

// What the rewards of Options depend on, by the scores z_k = <w_k, context> of the options.
const (
	Model     = "model"     // the family's law at z_k; linear, gaussian: z_k and normal noise, clipped to the range
	Classes   = "classes"   // 1 for the option with the largest z_k, 0 for all others: one label is right
	Separable = "separable" // 1 if z_k > 0, 0 otherwise: without noise, so that the best fit is infinite
	// Misfit: 1 with probability 0.9 if z_k, with Norm times plus or minus a product of two numbers, is above 0, and
	// 0.1 otherwise: neither the link nor the features are right.
	Misfit = "misfit"
	// Skewed, of gaussian: half of the rewards are 0, and the others R/8 times e^z times a log-normal number of median
	// 1 whose logarithm has the standard deviation Spread, clipped to the range: money.
	Skewed = "skewed"
	// Grades, of gaussian: as Model, rounded to a whole number.
	Grades = "grades"
)

// optionBound is the bound on the parameter's norm that learners are told by default in Options, as of a file of
// people: nobody knows the norm.
const optionBound = population.DefaultNormBound

// defaultContext is p.
const defaultContext = 5

// resolveOptions fills in and checks what is of Options alone.
func (s Spec) resolveOptions() (Spec, error) {
	if s.Kind != Options {
		if s.Law != "" || s.Truth != "" || s.Offsets != nil || s.Spread != 0 {
			return s, fmt.Errorf("%w: law, truth, offsets and spread are for kind %s", ErrSpec, Options)
		}
		return s, nil
	}
	if s.Context == 0 {
		s.Context = defaultContext
	}
	if s.Law == "" {
		s.Law = Normal
	}
	if s.Truth == "" {
		s.Truth = Model
	}
	if s.Bound == 0 {
		s.Bound = optionBound
	}
	if s.Arms == 0 {
		s.Arms = 3
	}
	if s.Norm == 0 {
		s.Norm = 3
	}
	laws := []string{Normal, Heavy, Correlated, Useless}
	truths := []string{Model, Classes, Separable, Misfit, Skewed, Grades}
	continuous := s.Family == family.NameLinear || s.Family == family.NameGaussian
	ofRange := s.Truth == Model || s.Family == family.NameGaussian && (s.Truth == Skewed || s.Truth == Grades)
	switch {
	case s.Context < 2 || s.Context*s.Arms > 1<<12:
		return s, fmt.Errorf("%w: context %d must be at least 2, and with %d options have at most %d numbers", ErrSpec,
			s.Context, s.Arms, 1<<12)
	case s.Dimension != 0 && s.Dimension != s.Context*s.Arms:
		return s, fmt.Errorf("%w: the dimension of %d options with contexts of %d numbers is not %d", ErrSpec, s.Arms,
			s.Context, s.Dimension)
	case !slices.Contains(laws, s.Law) || !slices.Contains(truths, s.Truth):
		return s, fmt.Errorf("%w: law %q must be one of %s, and truth %q of %s", ErrSpec, s.Law,
			strings.Join(laws, ", "), s.Truth, strings.Join(truths, ", "))
	case s.Truth == Misfit && s.Context < 3:
		return s, fmt.Errorf("%w: a product of two numbers needs a context of 3", ErrSpec)
	case s.Offsets != nil && len(s.Offsets) != s.Arms:
		return s, fmt.Errorf("%w: %d offsets for %d options", ErrSpec, len(s.Offsets), s.Arms)
	case continuous != (s.Spread > 0) || s.Spread < 0 || continuous && !ofRange:
		return s, fmt.Errorf("%w: spread %v is for families linear and gaussian, which need it, with truth %s; %s and "+
			"%s are for gaussian", ErrSpec, s.Spread, Model, Skewed, Grades)
	case s.Parameter != nil || s.Scales != nil || s.Change != nil:
		return s, fmt.Errorf("%w: kind %s has no parameter, scales or change", ErrSpec, Options)
	}
	s.Dimension = s.Context * s.Arms
	return s, nil
}

// Misfit reports whether no parameter of the family gives the true means.
func (s Spec) Misfit() bool {
	return s.Kind == Options && (s.Truth != Model && s.Truth != "" || s.Spread > 0)
}

// options is a run of Options: one context, a block of weights for each option.
type options struct {
	spec    Spec
	family  family.Family
	weights [][]float64 // of each option
	product []float64   // of each option, for Misfit
}

func (s Spec) options(r *rand.Rand, model family.Family) *options {
	o := &options{spec: s, family: model}
	order := r.Perm(s.Arms) // of the offsets
	used := s.Context - 1
	if s.Law == Useless {
		used = min(used, 2)
	}
	for k := range s.Arms {
		w := make([]float64, s.Context)
		population.Sphere(w[:used], s.Norm, r)
		if s.Offsets != nil { // of a score: the constant number of a context is about 1/sqrt(2)
			w[s.Context-1] = s.Offsets[order[k]] * math.Sqrt2
		}
		o.weights, o.product = append(o.weights, w), append(o.product, s.Norm*sign(r))
	}
	return o
}

// theta is the true parameter, nil if there is none.
func (o *options) theta() []float64 {
	if o.spec.Misfit() {
		return nil
	}
	return slices.Concat(o.weights...)
}

// context draws a person's context and, for Misfit, the product of its first two numbers before they are scaled.
func (o *options) context(r *rand.Rand) (x []float64, product float64) {
	p := o.spec.Context
	x = make([]float64, p)
	u, common, root := x[:p-1], r.NormFloat64(), math.Sqrt(float64(p-1))
	for i := range u {
		u[i] = r.NormFloat64()
		switch o.spec.Law {
		case Correlated:
			u[i] = common + 0.3*u[i]
		case Heavy: // a normal number over the root of a mean of two squares, which is exponential
			u[i] /= math.Sqrt(r.ExpFloat64())
		}
	}
	if p > 2 {
		product = u[0] * u[1]
	}
	scale, constant := 1/root, 1.0
	if o.spec.Law == Heavy {
		scale, constant = 1/(4*root), 0.5
	}
	for i := range u {
		u[i] *= scale
	}
	x[p-1] = constant
	if n := math.Sqrt(population.Dot(x, x)); n > 1 || o.spec.Law != Heavy {
		for i := range x {
			x[i] /= n
		}
	}
	return x, product
}

// person draws a person. The options share one draw of chance, as in other environments.
func (o *options) person(arms, rewards *rand.Rand) population.Person {
	x, product := o.context(arms)
	k, d := o.spec.Arms, o.spec.Dimension
	memory := make([]float64, k*d+2*k)
	p := population.Person{Means: memory[k*d : k*d+k : k*d+k], Rewards: memory[k*d+k:]}
	scores, best := make([]float64, k), 0
	for i, w := range o.weights {
		arm := memory[i*d : (i+1)*d : (i+1)*d]
		copy(arm[i*len(x):], x)
		p.Arms = append(p.Arms, arm)
		if scores[i] = population.Dot(w, x); scores[i] > scores[best] {
			best = i
		}
	}
	chance := rewards.Float64()
	noise := rewards.NormFloat64()
	least, most := o.family.MinReward(), o.family.MaxReward()
	for i, z := range scores {
		switch {
		case o.spec.Spread > 0:
			p.Means[i], p.Rewards[i] = o.continuous(z, chance, noise, least, most)
			continue
		case o.spec.Truth == Classes && i == best, o.spec.Truth == Separable && z > 0:
			p.Means[i] = 1
		case o.spec.Truth == Misfit:
			p.Means[i] = 0.1
			if z+o.product[i]*product > 0 {
				p.Means[i] = 0.9
			}
		case o.spec.Truth == Model:
			p.Means[i] = o.family.Mean(z)
		}
		if chance < p.Means[i] {
			p.Rewards[i] = 1
		}
	}
	return p
}

// continuous is the mean and a draw of a reward between least and most.
func (o *options) continuous(z, chance, noise, least, most float64) (mean, reward float64) {
	spread := o.spec.Spread
	if o.spec.Truth == Skewed {
		location := math.Log(most/8) + z
		if chance < 0.5 {
			reward = math.Min(most, math.Exp(location+spread*noise))
		}
		return clippedLogNormalMean(location, spread, most) / 2, reward
	}
	if o.spec.Family == family.NameGaussian { // rewards from 0 on
		z += most / 2
	}
	if o.spec.Truth == Grades {
		for k := least; k < most; k++ { // the reward is above k
			mean += math.Erfc((k+0.5-z)/spread/math.Sqrt2) / 2
		}
		return least + mean, math.Min(math.Max(math.Round(z+spread*noise), least), most)
	}
	return clippedMean(z, spread, least, most), math.Min(math.Max(z+spread*noise, least), most)
}

// clippedLogNormalMean is the mean of e^(m + s times a normal number), at most b.
func clippedLogNormalMean(m, s, b float64) float64 {
	above := func(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }
	x := (math.Log(b) - m) / s
	return math.Exp(m+s*s/2)*above(s-x) + b*above(x)
}

// clippedMean is the mean of a normal number of mean m and standard deviation s, clipped to [a, b].
func clippedMean(m, s, a, b float64) float64 {
	below := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	density := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	low, high := (a-m)/s, (b-m)/s
	return a*below(low) + b*below(-high) + m*(below(high)-below(low)) - s*(density(high)-density(low))
}

package bandit

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// Combiner is Algorithm 2 of "Improved rate for locally differentially private linear bandits", Private Bandits
// Combiner (after Cutkosky, Das and Purohit, "Upper confidence bounds for combining stochastic bandits", 2020): it need
// not know the smallest eigenvalue of E[xx']. Base 1 is Algorithm 9 with k = 1/8, base i > 1 is Algorithm 1 told that
// the eigenvalue is 2^(i-1) T^(-1/8), for i up to ceil(log2(T)/8) + 1. Bases are played like arms, by the mean of their
// noisy rewards, their putative regret L_i n^(a_i), and a handicap R_i; one that earns less than it promised is
// dropped. Each person plays one base and reports once, so that the privacy is OnlineLinUCB's.
//
// What differs: the paper prints T^3 N in R_i where N is the number M of bases; a base without a person yet comes
// first; ln n (1 + sigma^2) counts at least 1 within the logarithm; the last base is never dropped.
//
// Options: those of OnlineLinUCB but lambda_min and threshold; regret (P = P', default 1) and deviation (p, default 1),
// the theorem's unnamed constants. With 1 the handicaps alone decide below T = 1e9 or so; both are 0.1 in tests.
func Combiner(s learn.Setting) (*learn.Learner, error) {
	p, err := newOnlineParameters(s, "regret", "deviation")
	if err != nil {
		return nil, err
	}
	p.profile = glm.OnlineLinUCBCombiner
	first, err := p.anytime(0.125)
	if err != nil {
		return nil, err
	}
	bases, eigenvalues := []onlineBase{first}, []float64{p.threshold(0.125)}
	last := int(math.Ceil(math.Log2(float64(s.Horizon))/8)) + 1
	for i := 2; i <= last; i++ {
		eigenvalue := math.Ldexp(p.threshold(0.125), i-1)
		base, err := p.base(s.Horizon, p.zeta(eigenvalue, p.threshold(0.125)))
		if err != nil {
			return nil, err
		}
		bases, eigenvalues = append(bases, base), append(eigenvalues, eigenvalue)
	}
	return p.start(newCombined(p, bases, eigenvalues))
}

// combined plays one of several bases for each batch of people.
type combined struct {
	bases    []combinedBase
	people   float64 // T
	variance float64 // 1 + sigma^2
	scale    float64 // p
	inside   float64 // T^3 M / alpha
	current  int
}

// combinedBase is a base with what the combiner knows of it.
type combinedBase struct {
	onlineBase
	promise, power float64 // L_i, a_i
	handicap       float64 // R_i
	people, mean   float64 // n_i, m_i
	missed         float64 // sum over its people of the mean before less the reward
	dropped        bool
}

func newCombined(p *onlineParameters, bases []onlineBase, eigenvalues []float64) *combined {
	s := p.setting
	people, epsilon, factor := float64(s.Horizon), math.Min(s.Epsilon, 1e6), s.Option("regret", 1)
	c := &combined{people: people, variance: 1 + p.sigma*p.sigma, scale: s.Option("deviation", 1),
		inside: people * people * people * float64(len(bases)) / s.Failure}
	logs, root := factor*math.Pow(math.Log(people), 1.5), math.Sqrt(float64(s.Dimension))
	slow := epsilon * math.Pow(people, 0.125)
	rates, inverse := make([]float64, len(bases)), 0.0 // eta_i
	for i, base := range bases {
		b := combinedBase{onlineBase: base, promise: logs * root / (epsilon * eigenvalues[i]), power: 0.5}
		rates[i] = epsilon / (logs * root * math.Sqrt(people))
		if i == 0 {
			b.promise, b.power = logs*root*(slow+1)/slow, 0.75
			rates[i] = slow / (root * math.Sqrt(people) * (logs*slow + 1))
		}
		inverse += 1 / rates[i]
		c.bases = append(c.bases, b)
	}
	for i := range c.bases {
		b := &c.bases[i]
		a, rest := b.power, (1-b.power)/b.power
		bracket := math.Pow(1-a, rest) * math.Pow(1+a, 1/a) / math.Pow(a, rest)
		b.handicap = b.promise*math.Pow(people, a) +
			bracket*math.Pow(b.promise, 1/a)*people*math.Pow(rates[i], rest) +
			288*math.Log(c.inside)*people*rates[i] + inverse - 1/rates[i]
	}
	return c
}

// allowance is L_i n^(a_i) + w(n), what a base may fall behind in n people.
func (c *combined) allowance(b *combinedBase) float64 {
	n := b.people
	log := math.Log(c.inside * max(1, math.Log(n*c.variance)))
	return b.promise*math.Pow(n, b.power) + c.scale*math.Sqrt(n*c.variance*log)
}

// bound is U_i.
func (c *combined) bound(b *combinedBase) float64 {
	if b.people == 0 {
		return math.Inf(1)
	}
	return b.mean + math.Min(1, c.allowance(b)/b.people) - b.handicap/c.people
}

// policy is that of the base with the largest bound among those left.
func (c *combined) policy() (learn.Policy, error) {
	top := math.Inf(-1)
	for i := range c.bases {
		if b := &c.bases[i]; !b.dropped {
			if v := c.bound(b); v > top {
				c.current, top = i, v
			}
		}
	}
	return c.bases[c.current].policy()
}

// absorb takes a report of the people who played the current base.
func (c *combined) absorb(report, variance []float64) error {
	b := &c.bases[c.current]
	if err := b.absorb(report, variance); err != nil {
		return err
	}
	y := report[len(report)-1]
	b.missed += b.mean - y
	b.people++
	b.mean += (y - b.mean) / b.people
	left := 0
	for i := range c.bases {
		if !c.bases[i].dropped {
			left++
		}
	}
	if left > 1 && b.missed >= c.allowance(b) {
		b.dropped = true
	}
	return nil
}

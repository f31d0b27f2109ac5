package estimate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// sort is a sort of people: an arm, the probability of a person to have it, and the probability of the reward 1, where
// the other reward is -1.
type sort struct {
	x          []float64
	share, one float64
}

// crowd answers questions for independent people of few sorts, with the noise of one curator or of each device.
type crowd struct {
	t         *testing.T
	sorts     []sort
	low       float64 // the reward that is not 1
	local     bool
	coins     *rand.Rand
	noise     *rand.ChaCha8
	exact     bool // shares of the sorts instead of draws
	rho       float64
	questions []learn.Question
	noises    []mechanism.Noise
	asked     int
}

func newCrowd(t *testing.T, sorts []sort, local bool, epsilon float64, seed uint64) *crowd {
	var key [32]byte
	key[0], key[1], key[2] = byte(seed), byte(seed>>8), 1
	rho, err := mechanism.Budget(epsilon, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	return &crowd{t: t, sorts: sorts, low: -1, local: local, rho: rho, coins: rand.New(rand.NewPCG(seed, 7)),
		noise: rand.NewChaCha8(key)}
}

// counts divides n people between probabilities.
func (c *crowd) counts(n float64, of []float64) []float64 {
	out, left, rest := make([]float64, len(of)), n, 1.0
	for i, p := range of {
		b := distuv.Binomial{N: left, P: math.Min(1, math.Max(0, p/rest)), Src: c.coins}
		switch {
		case c.exact:
			out[i] = n * p
		case i == len(of)-1:
			out[i] = left
		case left > 0 && p > 0:
			out[i] = b.Rand()
		}
		left, rest = left-out[i], rest-p
	}
	return out
}

func (c *crowd) ask(q learn.Question) (learn.Answer, error) {
	if q.Form != learn.Sums || q.People < 1 {
		c.t.Fatalf("a question of form %q to %d people", q.Form, q.People)
	}
	c.questions, c.asked = append(c.questions, q), c.asked+q.People
	shares := make([]float64, len(c.sorts))
	for i, s := range c.sorts {
		shares[i] = s.share
	}
	a := learn.Answer{People: q.People}
	people := c.counts(float64(q.People), shares)
	for _, statistic := range q.Statistics {
		sum := learn.Sum{Values: make([]float64, statistic.Dim()), Variance: make([]float64, statistic.Dim())}
		for i, s := range c.sorts {
			for j, n := range c.counts(people[i], []float64{s.one, 1 - s.one}) {
				r := learn.Record{Arm: s.x, Reward: []float64{1, c.low}[j]}
				for k, v := range statistic.Vector(nil, r) {
					sum.Values[k] += n * v
				}
			}
		}
		c.protect(statistic, q.People, &sum)
		a.Sums = append(a.Sums, sum)
	}
	return a, q.Check(a)
}

func (c *crowd) protect(s learn.Statistic, people int, sum *learn.Sum) {
	noise, err := s.Noise, error(nil)
	if noise == nil {
		noise, err = mechanism.ForRho(mechanism.Sensitivity{Dim: s.Dim(), L2: s.Diameter}, c.rho)
		if err != nil {
			c.t.Fatal(err)
		}
	}
	g, noisy := noise.(mechanism.Gaussian)
	if !noisy {
		return
	}
	c.noises = append(c.noises, g)
	if c.local {
		g.Sigma *= math.Sqrt(float64(people))
	}
	g.Add(sum.Values, c.noise)
	for i := range sum.Variance {
		sum.Variance[i] = g.Sigma * g.Sigma
	}
}

// linearSorts are sorts whose mean reward is <x, theta>, of equal shares unless given.
func linearSorts(xs [][]float64, shares, theta []float64) []sort {
	out := make([]sort, len(xs))
	for i, x := range xs {
		out[i] = sort{x: x, share: 1 / float64(len(xs)), one: (1 + convex.Dot(x, theta)) / 2}
		if shares != nil {
			out[i].share = shares[i]
		}
	}
	return out
}

// meanError is E |prediction - mean reward| over the sorts.
func meanError(sorts []sort, m learn.Model) float64 {
	sum := 0.0
	for _, s := range sorts {
		sum += s.share * math.Abs(m.Predict(s.x)-(2*s.one-1))
	}
	return sum
}

func linearSetting(d, horizon int, epsilon float64) learn.Setting {
	return learn.Setting{Family: family.Linear{}, Dimension: d, Arms: 2, Horizon: horizon, Radius: 1, Epsilon: epsilon,
		Delta: 1e-5, Failure: 0.05}
}

// caseTwo is the instance on which reweighting pays: x = (.9, +-s) with s = 2 n^(-1/4), clipped to norm 1, and theta*
// = (.4, .9).
func caseTwo(n int) []sort {
	s := 2 * math.Pow(float64(n), -0.25)
	norm := math.Max(1, math.Hypot(0.9, s))
	return linearSorts([][]float64{{0.9 / norm, s / norm}, {0.9 / norm, -s / norm}}, nil, []float64{0.4, 0.9})
}

package estimate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// layeredWorld is people of few kinds, with rewards of -1 and 1, or without noise.
type layeredWorld struct {
	points    [][]float64
	shares    []float64
	theta     []float64
	noiseless bool
}

var layeredTheta = []float64{.36, .81}

// layeredCaseI is the paper's first scenario of section 2.3: a rare direction.
func layeredCaseI(n float64) layeredWorld {
	q := 8 / math.Sqrt(n)
	return layeredWorld{points: [][]float64{{1, 0}, {0, 1}}, shares: []float64{1 - q, q}, theta: layeredTheta}
}

// layeredCaseII is the second, of almost the same covariance: a direction of small amplitude.
func layeredCaseII(n float64) layeredWorld {
	s := 2 * math.Pow(n, -.25)
	norm := math.Hypot(1, s)
	return layeredWorld{points: [][]float64{{1 / norm, s / norm}, {1 / norm, -s / norm}}, shares: []float64{.5, .5},
		theta: layeredTheta}
}

// layeredDirections are eight unit vectors, evenly around the circle.
func layeredDirections(float64) layeredWorld {
	w := layeredWorld{theta: layeredTheta}
	for i := range 8 {
		angle := 2 * math.Pi * float64(i) / 8
		w.points, w.shares = append(w.points, []float64{math.Cos(angle), math.Sin(angle)}), append(w.shares, 1./8)
	}
	return w
}

// draw is n people, as records of many people each.
func (w layeredWorld) draw(n int, r *rand.Rand) (records []learn.Record) {
	left, rest := n, 1.0
	add := func(x []float64, reward float64, times int) {
		if times > 0 {
			records = append(records, learn.Record{Arm: x, Reward: reward, Times: times})
		}
	}
	for i, x := range w.points {
		k := left
		if i < len(w.points)-1 {
			k = layeredBinomial(left, w.shares[i]/rest, r)
		}
		left, rest = left-k, rest-w.shares[i]
		mean := convex.Dot(x, w.theta)
		if w.noiseless {
			add(x, mean, k)
			continue
		}
		up := layeredBinomial(k, (1+mean)/2, r)
		add(x, 1, up)
		add(x, -1, k-up)
	}
	return records
}

// layeredBinomial draws from the layeredBinomial law, from its Gaussian limit where that is close.
func layeredBinomial(n int, p float64, r *rand.Rand) int {
	if p <= 0 || n == 0 {
		return 0
	}
	if p >= 1 {
		return n
	}
	if float64(n)*p*(1-p) < 100 {
		k := 0
		if p > .5 {
			return n - layeredBinomial(n, 1-p, r)
		}
		for i := -1.0; ; k++ { // gaps are geometric
			if i += 1 + math.Floor(math.Log(1-r.Float64())/math.Log1p(-p)); i >= float64(n) {
				return k
			}
		}
	}
	mean, sd := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
	return min(n, max(0, int(math.Round(mean+sd*r.NormFloat64()))))
}

// ask answers the questions of an estimator for people of the world, and counts them.
func (w layeredWorld) ask(c *play.Channel, r *rand.Rand, people *int) learn.Asker {
	return func(q learn.Question) (learn.Answer, error) {
		if people != nil {
			*people += q.People
		}
		return c.Answer(q, slices.Values(w.draw(q.People, r)))
	}
}

// deviation is the mean absolute deviation of a model, its mean width, and whether every error is within its width.
func (w layeredWorld) deviation(m learn.Model) (mad, mse, width float64, covered bool) {
	covered = true
	for i, x := range w.points {
		e := math.Abs(m.Predict(x) - convex.Dot(x, w.theta))
		mad, mse, width = mad+w.shares[i]*e, mse+w.shares[i]*e*e, width+w.shares[i]*m.Bound(x)
		covered = covered && e <= m.Bound(x)
	}
	return mad, mse, width, covered
}

// layeredSetting is that of pure epsilon at the paper's scale.
func layeredSetting(dimension int, epsilon float64) learn.Setting {
	return learn.Setting{Family: family.Linear{}, Dimension: dimension, Arms: 2, Horizon: 1e6, Radius: 1,
		Epsilon: epsilon,
		Delta:   1e-6, Failure: .05}
}

// layeredFit runs layered regression over the channel local with n people for each question.
func layeredFit(t *testing.T, s learn.Setting, w layeredWorld, n int, seed uint64) learn.Model {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	c := &play.Channel{Trust: plan.Local, Epsilon: s.Epsilon, Delta: s.Delta, Noise: rand.NewPCG(seed, 2)}
	m, err := estimate.Layered(s, n*(2*s.Dimension-1), w.ask(c, r, nil))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

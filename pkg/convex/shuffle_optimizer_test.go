package convex_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// The descent of theta from 0 with gradient -1 and step 1 in a ball of radius 2.5, followed by hand: the iterates are
// 0, 1, 2, 2.5, 2.5, ...
func TestAverageIsTakenOverTheStatedIterates(t *testing.T) {
	for _, c := range []struct {
		averaging convex.Averaging
		rounds    int
		want      float64
	}{
		{convex.AverageAll, 1, 0}, {convex.AverageAll, 2, 0.5}, {convex.AverageAll, 4, 5.5 / 4}, {"", 3, 1},
		{convex.AverageSecondHalf, 1, 1}, {convex.AverageSecondHalf, 2, 2}, {convex.AverageSecondHalf, 3, 4.5 / 2},
		{convex.AverageSecondHalf, 4, 2.5},
	} {
		o, err := convex.NewOptimizer(convex.OptimizerConfig{
			Start: []float64{0}, Rounds: c.rounds, Radius: 2.5, Step: 1, Averaging: c.averaging})
		if err != nil {
			t.Fatal(err)
		}
		for !o.Done() {
			if err := o.Absorb([]float64{-1}, 1); err != nil {
				t.Fatal(err)
			}
		}
		if got := o.Result(); math.Abs(got[0]-c.want) > 1e-15 {
			t.Errorf("%s over %d rounds: %v, want %v", c.averaging, c.rounds, got, c.want)
		}
	}
}

func TestOptimizerRefusesBadParametersAndReleases(t *testing.T) {
	good := convex.OptimizerConfig{Start: []float64{1, 0}, Rounds: 2, Radius: 1, Step: 1}
	for name, change := range map[string]func(*convex.OptimizerConfig){
		"no rounds":    func(c *convex.OptimizerConfig) { c.Rounds = 0 },
		"no radius":    func(c *convex.OptimizerConfig) { c.Radius = 0 },
		"NaN radius":   func(c *convex.OptimizerConfig) { c.Radius = math.NaN() },
		"no step":      func(c *convex.OptimizerConfig) { c.Step = 0 },
		"NaN step":     func(c *convex.OptimizerConfig) { c.Step = math.NaN() },
		"no start":     func(c *convex.OptimizerConfig) { c.Start = nil },
		"NaN start":    func(c *convex.OptimizerConfig) { c.Start = []float64{math.NaN()} },
		"averaging":    func(c *convex.OptimizerConfig) { c.Averaging = "median" },
		"ridge":        func(c *convex.OptimizerConfig) { c.Ridge = -1 },
		"infinite":     func(c *convex.OptimizerConfig) { c.Ridge = math.Inf(1) },
		"infinite rad": func(c *convex.OptimizerConfig) { c.Radius = math.Inf(1) },
	} {
		cfg := good
		change(&cfg)
		if _, err := convex.NewOptimizer(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	o, err := convex.NewOptimizer(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sum     []float64
		reports int
		want    error
	}{
		{[]float64{1}, 5, convex.ErrDimension}, {[]float64{1, math.NaN()}, 5, convex.ErrNotFinite},
		{[]float64{1, 1}, 0, convex.ErrParameter},
	} {
		if err := o.Absorb(c.sum, c.reports); !errors.Is(err, c.want) {
			t.Errorf("%v of %d: %v", c.sum, c.reports, err)
		}
	}
	if o.Round() != 0 {
		t.Error("a refused release moved the optimiser")
	}
	for range 2 {
		if err := o.Absorb([]float64{1, 1}, 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Absorb([]float64{1, 1}, 5); !o.Done() || !errors.Is(err, convex.ErrParameter) {
		t.Errorf("a gradient after the last round: %v", err)
	}
}

// A caller who writes into an iterate or a result does not move the optimiser.
func TestIterateIsACopy(t *testing.T) {
	o, err := convex.NewOptimizer(convex.OptimizerConfig{Start: []float64{1}, Rounds: 2, Radius: 1, Step: 1})
	if err != nil {
		t.Fatal(err)
	}
	o.Iterate()[0] = 7
	o.Result()[0] = 7
	if o.Iterate()[0] != 1 || o.Result()[0] != 1 {
		t.Error("the optimiser shares its memory")
	}
}

type problem struct {
	family  family.Family
	theta   []float64
	arms    [][]float64
	rewards []float64
}

// newProblem draws n arms from the unit ball and their mean rewards plus a two-point noise inside [0, R].
func newProblem(t testing.TB, name string, maxReward float64, d, n int, size float64, seed uint64) problem {
	t.Helper()
	f, err := family.New(name, maxReward)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 7))
	direction := func(r float64) []float64 {
		x, sum := make([]float64, d), 0.0
		for i := range x {
			x[i] = rng.NormFloat64()
			sum += x[i] * x[i]
		}
		for i := range x {
			x[i] *= r / math.Sqrt(sum)
		}
		return x
	}
	p := problem{family: f, theta: direction(size)}
	for range n {
		x := direction(math.Pow(rng.Float64(), 1/float64(d)))
		z := 0.0
		for i := range x {
			z += x[i] * p.theta[i]
		}
		r := 0.0
		if rng.Float64() < f.Mean(z)/maxReward { // a two-point reward of the right mean
			r = maxReward
		}
		p.arms, p.rewards = append(p.arms, x), append(p.rewards, r)
	}
	return p
}

func (p problem) loss(t testing.TB, ridge float64) *convex.GLMLoss {
	t.Helper()
	l, err := convex.NewGLMLoss(p.family, len(p.theta), p.arms, p.rewards, ridge)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (p problem) covariance() *mat.SymDense {
	d := len(p.theta)
	v := mat.NewSymDense(d, nil)
	for _, x := range p.arms {
		v.SymRankOne(v, 1, mat.NewVecDense(d, x))
	}
	return v
}

var families = []struct {
	name string
	r    float64
}{{"logistic", 1}, {"probit", 1}, {"poisson", 5}, {"gaussian", 3}}

// With exact gradients and the smoothness step the mean loss rises in no round, for every family, with and without
// ridge, from the ball's border; and a step ten times as long is caught.
func TestLossNeverIncreasesWithTheSmoothnessStep(t *testing.T) {
	rises := func(p problem, S, ridge, factor float64) int {
		loss, n, d := p.loss(t, ridge), len(p.arms), len(p.theta)
		eta, err := convex.SmoothnessStep(p.family.MaxVariance(S), p.covariance(), ridge, n)
		if err != nil {
			t.Fatal(err)
		}
		start := make([]float64, d)
		start[0] = -S
		o, err := convex.NewOptimizer(convex.OptimizerConfig{
			Start: start, Rounds: 40, Radius: S, Step: factor * eta, Ridge: ridge})
		if err != nil {
			t.Fatal(err)
		}
		data := p.loss(t, 0) // what the devices sum: no ridge
		gradient, count := make([]float64, d), 0
		value := loss.Evaluate(o.Iterate(), nil, nil)
		for !o.Done() {
			data.Evaluate(o.Iterate(), gradient, nil)
			if err := o.Absorb(gradient, n); err != nil {
				t.Fatal(err)
			}
			next := loss.Evaluate(o.Iterate(), nil, nil)
			if next > value+1e-12*math.Abs(value) {
				count++
			}
			value = next
		}
		return count
	}
	caught := 0
	for _, f := range families {
		for seed := range uint64(5) {
			p := newProblem(t, f.name, f.r, 3, 200, 2, seed)
			for _, ridge := range []float64{0, 1, 100} {
				if k := rises(p, 2, ridge, 1); k > 0 {
					t.Errorf("%s ridge %v: the loss rose %d times", f.name, ridge, k)
				}
				caught += rises(p, 2, ridge, 10)
			}
		}
	}
	if caught == 0 {
		t.Error("steps ten times too long never raised the loss: the test shows nothing")
	}
}

// The step has values worked out by hand, and parameters out of range are refused.
func TestSmoothnessStepIsOneOverTheCurvature(t *testing.T) {
	for _, c := range []struct {
		diagonal []float64
		ridge    float64
		want     float64
	}{
		{[]float64{50, 20}, 0, 1 / (0.25 * 0.5)},
		{[]float64{50, 20}, 10, 1 / (0.25*0.5 + 0.1)},
		{[]float64{500, 20}, 0, 1 / 0.25},         // noise: arms of norm 1 cannot do this
		{[]float64{-3, 0.1}, 0, 1 / (0.25 / 100)}, // noise below the floor
	} {
		covariance := mat.NewSymDense(2, []float64{c.diagonal[0], 0, 0, c.diagonal[1]})
		got, err := convex.SmoothnessStep(0.25, covariance, c.ridge, 100)
		if err != nil || math.Abs(got-c.want) > 1e-12*c.want {
			t.Errorf("%v ridge %v: %v, %v; want %v", c.diagonal, c.ridge, got, err, c.want)
		}
	}
	good := mat.NewSymDense(1, []float64{1})
	for _, err := range []error{
		second(convex.SmoothnessStep(0, good, 0, 1)), second(convex.SmoothnessStep(math.NaN(), good, 0, 1)),
		second(convex.SmoothnessStep(1, good, -1, 1)), second(convex.SmoothnessStep(1, good, 0, 0)),
		second(convex.SmoothnessStep(1, mat.NewSymDense(1, []float64{math.NaN()}), 0, 1)),
	} {
		if err == nil {
			t.Error("accepted")
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Golden values of the bound, and inputs out of range are refused.
func TestOptimizerErrorHasItsGoldenValues(t *testing.T) {
	// s = W/g = 2/4, n = 2000, b = 25: s^2 (n/4 + nb/4) = 3250.
	b, err := convex.OptimizerError(convex.ErrorInputs{
		Reports: 2000, Dimension: 3, Rounds: 30, Radius: 1, MaxGradient: 1, Ridge: 50, SumProxy: 3250, Failure: 1e-3})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		got, want float64
		tol       float64
	}{{"Xi", b.Noise, 0.0282265, 5e-8}, {"eta*", b.Step, 0.2485842, 5e-8}, {"nu", b.Nu, 1150.116, 5e-4}} {
		if math.Abs(c.got-c.want) > c.tol {
			t.Errorf("%s = %.9g, want %.9g", c.name, c.got, c.want)
		}
	}
	for _, in := range []convex.ErrorInputs{
		{}, {Reports: 1, Dimension: 1, Rounds: 1, Radius: 1, MaxGradient: 1, Failure: 1},
		{Reports: 1, Dimension: 1, Rounds: 1, Radius: math.NaN(), MaxGradient: 1, Failure: 0.1},
		{Reports: 1, Dimension: 1, Rounds: 1, Radius: 1, MaxGradient: 1, SumProxy: math.Inf(1), Failure: 0.1},
	} {
		if _, err := convex.OptimizerError(in); !errors.Is(err, convex.ErrParameter) {
			t.Errorf("%+v: %v", in, err)
		}
	}
}

// The optimiser runs 200 times with eta* and Gaussian noise of the stated proxy: the excess loss must stay below Nu,
// and above Nu/100, so that an error of a factor 100 in Nu is seen. A correct bound fails with probability at most 200
// * 2e-6.
func TestOptimizerErrorBoundsTheExcessLoss(t *testing.T) {
	const n, d, T, S, ridge, proxy = 400, 3, 20, 1.0, 5.0, 4000.0
	p := newProblem(t, "logistic", 1, d, n, 1, 3)
	loss, data := p.loss(t, ridge), p.loss(t, 0)
	best, err := convex.Minimize(loss, convex.NewtonConfig{Radius: S})
	if err != nil {
		t.Fatal(err)
	}
	bound, err := convex.OptimizerError(convex.ErrorInputs{
		Reports: n, Dimension: d, Rounds: T, Radius: S, MaxGradient: 1, Ridge: ridge, SumProxy: proxy, Failure: 1e-6})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	largest := 0.0
	for range 200 {
		o, err := convex.NewOptimizer(convex.OptimizerConfig{
			Start: []float64{-1, 0, 0}, Rounds: T, Radius: S, Step: bound.Step, Ridge: ridge})
		if err != nil {
			t.Fatal(err)
		}
		gradient := make([]float64, d)
		for !o.Done() {
			data.Evaluate(o.Iterate(), gradient, nil)
			for j := range gradient {
				gradient[j] += math.Sqrt(proxy) * rng.NormFloat64()
			}
			if err := o.Absorb(gradient, n); err != nil {
				t.Fatal(err)
			}
		}
		largest = math.Max(largest, loss.Evaluate(o.Result(), nil, nil)-best.Value)
	}
	if largest > bound.Nu || largest < bound.Nu/100 {
		t.Errorf("largest excess %v, bound %v", largest, bound.Nu)
	}
}

// Absorbing sums of gradients is projected gradient descent on the regularised mean loss.
func TestOptimizerDescendsOnTheMeanLoss(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const n, radius, step = 30, 1.5, 2.0
		ridge := rapid.Float64Range(0, 10).Draw(rt, "ridge")
		rounds := rapid.IntRange(1, 9).Draw(rt, "rounds")
		p := newProblem(t, "logistic", 1, 2, n, 1, rapid.Uint64().Draw(rt, "seed"))
		full, data := p.loss(t, ridge), p.loss(t, 0)
		o, err := convex.NewOptimizer(convex.OptimizerConfig{
			Start: []float64{0, 0}, Rounds: rounds, Radius: radius, Step: step, Ridge: ridge})
		if err != nil {
			rt.Fatal(err)
		}
		theta, gradient := []float64{0, 0}, make([]float64, 2)
		for !o.Done() {
			if got := o.Iterate(); norm2(minus(got, theta)) > 1e-12 || norm2(got) > radius*(1+1e-15) {
				rt.Fatalf("round %d: %v, want %v", o.Round(), got, theta)
			}
			full.Evaluate(theta, gradient, nil)
			for j := range theta {
				theta[j] -= step * gradient[j] / n
			}
			if size := norm2(theta); size > radius {
				theta = []float64{theta[0] * radius / size, theta[1] * radius / size}
			}
			data.Evaluate(o.Iterate(), gradient, nil)
			if err := o.Absorb(gradient, n); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

package online_test

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn/online"
)

func maler(t *testing.T, d online.Domain, rounds int) *online.Maler {
	t.Helper()
	m, err := online.NewMaler(d, rounds)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sequential(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
}

// regret plays losses mu/2 |x - a|^2 with noisy gradients, and returns what the learner loses against a.
func regret(t *testing.T, l online.Learner, rounds int, mu float64, target []float64, radius float64) float64 {
	t.Helper()
	r, total := rand.New(rand.NewPCG(3, uint64(rounds))), 0.0
	g := make([]float64, len(target))
	for range rounds {
		x, loss := l.Point(), 0.0
		if !(convex.Norm(x) <= radius*(1+1e-12)) {
			t.Fatalf("point %v leaves the ball", x)
		}
		for j, v := range x {
			loss += mu / 2 * (v - target[j]) * (v - target[j])
			g[j] = mu*(v-target[j]) + r.NormFloat64()
		}
		total += loss
		if err := l.Update(g); err != nil {
			t.Fatal(err)
		}
	}
	return total
}

// On strongly convex losses the regret grows like ln T: 64 times as many rounds cost less than five times as
// much (the logarithms are 1 to 1.7); a regret of sqrt T would grow eightfold.
func TestRegretIsLogarithmicOnStronglyConvexLosses(t *testing.T) {
	sequential(t)
	target := []float64{0.3, -0.4, 0.2}
	d := online.Domain{Dimension: 3, Radius: 1, Gradient: 6}
	for name, start := range map[string]func(rounds int) online.Learner{
		"maler": func(rounds int) online.Learner { return maler(t, d, rounds) },
		"ogd": func(int) online.Learner {
			o, err := online.NewOGD(d, 1)
			if err != nil {
				t.Fatal(err)
			}
			return o
		},
	} {
		few, many := regret(t, start(1<<9), 1<<9, 1, target, 1), regret(t, start(1<<15), 1<<15, 1, target, 1)
		if many > 5*few {
			t.Errorf("%s: regret %v after 2^9 rounds, %v after 2^15", name, few, many)
		}
	}
}

// On linear losses of random signs the regret against the best point in hindsight is below 7.4 G D sqrt T, the bound of
// Lemma H.6 with the ball's diameter.
func TestMalerOnLinearLosses(t *testing.T) {
	sequential(t)
	const rounds = 4096
	m, r := maler(t, online.Domain{Dimension: 2, Radius: 1, Gradient: 1}, rounds), rand.New(rand.NewPCG(1, 5))
	sum, lost := make([]float64, 2), 0.0
	for range rounds {
		g := []float64{0, 0}
		g[r.IntN(2)] = float64(2*r.IntN(2)-1) * 1
		lost += convex.Dot(g, m.Point())
		sum[0], sum[1] = sum[0]+g[0], sum[1]+g[1]
		if err := m.Update(g); err != nil {
			t.Fatal(err)
		}
	}
	if got := lost + convex.Norm(sum); got > 7.4*math.Sqrt(rounds) {
		t.Errorf("regret %v", got)
	}
}

// With one constant gradient all experts go to the opposite end of the ball, and there they stay.
func TestConstantGradientLeadsToTheBoundary(t *testing.T) {
	sequential(t)
	m := maler(t, online.Domain{Dimension: 2, Radius: 0.5, Gradient: 3}, 3000)
	for range 3000 {
		if err := m.Update([]float64{0, 2}); err != nil {
			t.Fatal(err)
		}
	}
	if x := m.Point(); math.Abs(x[0]) > 1e-9 || x[1] > -0.49 || x[1] < -0.5-1e-12 {
		t.Errorf("point %v", x)
	}
}

// A gradient longer than G counts as one of norm G; what is not finite or too short is refused and changes nothing.
func TestGradientsAreClippedAndChecked(t *testing.T) {
	d := online.Domain{Dimension: 2, Radius: 1, Gradient: 1}
	long, short := maler(t, d, 10), maler(t, d, 10)
	if err := long.Update([]float64{300, 400}); err != nil {
		t.Fatal(err)
	}
	if err := short.Update([]float64{0.6, 0.8}); err != nil {
		t.Fatal(err)
	}
	before := long.Point()
	for j, v := range short.Point() {
		if math.Abs(v-before[j]) > 1e-12 {
			t.Errorf("%v and %v", before, short.Point())
		}
	}
	for _, g := range [][]float64{{1}, {math.NaN(), 0}, {math.Inf(1), 0}} {
		if err := long.Update(g); err == nil {
			t.Errorf("gradient %v was taken", g)
		}
	}
	if after := long.Point(); after[0] != before[0] || after[1] != before[1] {
		t.Error("a refused gradient changed the point")
	}
	before[0] = 7
	if long.Point()[0] == 7 {
		t.Error("the point is the caller's to change, not the learner's")
	}
}

func TestBadParametersAreRefused(t *testing.T) {
	good := online.Domain{Dimension: 2, Radius: 1, Gradient: 1}
	for _, d := range []online.Domain{{}, {Dimension: 2, Radius: -1, Gradient: 1}, {Dimension: 2, Radius: 1,
		Gradient: math.Inf(1)}, {Dimension: 0, Radius: 1, Gradient: 1}} {
		if _, err := online.NewMaler(d, 5); err == nil {
			t.Errorf("%+v", d)
		}
		if _, err := online.NewOGD(d, 1); err == nil {
			t.Errorf("%+v", d)
		}
	}
	if _, err := online.NewMaler(good, 0); err == nil {
		t.Error("no rounds")
	}
	if _, err := online.NewOGD(good, math.NaN()); err == nil {
		t.Error("no convexity")
	}
}

// Weights stay finite, and the point in the ball, for a million rounds.
func TestMalerForAMillionRounds(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("set RIFFLE_LONG=1: a million rounds take some seconds")
	}
	m := maler(t, online.Domain{Dimension: 3, Radius: 1, Gradient: 6}, 1e6)
	if got := regret(t, m, 1e6, 1, []float64{0.3, -0.4, 0.2}, 1); !(got < 300) {
		t.Errorf("regret %v", got)
	}
}

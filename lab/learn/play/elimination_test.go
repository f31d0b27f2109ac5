package play_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/lab/learn/play"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// shifted is the truth, wrong by no more than its bound.
type shifted struct {
	theta, error []float64
	bound        float64
}

func (m shifted) Predict(x []float64) float64 {
	return convex.Dot(x, m.theta) + m.bound*convex.Norm(x)*convex.Dot(x, m.error)/max(1e-9, convex.Norm(x))
}
func (m shifted) Bound(x []float64) float64 { return m.bound * convex.Norm(x) }

func unit(rng *rand.Rand, d int) []float64 {
	x := make([]float64, d)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	n := convex.Norm(x)
	for i := range x {
		x[i] /= n
	}
	return x
}

// With valid bounds the best arm is never dropped, whichever way arms are compared; with exact models only the best
// are left.
func TestEliminationKeepsTheBestArm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dropped := 0
	for range 20_000 {
		d := 1 + rng.IntN(4)
		theta := unit(rng, d)
		e := play.Elimination{Among: rng.IntN(2) == 0}
		for i := range 1 + rng.IntN(4) {
			e.Models = append(e.Models, shifted{theta: theta, error: unit(rng, d), bound: 1 / float64(1+4*i)})
		}
		var arms [][]float64
		for range 1 + rng.IntN(8) {
			x := unit(rng, d)
			length := rng.Float64()
			for i := range x {
				x[i] *= length
			}
			arms = append(arms, x)
		}
		best := play.Best(arms, func(x []float64) float64 { return convex.Dot(x, theta) })
		left := e.Survivors(arms)
		if !slices.Contains(left, best) {
			t.Fatalf("the best arm %d is not among %v", best, left)
		}
		dropped += len(arms) - len(left)
		e.Models = []learn.Model{shifted{theta: theta, error: theta}}
		if left := e.Survivors(arms); !slices.Equal(left, []int{best}) {
			t.Fatalf("an exact model leaves %v, the best is %d", left, best)
		}
	}
	if dropped < 10_000 {
		t.Errorf("only %d arms were dropped: the test shows nothing", dropped)
	}
}

// Where models contradict each other, an arm is left, and the choice is one of the survivors.
func TestEliminationNeverDropsAllArms(t *testing.T) {
	arms := [][]float64{{1, 0}, {0, 1}, {-1, 0}}
	up, down := shifted{theta: []float64{1, 0}, error: []float64{0, 0}}, shifted{theta: []float64{-1, 0},
		error: []float64{0, 0}}
	e := play.Elimination{Models: []learn.Model{up, down}, Then: play.Uniform{}}
	if left := e.Survivors(arms); !slices.Equal(left, []int{0}) {
		t.Errorf("left are %v", left)
	}
	c, err := e.Decide(arms, rand.NewChaCha8([32]byte{}))
	if err != nil || c.Arm != 0 || c.Propensity != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

package play_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/lab/learn/play"
)

// Probabilities add to 1, fall with the gap as the formula says, and leave the best arm at least its share; arms come
// as often as they say. Each frequency of 20,000 draws is within 5 standard errors (at most .018) but for one run in
// 10^5.
func TestInverseGap(t *testing.T) {
	arms := [][]float64{{.2}, {.9}, {.5}, {.9}, {-1}}
	for _, gamma := range []float64{0, 1, 30, 1e9} {
		g := play.InverseGap{Score: func(x []float64) float64 { return x[0] }, Gamma: gamma}
		p, sum := g.Probabilities(arms), 0.0
		for a, v := range p {
			sum += v
			if want := 1 / (5 + gamma*(.9-arms[a][0])); a != 1 && math.Abs(v-want) > 1e-15 {
				t.Errorf("gamma %g: arm %d has the probability %v, want %v", gamma, a, v, want)
			}
		}
		if math.Abs(sum-1) > 1e-12 || p[1] < 1./5 {
			t.Errorf("gamma %g: probabilities %v", gamma, p)
		}
		src, count := rand.NewChaCha8([32]byte{byte(gamma)}), make([]float64, len(arms))
		for range 20_000 {
			c, err := g.Decide(arms, src)
			if err != nil || c.Propensity != p[c.Arm] {
				t.Fatalf("gamma %g: choice %+v, %v", gamma, c, err)
			}
			count[c.Arm] += 1. / 20_000
		}
		for a := range arms {
			if math.Abs(count[a]-p[a]) > .018 {
				t.Errorf("gamma %g: arm %d came in a share %v, want %v", gamma, a, count[a], p[a])
			}
		}
	}
	// Scores that are no numbers stop nothing.
	odd := play.InverseGap{Score: func(x []float64) float64 { return math.Log(x[0]) }, Gamma: 2}
	if c, err := odd.Decide([][]float64{{-1}, {0}, {1}}, rand.NewChaCha8([32]byte{})); err != nil || c.Arm != 2 {
		t.Errorf("choice %+v, %v", c, err)
	}
}

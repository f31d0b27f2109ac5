package estimate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// advantage is how far P(S) - e^epsilon Q(S) goes for a half line S, either way, which is chosen on the first half of
// the draws and measured on the second. The standard error is at most sqrt(2 (P + e^(2 epsilon) Q)/n).
func advantage(p, q []float64, epsilon float64) (measured, deviation float64) {
	half := len(p) / 2
	count := func(x []float64, above bool, c float64) float64 {
		n := 0
		for _, v := range x {
			if (v > c) == above {
				n++
			}
		}
		return float64(n) / float64(len(x))
	}
	sorted := slices.Clone(p[:half])
	slices.Sort(sorted)
	best, cut, side := math.Inf(-1), 0.0, false
	for k := 1; k < 100; k++ {
		c := sorted[k*half/100]
		for _, above := range []bool{false, true} {
			if v := count(p[:half], above, c) - math.Exp(epsilon)*count(q[:half], above, c); v > best {
				best, cut, side = v, c, above
			}
		}
	}
	a, b := count(p[half:], side, cut), count(q[half:], side, cut)
	return a - math.Exp(epsilon)*b, math.Sqrt((a + math.Exp(2*epsilon)*b) / float64(half))
}

// Whole runs on two data sets that differ in one person, 20,000 of each: no half line of what leaves tells them apart
// by more than delta, five standard errors aside (false alarm 3e-7 for each). At four times the epsilon, about a
// quarter of the noise, it would be 0.19 for Ridge, which this attack must find. These two are calibrated by the
// channel alone.
func TestNeighboursAreHardToTellApart(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	const epsilon, delta, runs = 1., 0.01, 20_000
	base := []learn.Record{{Arm: []float64{0}}, {Arm: []float64{0}}}
	with := func(y float64) []learn.Record {
		out := slices.Clone(base)
		out[1] = learn.Record{Arm: []float64{1}, Reward: y}
		return out
	}
	for _, c := range []struct {
		name    string
		run     estimate.Estimator
		options map[string]float64
		trust   plan.Channel
		tight   bool
	}{
		{"NoisyBatchDescent", estimate.NoisyBatchDescent, map[string]float64{"batches": 2, "rate": 0.01}, plan.Local,
			false},
		{"Ridge", estimate.Ridge, nil, plan.Central, true},
	} {
		measure := func(factor float64) (float64, float64) {
			draw := func(y float64, seed byte) []float64 {
				out := make([]float64, runs)
				noise := rand.NewChaCha8([32]byte{seed, 1})
				channel := &play.Channel{Trust: c.trust, Epsilon: epsilon * factor, Delta: delta, Noise: noise}
				for i := range out {
					s := descentSetting(1, epsilon*factor, seed)
					s.Delta, s.Noise, s.Options = delta, noise, c.options
					people := with(y)
					m, err := c.run(s, len(people), func(q learn.Question) (learn.Answer, error) {
						next := people[:q.People]
						people = people[q.People:]
						return channel.Answer(q, slices.Values(next))
					})
					if err != nil {
						t.Fatal(err)
					}
					out[i] = m.Predict([]float64{1})
				}
				return out
			}
			return advantage(draw(1, 1), draw(-1, 2), epsilon)
		}
		got, deviation := measure(1)
		if got > delta+5*deviation {
			t.Errorf("%s: an advantage of %v, delta is %v", c.name, got, delta)
		}
		worse, deviation := measure(4)
		if c.tight && worse < delta+5*deviation {
			t.Errorf("%s: at four times the epsilon the advantage is only %v", c.name, worse)
		}
	}
}

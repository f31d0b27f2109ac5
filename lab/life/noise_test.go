package life

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/channel/simulated"
)

// The sums of a life's cohorts have noise, as much as they state, in every mode but the one without privacy: sums of
// null records vary by it. Some 3000 draws have a mean square within 0.15 of 1 but for one run in 1e7 (seeds are
// fixed); half of the noise has 0.25.
func TestLivesHaveTheirNoise(t *testing.T) {
	for _, m := range []world.Mode{{Kind: world.Arrival}, {Kind: world.Panel, Decisions: 3, Records: 2},
		{Kind: world.Clear}} {
		p, err := newPlayer(small(t, nil), m, 1)
		if err != nil {
			t.Fatal(err)
		}
		channel, _, err := p.trust(p.step)
		if err != nil {
			t.Fatal(err)
		}
		null := simulated.Report{}
		for _, s := range p.step.Statistics[0] {
			null = append(null, make([]float64, s.Dim()))
		}
		squares, draws, src := 0.0, 0.0, rand.NewChaCha8([32]byte{25, 6})
		for draws < 3000 {
			sums, err := channel.Aggregate(func(yield func(simulated.Report) bool) {
				for range p.step.Cohort {
					if !yield(null) {
						return
					}
				}
			}, src)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range sums {
				for j, v := range s.Sum {
					if m.Kind == world.Clear && (v != 0 || s.Variance[j] != 0) {
						t.Fatalf("noise of %v in a life without privacy", v)
					}
					if draws++; s.Variance[j] > 0 {
						squares += v * v / s.Variance[j]
					}
				}
			}
		}
		if mean := squares / draws; m.Kind != world.Clear && math.Abs(mean-1) > 0.15 {
			t.Errorf("%+v: the noise has %.2f of the variance that is stated", m, mean)
		}
	}
}

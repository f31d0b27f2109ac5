package deployment_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// answered is answer with the noise of all reports drawn at once.
func answered(
	t *testing.T, a *plan.Announcement, src *rand.ChaCha8, reports int, person func() []statistic.Record,
) *deployment.Answer {
	t.Helper()
	round := made(plan.CheckRound(a))
	e, s := round.Encodings[0], round.Statistics[0]
	ones := make([]uint64, len(e.Coordinates))
	var v []float64
	var one []uint32
	for range reports {
		v = made(s.Report(v[:0], person(), a.Plan.PerReport()))
		one = made(e.Round(one[:0], v, src))
		for j, n := range one {
			ones[j] += uint64(n)
		}
	}
	if err := e.AddNoise(ones, uint64(reports), src); err != nil {
		t.Fatal(err)
	}
	if err := e.AddServerNoise(ones, a.Releases()[0].ServerNoise(), src); err != nil {
		t.Fatal(err)
	}
	sums := made(deployment.Sums(a, &wire.Counts{Reports: uint32(reports),
		Releases: []wire.ReleaseCounts{{Ones: ones}}}))
	return made(deployment.AnswerOf(a, sums, uint32(reports)))
}

// Intervals hold the truth also where values are skewed, rare, or at the end of their range, where next to nobody has
// anything to report, and where a person's decisions are all alike, in shuffle and shares. Of 400 panels 366 or more
// must hold it: where 95 % do, fewer have a probability of 0.2 %, so that the test, of 40 such counts, fails by chance
// in 8 % at most; seeds are fixed. Where decisions of a person count as independent though they are alike, fewer hold
// it (seen).
func TestAnswersCoverOddWorlds(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	const panels, size = 400, 400
	for _, w := range []struct {
		name                     string
		truth, reporting, chance float64 // of the number 1, else 0
		decisions                int
	}{
		{"skewed", 0.02, 0.7, 0.02, 1}, {"at the end", 1, 0.7, 1, 1}, {"1 % report", 0.5, 0.01, 0.5, 1},
		{"5 % report", 0.3, 0.05, 0.3, 1}, {"alike", 0.3, 1, 0.3, 5},
	} {
		for _, channel := range []plan.Channel{plan.Shuffle, plan.Shares} {
			for kind, edges := range map[statistic.Kind][]float64{statistic.Mean: nil, statistic.Histogram: {0.9}} {
				t.Run(fmt.Sprint(w.name, "/", channel, "/", kind), func(t *testing.T) {
					t.Parallel()
					q := &statistic.Question{Name: "a", Of: []statistic.Quantity{ofArm}, Edges: edges}
					a, _, err := begin(t, panelOf(channel, size, 1, w.decisions)).Asking(kind, q)
					if err != nil {
						t.Fatal(err)
					}
					src := rand.NewChaCha8([32]byte{13, byte(len(channel)), byte(len(kind)), byte(len(w.name))})
					rng, held, counted := rand.New(src), 0, 0
					for range panels {
						n := 0
						got := answered(t, a, src, size, func() (all []statistic.Record) {
							x := 0.
							if rng.Float64() < w.chance {
								x = 1
							}
							if rng.Float64() < w.reporting {
								for range w.decisions {
									all = append(all, statistic.Record{Arm: []float64{x, 0}})
								}
							}
							n += len(all)
							return all
						})
						if v := got.Values[len(got.Values)-1]; v.Low <= w.truth && w.truth <= v.High {
							held++
						}
						if c := got.Count; c.Low <= float64(n) && float64(n) <= c.High {
							counted++
						}
					}
					if t.Logf("held by %d, the count by %d", held, counted); held < 366 || counted < 366 {
						t.Errorf("of %d panels %d hold the truth, and %d the count", panels, held, counted)
					}
				})
			}
		}
	}
}

package contract

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// A29: two cohorts that differ in one record, replaced by its extreme opposite; 10^5 releases of each, twenty people,
// four levels, eight noise bits. No threshold on the count tells them apart better than the certificate says: the
// advantage of the best one is at most delta(0), the total variation that the guarantee allows, plus four standard
// errors of the largest of about 70 candidates (false alarm below 1e-2 if the bound were tight, which it is not: exact
// and certified differ by several percent). Power: half the noise bits have an advantage of 0.35 against 0.25; the test
// itself tries that.
func TestNeighbouringCohortsAreHidden(t *testing.T) {
	t.Parallel()
	const people, levels, bits, releases = 20, 4, 8, 100_000
	certified, err := privacy.Certify(privacy.Release{
		Name: "A29", Blocks: []privacy.Block{{Count: 1, Levels: levels}}, Shift: levels, Noise: people * bits,
		Bias: 0.5, TailDelta: 1e-9,
	})
	if err != nil {
		t.Fatal(err)
	}
	bound := certified.Delta(0) + 4*math.Sqrt(0.5/releases)
	if got := advantage(t, levels, bits, people, releases); got > bound {
		t.Errorf("advantage %.4f, certified is at most %.4f", got, certified.Delta(0))
	}
	if got := advantage(t, levels, bits/2, people, releases); got <= bound {
		t.Errorf("no power: with half the noise the advantage is %.4f, within the bound %.4f", got, bound)
	}
}

// advantage is that of the best threshold on the count between two cohorts which differ in one record.
func advantage(t *testing.T, levels, bits uint32, people, releases int) float64 {
	t.Helper()
	e := protocol.Encoding{Scale: float64(levels), Coordinates: []protocol.Coordinate{{Levels: levels}},
		NoiseBits: bits, Bias: protocol.BiasHalf}
	src := testbed.Source()
	var seen [2]map[uint64]int
	var ones []uint32
	for world, x := range []float64{0, 1} {
		seen[world] = map[uint64]int{}
		for range releases {
			total := make([]uint64, 1)
			for person := range people {
				v := 0.4
				if person == 0 {
					v = x
				}
				var err error
				if ones, err = e.Round(ones, []float64{v}, src); err != nil {
					t.Fatal(err)
				}
				total[0] += uint64(ones[0])
			}
			if err := e.AddNoise(total, uint64(people), src); err != nil {
				t.Fatal(err)
			}
			seen[world][total[0]]++
		}
	}
	best, sum := 0.0, 0
	for n := range uint64(people)*uint64(levels+bits) + 1 {
		sum += seen[0][n] - seen[1][n]
		best = math.Max(best, math.Abs(float64(sum))/float64(releases))
	}
	return best
}

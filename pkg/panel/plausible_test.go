package panel_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"testing"

	"github.com/riffle-dp/riffle/pkg/panel"
)

// at is a rank at that fraction of the largest one.
func at(fraction float64) (r panel.Rank) {
	binary.BigEndian.PutUint64(r[:], uint64(fraction*(1<<63)*2))
	return r
}

// exact is P(Binomial(n, x) < size) of the fraction that a rank means, in rational numbers.
func exact(n, size int, r panel.Rank) *big.Rat {
	x := new(big.Rat).SetFrac(
		new(big.Int).Add(new(big.Int).Lsh(new(big.Int).SetUint64(binary.BigEndian.Uint64(r[:8])), 1), big.NewInt(1)),
		new(big.Int).Lsh(big.NewInt(1), 65))
	left := new(big.Rat).Sub(big.NewRat(1, 1), x)
	sum := new(big.Rat)
	for k := range min(size, n+1) {
		term := new(big.Rat).SetInt(new(big.Int).Binomial(int64(n), int64(k)))
		for range k {
			term.Mul(term, x)
		}
		for range n - k {
			term.Mul(term, left)
		}
		sum.Add(sum, term)
	}
	return sum
}

// Small numbers against sums of rational numbers, for fractions from nearly 0 to nearly 1.
func TestPlausibleIsTheTailOfABinomial(t *testing.T) {
	doubt := new(big.Rat).SetFloat64(panel.Doubt)
	for _, n := range []int{1, 2, 7, 23} {
		for size := 1; size <= n+1; size += 1 + n/6 {
			for _, fraction := range []float64{
				0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-4, 0.001, 0.02, 0.1, 0.3, 0.5, 0.8, 0.95, 0.999, 0.9999, 1 - 1e-6,
				1 - 1e-9, 1 - 1e-12, 1 - 1e-14,
			} {
				r := at(fraction)
				drawn := exact(n, size, r)
				not := new(big.Rat).Sub(big.NewRat(1, 1), drawn)
				if got, want := panel.Plausible(r, n, size, true), drawn.Cmp(doubt) >= 0; got != want {
					t.Errorf("drawn, rank %g, %d of %d: %v", fraction, size, n, got)
				}
				if got, want := panel.Plausible(r, n, size, false), not.Cmp(doubt) >= 0; got != want {
					t.Errorf("not drawn, rank %g, %d of %d: %v", fraction, size, n, got)
				}
			}
		}
	}
	// Where no more are registered than are drawn every device is drawn, whatever its rank.
	for _, n := range []int{1, 7, 1<<32 - 1} {
		for _, fraction := range []float64{0, 0.5, 1 - 1e-14} {
			if panel.Plausible(at(fraction), n, n+1, false) || panel.Plausible(at(fraction), n, math.MaxInt, false) {
				t.Errorf("rank %g of %d is plausible as not drawn where all are drawn", fraction, n)
			}
		}
	}
	for _, wrong := range [][2]int{{0, 1}, {-1, 1}, {1, 0}, {1, -1}, {1 << 33, 1}} {
		if panel.Plausible(at(0), wrong[0], wrong[1], true) || panel.Plausible(at(1-1e-16), wrong[0], wrong[1], false) {
			t.Errorf("%d of %d is plausible", wrong[1], wrong[0])
		}
	}
}

// Large pools: with z the distance of the boundary in standard deviations, 1e-12 lies near z = 7.
func TestPlausibleNearItsBoundary(t *testing.T) {
	for _, n := range []int{5000, 1 << 20, 1<<32 - 1} {
		size := n / 10
		deviation := math.Sqrt(0.1 * 0.9 / float64(n))
		for z, plausible := range map[float64]bool{0: true, 5: true, 9: false, 60: false} {
			if got := panel.Plausible(at(0.1+z*deviation), n, size, true); got != plausible {
				t.Errorf("drawn, %v deviations above the boundary of %d: %v", z, n, got)
			}
			if low := 0.1 - z*deviation; low > 0 {
				if got := panel.Plausible(at(low), n, size, false); got != plausible {
					t.Errorf("not drawn, %v deviations below the boundary of %d: %v", z, n, got)
				}
			}
		}
	}
}

// No device is accused that is told the truth: every one of 400 honest draws of 20 of 100 devices, whether it is drawn
// or not. A false alarm has probability below 1e-7. And a server that puts the last device in the place of the first is
// found out nearly always: 20 others of 100 below a rank of at least 0.95 have probability below 1e-60.
func TestHonestDrawsArePlausible(t *testing.T) {
	all := devices(100)
	lies := 0
	for i := range 400 {
		seed := panel.Seed{byte(i), byte(i >> 8), 3}
		ordered := seed.Panel(all, len(all))
		for place, d := range ordered {
			if !panel.Plausible(seed.Rank(d), len(all), 20, place < 20) {
				t.Fatalf("draw %d: place %d is not plausible", i, place)
			}
		}
		if !panel.Plausible(seed.Rank(ordered[99]), len(all), 20, true) {
			lies++
		}
	}
	if lies < 390 {
		t.Errorf("%d of 400 lies are found", lies)
	}
}

package privacy

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exactTail is P(X > most) of the hypergeometric law, in whole numbers.
func exactTail(registered, dishonest, size, most int) *big.Rat {
	above := new(big.Int)
	for k := max(most+1, size-(registered-dishonest), 0); k <= min(size, dishonest); k++ {
		a := new(big.Int).Binomial(int64(dishonest), int64(k))
		above.Add(above, a.Mul(a, new(big.Int).Binomial(int64(registered-dishonest), int64(size-k))))
	}
	return new(big.Rat).SetFrac(above, new(big.Int).Binomial(int64(registered), int64(size)))
}

// The tail is never below the exact one and at most a relative 1e-11 above it, for all small panels and for some large
// ones, down to tails that no double can hold.
func TestPanelTailIsExactAndRoundedUp(t *testing.T) {
	type of struct{ registered, dishonest, size, most int }
	var all []of
	for registered := range 13 {
		for dishonest := range registered + 1 {
			for size := range registered + 1 {
				for most := -1; most <= size; most++ {
					all = append(all, of{registered, dishonest, size, most})
				}
			}
		}
	}
	all = append(all, []of{{5000, 250, 179, 8}, {5000, 250, 179, 27}, {5000, 250, 2315, 156}, {5000, 250, 2315, 100},
		{5000, 250, 2315, 249}, {3000, 30, 200, 12}, {3000, 2990, 200, 195}, {4000, 2000, 2000, 1900}}...)
	for _, x := range all {
		got, exact := PanelTail(x.registered, x.dishonest, x.size, x.most),
			exactTail(x.registered, x.dishonest, x.size, x.most)
		if new(big.Rat).SetFloat64(got).Cmp(exact) < 0 {
			t.Errorf("%+v: %v is below the exact tail", x, got)
		}
		if want, _ := exact.Float64(); got > want*(1+1e-11)+1e-280 {
			t.Errorf("%+v: %v, exact is %v", x, got, want)
		}
	}
	for _, x := range []of{{-1, 0, 1, 0}, {10, 11, 5, 2}, {10, -1, 5, 2}, {10, 5, -1, 2}} {
		if got := PanelTail(x.registered, x.dishonest, x.size, x.most); got != 1 {
			t.Errorf("%+v describes no panel and has the tail %v", x, got)
		}
	}
}

// The design's figures: 5 % of exactly 5000 devices, and a tail of 1e-7. For pools of any size the second number
// is larger, since half of 5000 devices tell more about the other half than a small part of many does.
func TestPanelFiguresOfTheDesign(t *testing.T) {
	for _, c := range []struct{ size, exact, every int }{{179, 27, 27}, {2315, 156, 174}} {
		most := 0
		for PanelTail(5000, 250, c.size, most) > 1e-7 {
			most++
		}
		if most != c.exact {
			t.Errorf("%d of 5000: at most %d, the design says %d", c.size, most, c.exact)
		}
		if got := PanelDishonest(0.05, c.size, 1e-7); got != c.every {
			t.Errorf("%d of any pool: at most %d, want %d", c.size, got, c.every)
		}
	}
}

// For every pool from the panel's own size on: the tail beyond PanelDishonest is kept. Beyond one less it is not, in a
// pool that is large enough.
func TestPanelDishonestHoldsForEveryPool(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	tight := 0
	for i := range 150 {
		share, size := math.Pow(10, -2.5*r.Float64())*0.9, 1+r.IntN(300)
		tail := math.Pow(10, -1-11*r.Float64())
		most := PanelDishonest(share, size, tail)
		pool := size
		for ; pool < 1<<22; pool += 1 + pool/30*r.IntN(3) {
			if got := PanelTail(pool, int(share*float64(pool)), size, most); got > tail*(1+1e-9) {
				t.Fatalf("case %d: share %v, %d of %d: the tail beyond %d is %v, not %v", i, share, size, pool, most,
					got, tail)
			}
		}
		if most > int(math.Ceil(float64(size)*share)) && PanelTail(1<<32, int(share*(1<<32)), size, most-1) > tail {
			tight++
		}
	}
	if tight < 100 {
		t.Errorf("only %d of 150 numbers are needed in some pool", tight)
	}
	for name, got := range map[string][2]int{
		"nobody is dishonest": {PanelDishonest(0, 100, 1e-9), 0}, "no tail": {PanelDishonest(0.01, 100, 0), 100},
		"everybody": {PanelDishonest(1, 100, 1e-9), 100}, "no number": {PanelDishonest(math.NaN(), 100, 1e-9), 100},
		"a tail that is none": {PanelDishonest(0.01, 100, math.NaN()), 100},
		"nobody at all":       {PanelDishonest(0.1, 0, 1e-9), 0},
		"all of the tail":     {PanelDishonest(0.5, 10, 1), 5}, "a mean just above 1": {PanelDishonest(0.1, 10, 1), 2},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
}

// A person who is in the panel meets no more dishonest devices than a panel in which it is not known who is.
func TestTheOthersOfAPanelAreCoveredByItsTail(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		registered := 2 + r.IntN(60)
		dishonest, size := r.IntN(registered), 1+r.IntN(registered)
		for most := range size {
			with := exactTail(registered-1, dishonest, size-1, most)
			if with.Cmp(exactTail(registered, dishonest, size, most)) > 0 {
				t.Fatalf("%d of %d, %d dishonest, more than %d: likelier beside an honest person", size, registered,
					dishonest, most)
			}
		}
	}
}

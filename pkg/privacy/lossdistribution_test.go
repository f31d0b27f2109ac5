package privacy

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

func binomialTable(t testing.TB, n uint64, p float64) *Binomial {
	t.Helper()
	b, err := NewBinomial(n, p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLossDistributionMatchesBruteForce ties the evaluation to exact sums before it judges anything.
func TestLossDistributionMatchesBruteForce(t *testing.T) {
	b := binomialTable(t, 60, 0.25)
	a := encodedPair(coins(60, 0.25), 0.3, 0.9)
	l, err := NewLossDistribution([]Move{{b, 0.3, 0.9, 2}}, 20, 18)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []float64{0, 0.25, 0.5, 1, 2} {
		within(t, fmt.Sprint("delta at ", e), l.Delta(e), a.times(a).hockeyStick(e), 2e-5, 2e-5)
	}
}

// TestTightForManyBits compares the certificate with the loss distribution at the largest scale for a budget: never
// below it, and for N >= 12000 and at most 15 coordinates at most 2 % above, over several allocations (all in one
// coordinate, equal, unequal), offsets and both directions.
func TestTightForManyBits(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	for _, q := range []struct {
		n       uint64
		p       float64
		D, R    int
		epsilon float64
		above   float64
	}{
		{12000, 0.5, 15, 1, 1, 1.02},
		{12000, 0.5, 15, 1, 0.5, 1.02},
		{12000, 0.5, 5, 8, 1, 1.02},
		{12000, 0.5, 15, 1, 4, 1.02},
		{18000, 0.25, 15, 1, 1, 1.02},
		{60000, 0.5, 5, 1, 1, 1.02},
		{60000, 0.1, 15, 1, 1, 1.02},
		{3000, 0.5, 55, 1, 1, 1.1},
		{5500, 0.5, 55, 32, 1, 1.1},
		{500, 0.5, 15, 1, 4, 1.2},
	} {
		const delta = 1e-6
		target, err := MuFor(q.epsilon, 0.98*delta)
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewCertifier(q.n, q.p, 0.02*delta/float64(q.R*q.D))
		if err != nil {
			t.Fatal(err)
		}
		blocks := []Block{{q.D, math.Inf(1)}}
		g, err := c.LargestScale(1, blocks, target/math.Sqrt(float64(q.R)))
		if err != nil {
			t.Fatal(err)
		}
		one, err := c.Certify(blocks, g)
		if err != nil {
			t.Fatal(err)
		}
		all := Guarantee{}
		for range q.R {
			all = Compose(all, one)
		}
		bound := all.Epsilon(delta)
		b := c.scores.bin
		exact := 0.0
		for _, moves := range [][]Move{
			{{b, 0, g, q.R}},
			{{b, 0.5, -g, q.R}},
			{{b, 0, g / math.Sqrt(float64(q.D)), q.R * q.D}},
			{{b, 0.5, -g / math.Sqrt(float64(q.D)), q.R * q.D}},
			{{b, 0, 0.8 * g, q.R}, {b, 0, 0.6 * g / math.Sqrt(float64(q.D-1)), q.R * (q.D - 1)}},
			{{b, 0.5, 0.6 * g, q.R}, {b, 0.25, -0.8 * g / math.Sqrt(float64(q.D-1)), q.R * (q.D - 1)}},
		} {
			l, err := NewLossDistribution(moves, 4+3*q.epsilon, 15)
			if err != nil {
				t.Fatal(err)
			}
			exact = math.Max(exact, l.Epsilon(delta))
		}
		ratio := bound / exact
		t.Logf("N=%d p=%v D=%d R=%d: g %.4f, certified epsilon %.5f, worst allocation %.5f, ratio %.4f",
			q.n, q.p, q.D, q.R, g, bound, exact, ratio)
		if ratio < 1 || ratio > q.above {
			t.Errorf("N=%d p=%v D=%d R=%d: certified/exact epsilon %v, want 1 to %v",
				q.n, q.p, q.D, q.R, ratio, q.above)
		}
	}
}

// TestLossDistributionGolden reproduces evaluations made with another implementation: the epsilon at delta 1e-6 when
// one coordinate carries the whole shift or all share it equally, and the worst delta at epsilon over numbers of moving
// coordinates and offsets.
func TestLossDistributionGolden(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	for _, q := range []struct {
		n          uint64
		p          float64
		D, R       int
		g          float64
		one, equal float64
	}{
		{3000, 0.5, 5, 1, 6.407, 0.9920, 0.9892},
		{3000, 0.5, 15, 8, 2.189, 0.9538, 0.9549},
		{12000, 0.5, 15, 1, 12.908, 0.9959, 0.9960},
		{18000, 0.25, 15, 1, 13.507, 0.9948, 0.9849},
		{60000, 0.5, 5, 8, 10.211, 0.9961, 0.9961},
	} {
		b := binomialTable(t, q.n, q.p)
		worst := [2]float64{}
		for i, m := range []int{1, q.D} {
			shift := q.g / math.Sqrt(float64(m))
			for k := range 10 {
				offset := float64(k) / 10
				for _, s := range []float64{shift, -shift} {
					l, err := NewLossDistribution([]Move{{b, offset, s, m * q.R}}, 7, 13)
					if err != nil {
						t.Fatal(err)
					}
					worst[i] = math.Max(worst[i], l.Epsilon(1e-6))
				}
			}
		}
		if math.Abs(worst[0]-q.one) > 1e-3 || math.Abs(worst[1]-q.equal) > 1e-3 {
			t.Errorf("N=%d p=%v D=%d R=%d: epsilon %.4f in one coordinate, %.4f spread, want %v and %v",
				q.n, q.p, q.D, q.R, worst[0], worst[1], q.one, q.equal)
		}
	}
	for _, q := range []struct {
		n       uint64
		p       float64
		R, m    int
		epsilon float64
		g, want float64
	}{{500, 0.5, 1, 1, 1, 2.256, 4.97e-8}, {500, 0.5, 1, 1, 4, 9, 4.79e-7}, {1000, 0.5, 1, 15, 0.5, 1.745, 1.35e-7},
		{1000, 0.25, 1, 1, 1, 2.82, 2.22e-7}, {2000, 0.5, 8, 15, 1, 1.753, 2.72e-7}} {
		b := binomialTable(t, q.n, q.p)
		worst := 0.0
		for k := range 16 {
			offset := float64(k) / 16
			for _, s := range []float64{1, -1} {
				l, err := NewLossDistribution([]Move{{b, offset, s * q.g / math.Sqrt(float64(q.m)), q.m * q.R}},
					4+3*q.epsilon, 14)
				if err != nil {
					t.Fatal(err)
				}
				worst = math.Max(worst, l.Delta(q.epsilon))
			}
		}
		within(t, fmt.Sprintf("worst delta at epsilon %v, N=%d p=%v m=%d R=%d", q.epsilon, q.n, q.p, q.m, q.R), worst,
			q.want, 0.05, 0.05)
	}
}

func TestLossDistributionRefuses(t *testing.T) {
	b := binomialTable(t, 100, 0.5)
	for name, q := range map[string]struct {
		m    Move
		span float64
		bits int
	}{
		"no noise": {Move{nil, 0, 1, 1}, 5, 10}, "offset": {Move{b, 1, 1, 1}, 5, 10},
		"NaN shift":     {Move{b, 0, math.NaN(), 1}, 5, 10},
		"no coordinate": {Move{b, 0, 1, 0}, 5, 10}, "span": {Move{b, 0, 1, 1}, math.Inf(1), 10},
		"bits": {Move{b, 0, 1, 1}, 5, 40},
	} {
		if _, err := NewLossDistribution([]Move{q.m}, q.span, q.bits); !errors.Is(err, ErrMove) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

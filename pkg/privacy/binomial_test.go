package privacy

import (
	"errors"
	"math"
	"math/big"
	"testing"
)

// TestBinomialAgainstBigFloat compares whole tables, both tails, with 200-bit arithmetic.
func TestBinomialAgainstBigFloat(t *testing.T) {
	for _, q := range []struct {
		n uint64
		p float64
	}{{1, 0.5}, {2, 0.05}, {50, 0.05}, {50, 0.5}, {333, 0.25}, {900, 0.1}, {1500, 0.5}, {1200, 0.9}} {
		b := binomialTable(t, q.n, q.p)
		law := make([]*big.Float, q.n+1)
		number := func(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }
		choose := big.NewInt(0)
		powers := func(x *big.Float) []*big.Float {
			out := []*big.Float{number(1)}
			for range q.n {
				out = append(out, new(big.Float).SetPrec(200).Mul(out[len(out)-1], x))
			}
			return out
		}
		up, down := powers(number(q.p)), powers(new(big.Float).SetPrec(200).Sub(number(1), number(q.p)))
		for k := range law {
			choose.Binomial(int64(q.n), int64(k))
			law[k] = new(big.Float).SetPrec(200).SetInt(choose)
			law[k].Mul(law[k], up[k]).Mul(law[k], down[int(q.n)-k])
		}
		lower, upper := make([]float64, q.n+1), make([]float64, q.n+1)
		sum := number(0)
		for k := range law {
			sum = new(big.Float).SetPrec(200).Add(sum, law[k])
			lower[k], _ = sum.Float64()
		}
		sum = number(0)
		for k := int(q.n); k >= 0; k-- {
			upper[k], _ = sum.Float64()
			sum = new(big.Float).SetPrec(200).Add(sum, law[k])
		}
		for k := range law {
			mass, _ := law[k].Float64()
			for _, c := range []struct{ got, want float64 }{{b.Probability(k), mass}, {b.CDF(k), lower[k]},
				{b.Survival(k), upper[k]}} {
				if c.want > 1e-45 && math.Abs(c.got/c.want-1) > b.relativeError || c.got < 0 || c.got > 1+1e-12 {
					t.Fatalf("n=%d p=%v k=%d: %v, want %v", q.n, q.p, k, c.got, c.want)
				}
			}
		}
	}
}

func TestBinomialRefuses(t *testing.T) {
	for _, q := range []struct {
		n uint64
		p float64
	}{{0, 0.5}, {MaxNoise + 1, 0.5}, {10, 0}, {10, 1}, {10, -0.5}, {10, math.NaN()}, {10, math.Inf(1)}} {
		if _, err := NewBinomial(q.n, q.p); !errors.Is(err, ErrNoise) {
			t.Errorf("n=%d p=%v: %v", q.n, q.p, err)
		}
	}
}

package privacy

import (
	"math"
	"testing"
)

// TestQuantileInTails inverts the complementary error function independently, down to probabilities of 1e-300.
func TestQuantileInTails(t *testing.T) {
	for e := 0.31; e < 300; e *= 1.07 {
		p := math.Pow(10, -e)
		if got, want := quantile(p), bisectQuantile(p); math.Abs(got-want) > 4e-14*(1+math.Abs(want)) {
			t.Errorf("quantile(%v) = %v, want %v", p, got, want)
		}
	}
	for _, q := range []struct{ p, want float64 }{{0, math.Inf(-1)}, {1, math.Inf(1)}, {0.5, 0}, {-1, math.Inf(-1)},
		{2, math.Inf(1)}} {
		if got := quantile(q.p); got != q.want {
			t.Errorf("quantile(%v) = %v, want %v", q.p, got, q.want)
		}
	}
	if !math.IsNaN(quantile(math.NaN())) {
		t.Error("NaN swallowed")
	}
}

func TestScaledErfc(t *testing.T) {
	// Reference values of exp(u^2) erfc(u) from its continued fraction.
	fraction := func(u float64) float64 {
		f := 0.0
		for k := 4000; k > 0; k-- {
			f = float64(k) / 2 / (u + f)
		}
		return 1 / (u + f) / math.Sqrt(math.Pi)
	}
	for u := 0.5; u < 1e4; u *= 1.01 {
		if got, want := scaledErfc(u), fraction(u); math.Abs(got/want-1) > 2e-14 {
			t.Errorf("scaledErfc(%v) = %v, want %v", u, got, want)
		}
	}
}

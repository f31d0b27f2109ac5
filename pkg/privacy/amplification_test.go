package privacy

import (
	"math"
	"testing"
)

// clonesDelta returns the exact hockey-stick divergence of the dominating pair of Feldman, McMillan and Talwar ("Hiding
// among the clones", 2021, Theorem 3.1): with C ~ Bin(n-1, exp(-epsilon0)) and A ~ Bin(C, 1/2), one more report lands
// on A with probability exp(epsilon0)/(1+exp(epsilon0)) under one record and with the rest under the other. The pair is
// its own mirror image, so one direction is enough.
func clonesDelta(n int, epsilon0, epsilon float64) float64 {
	alpha := 1 / (1 + math.Exp(-epsilon0))
	clones, err := NewBinomial(uint64(n-1), math.Exp(-epsilon0))
	if err != nil {
		panic(err)
	}
	mean, sigma := float64(n-1)*math.Exp(-epsilon0), clones.Sigma()
	delta := 0.0
	for c := max(0, int(mean-9*sigma)); c <= int(mean+9*sigma); c++ {
		halves, err := NewBinomial(uint64(max(1, c)), 0.5)
		if err != nil {
			panic(err)
		}
		inner := 0.0
		for a := c/2 - int(9*math.Sqrt(float64(c))/2) - 2; a <= c/2+int(9*math.Sqrt(float64(c))/2)+2; a++ {
			here, before := halves.Probability(a), halves.Probability(a-1)
			p := alpha*before + (1-alpha)*here
			q := alpha*here + (1-alpha)*before
			inner += math.Max(0, p-math.Exp(epsilon)*q)
		}
		delta += clones.Probability(c) * inner
	}
	return delta + 1e-17 // what lies beyond nine standard deviations
}

// TestAppleAmplificationExample reproduces the example of Apple's amplification script: 100000 reports of a 4-DP
// randomizer, delta 1e-6; the script brackets epsilon between 0.1675 and 0.1728 (its bisection stops at about 0.001).
func TestAppleAmplificationExample(t *testing.T) {
	lo, hi := 0.0, 1.0
	for hi-lo > 1e-4 {
		mid := (lo + hi) / 2
		if clonesDelta(100000, 4, mid) <= 1e-6 {
			hi = mid
		} else {
			lo = mid
		}
	}
	if hi < 0.1675 || hi > 0.1728 {
		t.Errorf("epsilon %v, want 0.1675 to 0.1728", hi)
	}
	t.Logf("epsilon %.4f", hi)
	// A single-message binary randomizer with the same local epsilon and the same number of honest coins as clones: the
	// certificate of the binomial protocol with N = the expected number of clones must be in the same region, as both
	// describe one report hidden among about that many fair coins.
	clones := uint64(100000 * math.Exp(-4))
	g, err := Certify(Release{Blocks: []Block{{1, 1}}, Shift: 1, Noise: clones, Bias: 0.5, TailDelta: 2e-8})
	if err != nil {
		t.Fatal(err)
	}
	if e := g.Epsilon(1e-6); e < hi || e > 1.3*hi {
		t.Errorf("binomial certificate with %d coins: epsilon %v, want a little above %v", clones, e, hi)
	}
}

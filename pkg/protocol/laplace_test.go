package protocol_test

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// laplacePMF is P(x) for |x| <= reach, and the rest of the mass in the last place.
func laplacePMF(l protocol.DiscreteLaplace, reach int) []float64 {
	ratio := math.Exp(-float64(l.Denominator) / float64(l.Numerator))
	pmf := make([]float64, 2*reach+2)
	rest := 1.0
	for x := -reach; x <= reach; x++ {
		p := (1 - ratio) / (1 + ratio) * math.Pow(ratio, math.Abs(float64(x)))
		pmf[x+reach] = p
		rest -= p
	}
	pmf[2*reach+1] = max(0, rest)
	return pmf
}

// The samples have the law, by chi-square, for scales below, at and above 1, whole and broken. A right sampler fails
// with probability falseAlarm over the choice of seeds, which are fixed.
func TestDiscreteLaplaceHasItsLaw(t *testing.T) {
	const samples = 200_000
	var findings []finding
	for i, l := range []protocol.DiscreteLaplace{{1, 1}, {3, 1}, {1, 2}, {7, 3}, {3, 7}, {20, 1}, {65, 64}} {
		src := seeded("laplace", i)
		reach := 4 + int(12*l.Numerator/l.Denominator)
		seen := make([]int, 2*reach+2)
		for range samples {
			x := l.Sample(src)
			if at := x + int64(reach); at >= 0 && at <= int64(2*reach) {
				seen[at]++
			} else {
				seen[2*reach+1]++
			}
		}
		expected := laplacePMF(l, reach)
		for k := range expected {
			expected[k] *= samples
		}
		findings = append(findings, finding{name: string(rune('a' + i)), p: chiSquare(seen, expected)})
	}
	if p, name := worst(findings); p < falseAlarm {
		t.Errorf("the samples do not have the law: %s", name)
	}
}

// What servers add has the law of their bits, is decoded away, and is in the variance.
func TestServerNoiseIsDecoded(t *testing.T) {
	e := protocol.Encoding{Scale: 1, NoiseBits: 2, Bias: protocol.BiasQuarter,
		Coordinates: []protocol.Coordinate{{Levels: 3}, {Levels: 1}}}
	const serverBits, times = 4000, 4000
	src := seeded("server noise", 1)
	var sum, squares float64
	for range times {
		ones := []uint64{7, 0}
		if err := e.AddServerNoise(ones, serverBits, src); err != nil {
			t.Fatal(err)
		}
		if ones[0] > serverBits+7 {
			t.Fatal("more ones than bits")
		}
		x := float64(ones[1]) - serverBits/4
		sum += x
		squares += x * x
	}
	variance := e.Variance(10, serverBits)[0] - e.Variance(10, 0)[0]
	if want := serverBits * 3.0 / 16; math.Abs(variance/want-1) > 1e-12 {
		t.Errorf("the variance of the noise is %v, want %v", variance, want)
	}
	p, name := worst([]finding{{"mean", twoSided(sum / math.Sqrt(variance*times))},
		{"variance", twoSided((squares/variance - times) / math.Sqrt(2*times))}})
	if p < falseAlarm {
		t.Errorf("the noise is not binomial: %s", name)
	}

	sums, err := e.Decode([]uint64{5 + 5 + 1000, 5 + 1000}, 10, serverBits) // 20 and 4000 bits of one quarter
	if err != nil || sums[0] != 5 || sums[1] != 0 {
		t.Errorf("decoded %v, %v", sums, err)
	}
	if _, err := e.Decode([]uint64{10*5 + serverBits, 10*3 + serverBits}, 10, serverBits); err != nil {
		t.Errorf("all bits are ones: %v", err)
	}
	none := protocol.Encoding{Scale: 1, Coordinates: e.Coordinates}
	for _, c := range []struct {
		name    string
		e       protocol.Encoding
		ones    []uint64
		reports uint64
		server  uint64
		err     error
	}{
		{"one more than can be", e, []uint64{10*5 + serverBits + 1, 0}, 10, serverBits, protocol.ErrCounts},
		{"a counter that overflows", e, []uint64{0, 0}, math.MaxUint64 / 5, 1 << 20, protocol.ErrCounts},
		{"no bias", none, []uint64{0, 0}, 10, 1, protocol.ErrEncoding},
	} {
		if _, err := c.e.Decode(c.ones, c.reports, c.server); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	full := []uint64{1, math.MaxUint64 - 5}
	if err := e.AddServerNoise(full, 6, src); !errors.Is(err, protocol.ErrCounts) || full[0] != 1 {
		t.Errorf("noise that may overflow: %v, counts %v", err, full)
	}
	if err := none.AddServerNoise([]uint64{0}, 1, src); !errors.Is(err, protocol.ErrEncoding) {
		t.Errorf("noise without a bias: %v", err)
	}
}

package protocol_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

const (
	noiseRows    = 40_000
	noiseColumns = 20
)

// encodedNoise is the noise that the real encoder adds: zero vectors have level 0, so all ones are noise.
func encodedNoise(t *testing.T, noiseBits int, bias protocol.Bias, src protocol.Source) [][]uint32 {
	t.Helper()
	e := uniform(noiseColumns, 0, 4, 1, uint32(noiseBits), bias)
	x := make([]float64, noiseColumns)
	rows := make([][]uint32, noiseRows)
	for i := range rows {
		var err error
		if rows[i], err = e.Encode(nil, x, src); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// False alarm 1e-6 per case (testNoise, Bonferroni). Its power is what TestNoiseDefectsAreCaught shows.
func TestNoiseIsBinomial(t *testing.T) {
	statistical(t)
	third, err := protocol.BiasFrom(1.0 / 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		noiseBits int
		bias      protocol.Bias
	}{
		{25, protocol.BiasHalf}, {25, protocol.BiasQuarter}, {25, third},
		{1, protocol.BiasHalf}, {6, protocol.BiasHalf}, {64, protocol.BiasHalf}, {65, protocol.BiasQuarter},
		{200, protocol.BiasHalf},
		{9, 343597384}, {25, 1<<32 - 1<<29},
	} {
		rows := encodedNoise(t, c.noiseBits, c.bias, seeded("noise", c.noiseBits))
		if p, name := testNoise(rows, c.noiseBits, c.bias.Float()); p < falseAlarm {
			t.Errorf("Bin(%d, %v): rejected by %s", c.noiseBits, c.bias.Float(), name)
		}
	}
}

// repeating hands out every stretch of length words twice: two processes with one seed, in lock step.
type repeating struct {
	src    protocol.Source
	words  []uint64
	length int
	at     int
}

func (r *repeating) Uint64() uint64 {
	if r.at == 2*r.length || r.words == nil {
		r.words = make([]uint64, r.length)
		for i := range r.words {
			r.words[i] = r.src.Uint64()
		}
		r.at = 0
	}
	word := r.words[r.at%r.length]
	r.at++
	return word
}

// The same test, at the same threshold, rejects every planted defect. Power: with 2*10^7 noise bits, a relative bias of
// 0.4 % moves the mean by 17.9 standard errors at p = 1/2 and by 10.3 at p = 1/4 against a threshold of 5.3, so that
// less than one such defect in 10^6 gets through; the other defects are further away still. Two seeds of each are run.
func TestNoiseDefectsAreCaught(t *testing.T) {
	statistical(t)
	const n = 25
	half, quarter := protocol.BiasHalf, protocol.BiasQuarter
	stride := 2 * noiseColumns // at p = 1/2 a report of 20 coordinates takes one rounding and one noise word for each
	defects := []struct {
		name string
		p    protocol.Bias
		draw func(src *rand.ChaCha8) [][]uint32
	}{
		{"bias 0.4 % too large", half, func(src *rand.ChaCha8) [][]uint32 {
			return encodedNoise(t, n, protocol.Bias(1.004*float64(half)), src)
		}},
		{"bias 0.4 % too small", quarter, func(src *rand.ChaCha8) [][]uint32 {
			return encodedNoise(t, n, protocol.Bias(0.996*float64(quarter)), src)
		}},
		{"one bit too few", half, func(src *rand.ChaCha8) [][]uint32 { return encodedNoise(t, n-1, half, src) }},
		{"one bit too many", half, func(src *rand.ChaCha8) [][]uint32 { return encodedNoise(t, n+1, half, src) }},
		{"one stream for two reports", half, func(src *rand.ChaCha8) [][]uint32 {
			return encodedNoise(t, n, half, &repeating{src: src, length: stride})
		}},
		{"one stream for two processes", half, func(src *rand.ChaCha8) [][]uint32 {
			return encodedNoise(t, n, half, &repeating{src: src, length: stride * noiseRows / 2})
		}},
		{"one stream for two processes, out of step", half, func(src *rand.ChaCha8) [][]uint32 {
			return encodedNoise(t, n, half, &repeating{src: src, length: stride * 1237})
		}},
		{"one stream for two coordinates", half, func(src *rand.ChaCha8) [][]uint32 {
			return encodedNoise(t, n, half, &repeating{src: src, length: 2})
		}},
		{"last coordinate copies the first", half, func(src *rand.ChaCha8) [][]uint32 {
			rows := encodedNoise(t, n, half, src)
			for _, row := range rows {
				row[noiseColumns-1] = row[0]
			}
			return rows
		}},
		{"floating-point Gaussian of the right mean and variance, rounded", half, func(src *rand.ChaCha8) [][]uint32 {
			normal := rand.New(src)
			rows := encodedNoise(t, n, half, src)
			for _, row := range rows {
				for j := range row { // 1/12 of the variance comes from rounding to integers
					row[j] = uint32(math.Round(n*0.5 + math.Sqrt(n*0.25-1.0/12)*normal.NormFloat64()))
				}
			}
			return rows
		}},
		{"comparison rounded to 8 binary digits", quarter + quarter/64, func(src *rand.ChaCha8) [][]uint32 {
			float := rand.New(src)
			rows := encodedNoise(t, n, quarter, src)
			for _, row := range rows {
				for j := range row {
					row[j] = 0
					for range n {
						if math.Round(256*float.Float64())/256 < (quarter + quarter/64).Float() {
							row[j]++
						}
					}
				}
			}
			return rows
		}},
	}
	for _, defect := range defects {
		for seed := range 2 {
			p, name := testNoise(defect.draw(seeded("defect", seed)), n, defect.p.Float())
			if p >= falseAlarm {
				t.Errorf("%s, seed %d: not rejected, p = %.3g", defect.name, seed, p)
			} else if seed == 0 {
				t.Logf("%s: rejected by %s", defect.name, name)
			}
		}
	}
}

// Every sequence of random bits is run through: the distribution is the binomial one, to the last digit.
func TestBinomialExhaustively(t *testing.T) {
	const digits = 3
	for n := 1; n <= 4; n++ {
		for k := 1; k < 1<<digits; k++ {
			bias := protocol.Bias(k) << (32 - digits)
			seen := make([]int, n+1)
			for script := range 1 << (n * digits) {
				src := &scripted{script: uint64(script), width: n}
				seen[protocol.Binomial(uint64(n), bias, src)]++
			}
			for ones, got := range seen { // C(n, ones) k^ones (8-k)^(n-ones) of the 8^n equally likely scripts
				want := 1
				for i := range ones {
					want = want * (n - i) / (i + 1)
				}
				for range ones {
					want *= k
				}
				for range n - ones {
					want *= 1<<digits - k
				}
				if got != want {
					t.Errorf("Bin(%d, %d/8): %d ones in %d of %d scripts, want %d",
						n, k, ones, got, 1<<(n*digits), want)
				}
			}
		}
	}
}

// scripted returns width bits of its script per word, on top.
type scripted struct {
	script uint64
	width  int
}

func (s *scripted) Uint64() uint64 {
	word := s.script << (64 - s.width)
	s.script >>= s.width
	return word
}

func TestBinomialEdges(t *testing.T) {
	src := seeded("edges", 0)
	for _, c := range []struct {
		n    uint64
		p    protocol.Bias
		want uint64
	}{{0, protocol.BiasHalf, 0}, {1000, 0, 0}, {0, 0, 0}} {
		if got := protocol.Binomial(c.n, c.p, src); got != c.want {
			t.Errorf("Bin(%d, %v) = %d", c.n, c.p.Float(), got)
		}
	}
	// All ones or all zeros from the source: no number's digit is 0, or every number's is.
	if got := protocol.Binomial(1000, protocol.BiasHalf, constant(0)); got != 0 {
		t.Errorf("zero words: %d", got)
	}
	if got := protocol.Binomial(1000, protocol.BiasHalf, constant(math.MaxUint64)); got != 1000 {
		t.Errorf("all-one words: %d", got)
	}
}

// Large draws: mean and variance of 300 draws from Bin(10^6, p), and of 3 from Bin(10^8, p). False alarm 1e-6 per bias
// (normal deviates; both sizes and both moments by Bonferroni). Power: at
// p = 1/2 a relative bias of 0.4 % is 69 standard errors away.
func TestBinomialLarge(t *testing.T) {
	statistical(t)
	for _, bias := range []protocol.Bias{protocol.BiasHalf, protocol.BiasQuarter, 1503238554, 12345} {
		var findings []finding
		for _, size := range []struct{ n, draws int }{{1_000_000, 300}, {100_000_000, 3}} {
			src := seeded("large", size.n)
			p := bias.Float()
			mean, variance := float64(size.n)*p, float64(size.n)*p*(1-p)
			var first, second float64
			for range size.draws {
				z := (float64(protocol.Binomial(uint64(size.n), bias, src)) - mean) / math.Sqrt(variance)
				first += z
				second += z*z - 1
			}
			kurtosis := 2 + (1-6*p*(1-p))/variance
			findings = append(findings,
				finding{fmt.Sprintf("mean, n = %d", size.n), twoSided(first / math.Sqrt(float64(size.draws)))},
				finding{fmt.Sprintf("variance, n = %d", size.n),
					twoSided(second / math.Sqrt(float64(size.draws)*kurtosis))})
		}
		if p, name := worst(findings); p < falseAlarm {
			t.Errorf("bias %v: rejected by %s", bias.Float(), name)
		}
	}
}

func TestBiasFrom(t *testing.T) {
	for _, c := range []struct {
		p    float64
		want protocol.Bias
	}{{0.5, protocol.BiasHalf}, {0.25, protocol.BiasQuarter}, {0x1p-32, 1}, {1 - 0x1p-32, math.MaxUint32},
		{1.0 / 3, 1431655765}} {
		got, err := protocol.BiasFrom(c.p)
		if err != nil || got != c.want {
			t.Errorf("BiasFrom(%v) = %d, %v; want %d", c.p, got, err, c.want)
		}
	}
	for _, p := range []float64{0, 1, -0.1, 1.5, math.NaN(), math.Inf(1), math.Inf(-1), 0x1p-34, 1 - 0x1p-40} {
		if got, err := protocol.BiasFrom(p); err == nil {
			t.Errorf("BiasFrom(%v) = %d, want an error", p, got)
		}
	}
}

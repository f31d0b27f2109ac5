package protocol_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// falseAlarm is the probability with which each statistical test of this package would reject a correct implementation,
// were its seed drawn at random. Seeds are fixed, so a test that passes keeps passing.
const falseAlarm = 1e-6

// seeded returns a deterministic source; different labels give independent streams.
func seeded(label string, n int) *rand.ChaCha8 {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:8], uint64(n))
	copy(seed[8:], label)
	return rand.NewChaCha8(seed)
}

// finding is one sub-test's p-value, already multiplied by the number of comparisons it made.
type finding struct {
	name string
	p    float64
}

// worst combines findings by Bonferroni: the p-value of all of them together, and the name of the smallest.
func worst(findings []finding) (float64, string) {
	least := finding{p: math.Inf(1)}
	for _, f := range findings {
		if f.p < least.p {
			least = f
		}
	}
	return least.p * float64(len(findings)), fmt.Sprintf("%s (p = %.3g)", least.name, least.p)
}

// twoSided is the p-value of a standard normal deviate.
func twoSided(z float64) float64 { return math.Erfc(math.Abs(z) / math.Sqrt2) }

// chiSquare compares observed cell counts with their expectations; cells expected fewer than 25 times are pooled.
func chiSquare(observed []int, expected []float64) float64 {
	var statistic, pooledSeen, pooledExpected float64
	cells := 0
	for i, want := range expected {
		if want < 25 {
			pooledSeen += float64(observed[i])
			pooledExpected += want
			continue
		}
		gap := float64(observed[i]) - want
		statistic += gap * gap / want
		cells++
	}
	if pooledExpected >= 25 {
		gap := pooledSeen - pooledExpected
		statistic += gap * gap / pooledExpected
		cells++
	} else if pooledExpected > 0 {
		// Too rare for the approximation: an exact Poisson bound on seeing this number or more, doubled as a margin.
		rare := distuv.Poisson{Lambda: pooledExpected}
		if 2*rare.Survival(pooledSeen-1) < falseAlarm/10 {
			return 0
		}
	} else if pooledSeen > 0 {
		return 0
	}
	return distuv.ChiSquared{K: float64(cells - 1)}.Survival(statistic)
}

// binomialPMF is the probability mass of Bin(n, p) on 0..n.
func binomialPMF(n int, p float64) []float64 {
	pmf := make([]float64, n+1)
	for k := range pmf {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(k + 1))
		c, _ := math.Lgamma(float64(n - k + 1))
		pmf[k] = math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	}
	return pmf
}

// testNoise is the statistical test of noise: rows (reports) of columns (coordinates) that claim to be independent
// draws from Bin(n, p). It returns one p-value for all of: distribution, mean, variance, correlation between any two
// coordinates, between a report and the next, between the first and the second half of all reports, and repeated
// reports.
func testNoise(rows [][]uint32, n int, p float64) (float64, string) {
	columns, total := len(rows[0]), float64(len(rows)*len(rows[0]))
	mean, variance := float64(n)*p, float64(n)*p*(1-p)
	fourth := variance * (1 + 3*float64(n-2)*p*(1-p))

	seen := make([]int, n+1)
	outside := 0
	pairs := make([]float64, columns*columns)
	var first, second, next, half float64
	repeats := map[string]int{}
	centred := make([][]float64, len(rows))
	for i, row := range rows {
		centred[i] = make([]float64, columns)
		key := make([]byte, 0, 4*columns)
		for j, value := range row {
			if int(value) > n {
				outside++
			} else {
				seen[value]++
			}
			gap := float64(value) - mean
			centred[i][j] = gap
			first += gap
			second += gap*gap - variance
			for k := range j {
				pairs[k*columns+j] += gap * centred[i][k]
			}
			if i > 0 {
				next += gap * centred[i-1][j]
			}
			if i >= len(rows)/2 {
				half += gap * centred[i-len(rows)/2][j]
			}
			key = binary.LittleEndian.AppendUint32(key, value)
		}
		repeats[string(key)]++
	}
	expected := binomialPMF(n, p)
	collision := 0.0 // probability that one coordinate of two reports agrees
	for k := range expected {
		collision += expected[k] * expected[k]
		expected[k] *= total
	}
	distribution := chiSquare(seen, expected)
	if outside > 0 {
		distribution = 0
	}
	findings := []finding{
		{"distribution", distribution},
		{"mean", twoSided(first / math.Sqrt(total*variance))},
		{"variance", twoSided(second / math.Sqrt(total*(fourth-variance*variance)))},
		{"next report", twoSided(next / (variance * math.Sqrt(total-float64(columns))))},
		{"half of the reports later",
			twoSided(half / (variance * math.Sqrt(float64(columns*(len(rows)-len(rows)/2)))))},
	}
	if columns > 1 {
		strongest := 0.0
		for _, sum := range pairs {
			strongest = max(strongest, math.Abs(sum)/(variance*math.Sqrt(float64(len(rows)))))
		}
		findings = append(findings, finding{"between coordinates",
			twoSided(strongest) * float64(columns*(columns-1)/2)})
	}
	// Markov: the expected number of equal pairs bounds the probability of one. Only telling where it is far below
	// falseAlarm.
	equalPairs := float64(len(rows)) * float64(len(rows)) / 2 * math.Pow(collision, float64(columns))
	if equalPairs < falseAlarm/100 {
		p := 1.0
		if len(repeats) < len(rows) {
			p = equalPairs
		}
		findings = append(findings, finding{"repeated report", p})
	}
	return worst(findings)
}

func chiSquareSurvival(statistic float64, degrees int) float64 {
	return distuv.ChiSquared{K: float64(degrees)}.Survival(statistic)
}

// statistical skips a test of distributions under the race detector: it draws millions of numbers in one goroutine,
// where there is nothing to find and everything takes ten times as long. The plain test run has it.
func statistical(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("one goroutine, millions of draws: left to the run without the race detector")
	}
}

package privacy

import (
	"errors"
	"fmt"
	"math"
)

// MaxNoise is the largest number of noise bits that a table is built for. More bits only add independent noise, so a
// certificate for MaxNoise bits also holds for more; Certify uses that.
const MaxNoise = 1 << 31

// tailFloor is the size, relative to the mode, at which the tables stop: about 16.6 standard deviations out.
const tailFloor = 1e-60

// ErrNoise says that a number of noise bits or a bias admits no noise table. It is wrapped with the offending value.
var ErrNoise = errors.New("privacy: invalid noise")

// Binomial is the law of the sum of N independent noise bits, tabulated once: immutable and safe for concurrent use.
// The survival function is summed from its own tail, so both tails keep their relative accuracy.
type Binomial struct {
	n             uint64
	p             float64
	first         int // index of the first tabulated count
	pmf, cdf, sf  []float64
	relativeError float64
}

// NewBinomial tabulates Bin(n, p) for 1 <= n <= MaxNoise and 0 < p < 1. Memory and time grow like 33 sqrt(n p (1-p)).
func NewBinomial(n uint64, p float64) (*Binomial, error) {
	if n < 1 || n > MaxNoise {
		return nil, fmt.Errorf("%w: %d noise bits, want 1 to %d", ErrNoise, n, uint64(MaxNoise))
	}
	if !(p > 0 && p < 1) {
		return nil, fmt.Errorf("%w: bias %v, want a number strictly between 0 and 1", ErrNoise, p)
	}
	mode := min(int(float64(n+1)*p), int(n))
	odds := p / (1 - p)
	var down []float64 // mode-1, mode-2, ...
	for k, v := mode, 1.0; k > 0; k-- {
		v *= float64(k) / (float64(int(n)-k+1) * odds)
		if v < tailFloor {
			break
		}
		down = append(down, v)
	}
	first := mode - len(down)
	pmf := make([]float64, 0, 2*len(down)+2)
	for i := len(down) - 1; i >= 0; i-- {
		pmf = append(pmf, down[i])
	}
	pmf = append(pmf, 1)
	for k, v := mode, 1.0; k < int(n); k++ {
		v *= float64(int(n)-k) * odds / float64(k+1)
		if v < tailFloor {
			break
		}
		pmf = append(pmf, v)
	}
	cdf, sf := make([]float64, len(pmf)), make([]float64, len(pmf))
	sum := 0.0
	for i, v := range pmf {
		sum += v
		cdf[i] = sum
	}
	sum = 0
	for i := len(pmf) - 1; i >= 0; i-- {
		sf[i] = sum
		sum += pmf[i]
	}
	m := mode - first
	scale := 1 / (cdf[m] + sf[m])
	for i := range pmf {
		pmf[i] *= scale
		cdf[i] *= scale
		sf[i] *= scale
	}
	return &Binomial{
		n: n, p: p, first: first, pmf: pmf, cdf: cdf, sf: sf,
		// Four roundings per recurrence step away from the mode, one per addition, and the normalisation.
		relativeError: float64(6*len(pmf)+64) * 0x1p-53,
	}, nil
}

// Sigma returns the standard deviation sqrt(n p (1-p)).
func (b *Binomial) Sigma() float64 { return math.Sqrt(float64(b.n) * b.p * (1 - b.p)) }

// Probability returns P(X = k); 0 outside the table, whose border is below 1e-60 of the mode.
func (b *Binomial) Probability(k int) float64 {
	if i := k - b.first; i >= 0 && i < len(b.pmf) {
		return b.pmf[i]
	}
	return 0
}

// CDF returns P(X <= k).
func (b *Binomial) CDF(k int) float64 {
	switch i := k - b.first; {
	case i < 0:
		return 0
	case i >= len(b.cdf):
		return 1
	default:
		return b.cdf[i]
	}
}

// Survival returns P(X > k).
func (b *Binomial) Survival(k int) float64 {
	switch i := k - b.first; {
	case i < 0:
		return 1
	case i >= len(b.sf):
		return 0
	default:
		return b.sf[i]
	}
}

package privacy

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"
)

// LossDistribution is the distribution of the privacy loss log(P/Q) of the view under record P against record Q, on an
// equidistant grid, for one given allocation of shifts and offsets. It evaluates what one pair of records costs almost
// exactly, and so shows how much Certify gives away; it is not a bound for other pairs, and nothing relies on it.
//
// Losses are rounded to the grid so that the mean is preserved, which keeps the error of a composition of k coordinates
// near sqrt(k) grid steps; see Koskela, Jälkö, Prediger, Honkela, "Tight differential privacy for discrete-valued
// mechanisms", 2021, for the method.
type LossDistribution struct {
	step     float64
	offset   int       // index of the loss 0
	mass     []float64 // mass[i] at loss (i-offset)*step
	infinite float64   // mass where Q vanishes
}

// Move is what one coordinate does between the two records.
type Move struct {
	Noise  *Binomial
	Offset float64 // fractional part of the encoded value, in [0,1)
	Shift  float64 // by how many levels it moves, of either sign
	Count  int     // how many coordinates do the same
}

// ErrMove says that a Move is outside the range of NewLossDistribution.
var ErrMove = errors.New("privacy: invalid move")

// NewLossDistribution returns the distribution of the privacy loss of the product of the moves, on a grid of 2^bits
// points over losses from -span to span (losses beyond are folded to the border on the pessimistic side: up).
func NewLossDistribution(moves []Move, span float64, bits int) (*LossDistribution, error) {
	if !(span > 0) || math.IsInf(span, 1) || bits < 4 || bits > 22 {
		return nil, fmt.Errorf("%w: span %v, bits %d, want a finite span > 0 and 4 to 22 bits", ErrMove, span, bits)
	}
	n := 1 << bits
	step := 2 * span / float64(n)
	fft := fourier.NewCmplxFFT(n)
	product := make([]complex128, n)
	for i := range product {
		product[i] = 1
	}
	finite := 1.0
	for i, m := range moves {
		if m.Noise == nil || !(m.Offset >= 0 && m.Offset < 1) || math.IsNaN(m.Shift) || math.IsInf(m.Shift, 0) ||
			m.Count < 1 {
			return nil, fmt.Errorf("%w: moves[%d] %+v", ErrMove, i, m)
		}
		cells, infinite := m.losses(step, n)
		finite *= math.Pow(1-infinite, float64(m.Count))
		coefficients := fft.Coefficients(nil, cells)
		for k := range product {
			product[k] *= cmplx.Pow(coefficients[k], complex(float64(m.Count), 0))
		}
	}
	back := fft.Sequence(nil, product)
	l := &LossDistribution{step: step, offset: n / 2, mass: make([]float64, n), infinite: 1 - finite}
	for i := range back {
		// Index i stands for loss i*step modulo the period.
		l.mass[(i+n/2)%n] = math.Max(0, real(back[i])/float64(n))
	}
	return l, nil
}

// losses spreads one coordinate's losses over the circle of n grid points.
func (m Move) losses(step float64, n int) (cells []complex128, infinite float64) {
	b := m.Noise
	cells = make([]complex128, n)
	moved := m.Offset + m.Shift
	base := math.Floor(moved)
	f, g := m.Offset, moved-base
	border := float64(n/2-1) * step
	for k := b.first - 1; k <= b.first+len(b.pmf)+1; k++ {
		j := k - int(base)
		p := (1-f)*b.Probability(k) + f*b.Probability(k-1)
		q := (1-g)*b.Probability(j) + g*b.Probability(j-1)
		if p == 0 {
			continue
		}
		if q == 0 {
			infinite += p
			continue
		}
		loss := math.Max(-border, math.Min(border, math.Log(p/q)))
		cell := math.Floor(loss / step)
		up := loss/step - cell
		i := (int(cell)%n + n) % n
		cells[i] += complex(p*(1-up), 0)
		cells[(i+1)%n] += complex(p*up, 0)
	}
	return cells, infinite
}

// Delta returns the hockey-stick divergence at epsilon, up to the grid's error.
func (l *LossDistribution) Delta(epsilon float64) float64 {
	delta := l.infinite
	for i, w := range l.mass {
		if loss := float64(i-l.offset) * l.step; loss > epsilon {
			delta -= w * math.Expm1(epsilon-loss)
		}
	}
	return delta
}

// Epsilon returns the smallest epsilon >= 0 at which Delta is at most delta, up to the grid's error; +Inf if there is
// none on the grid.
func (l *LossDistribution) Epsilon(delta float64) float64 {
	lo, hi := 0.0, float64(l.offset)*l.step
	if l.Delta(0) <= delta {
		return 0
	}
	if !(l.Delta(hi) <= delta) {
		return math.Inf(1)
	}
	for hi-lo > 1e-7*hi {
		if mid := (lo + hi) / 2; l.Delta(mid) <= delta {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

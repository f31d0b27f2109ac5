package estimate

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// layeredErrors is the statistic of LPLR-CI, Algorithm 5 of "On the optimal regret of locally private linear contextual
// bandit": for each active bin of a layer, the sum over its people of eta |<u, phi>|, with eta the width of the bin's
// parent. It bounds what the errors of the layers above do to the bin's estimate. A device sends gamma^k times this, in
// [0, cap]; the curator scales it back, and divides by sqrt(s). The people are others than those of layeredSums.
//
// The replacement of a record moves the vector by at most 2 cap in l1 and sqrt(2) cap in l2, and by cap where there is
// one bin. The paper's noise, in the literal variant, is for cap, of a record that comes or goes.
func (l *layered) layeredErrors(layer int, bins []*bin) learn.Statistic {
	for i, b := range bins {
		b.index = i
	}
	moves, k := number(bins), len(bins)
	s := learn.Statistic{Name: "errors", Diameter: math.Sqrt(moves) * l.cap * rounding,
		Diameter1: moves * l.cap * rounding, Lower: constant(k, 0), Upper: constant(k, l.cap)}
	s.Vector = func(dst []float64, r learn.Record) []float64 {
		dst, out := zeros(dst, k)
		if p := l.locate(r, layer); p.bin != nil && p.bin.active {
			out[p.bin.index] = min(l.cap, p.width*math.Abs(convex.Dot(p.bin.direction, p.scaled)))
		}
		return dst
	}
	if l.variant == LayeredLiteral && !math.IsInf(l.epsilon, 1) {
		s.Noise = mechanism.Laplace{Scale: 1 / l.epsilon}
	}
	return s
}

// widen is the curator's side of LPLR-CI. It sets chi of an active bin: the width that the bin adds to its parent's.
//
// Plug-in, with every deviation z times: the paper's term kappa_3 gamma^2 (d+1)^4/(psi sqrt(n)) becomes
// |<u, phi>|/s times the deviation of <u, lambda - Lambda theta*>, from the noise of the sums, the scatter of the
// rewards, and 2 sqrt(d) for the operator norm of a matrix of noise. The paper's kappa_2 term becomes the deviation of
// the sum of layeredErrors. It is printed over psi n, but its proof needs psi sqrt(n), which the option theory has.
// Layer 1 has no parent, hence no such errors.
func (l *layered) widen(b *bin, layer int, a learn.Answer) {
	radius, root := math.Pow(l.gamma, -float64(b.level)), math.Sqrt(b.moment)
	carried, deviation := 0.0, 0.0
	if layer > 1 {
		n := float64(a.People)
		unit := radius / root / (b.share * n)
		carried = max(0, unit*a.Sums[0].Values[b.index])
		sampling := l.cap * l.cap * b.share * n
		deviation = unit * math.Sqrt(max(0, a.Sums[0].Variance[b.index])+sampling)
	}
	if l.theory != nil {
		per := 1 / (b.share * math.Sqrt(float64(l.phase)))
		b.flat = l.theory.flat * per
		if layer > 1 {
			carried += l.theory.carried * per
		}
		b.slope = carried / root
		return
	}
	e := b.deviation
	own := e.first*e.first + 4*float64(l.dim)*e.second*e.second*l.radius*l.radius +
		radius*radius*e.share*e.share + e.sampling*e.sampling
	b.slope = l.score*math.Sqrt(own)/b.moment + (carried+l.score*deviation)/root
}

// chi is the width that an active bin adds for a person with <u, phi> = along.
func (b *bin) chi(along float64) float64 { return b.flat + b.slope*math.Abs(along) }

// layeredConstants are those of the paper's Lemmas 2 and 3, with the powers of gamma and d that go with them. They are
// divided by sqrt(n), and but for the thresholds by psi, where they are used.
type layeredConstants struct{ threshold, widthThreshold, carried, flat float64 }

func newLayeredConstants(s learn.Setting, gamma float64) *layeredConstants {
	d := float64(s.Dimension)
	beta := math.Log(gamma) / math.Log(float64(max(2, s.Horizon))) // gamma = T^beta
	long, short := math.Log(48*d/(beta*s.Failure)), math.Log(24*d/(beta*s.Failure))
	return &layeredConstants{
		threshold:      43 * long / s.Epsilon * gamma * gamma * math.Pow(d+1, 3),
		widthThreshold: 15 * long / s.Epsilon * gamma * math.Pow(d, 1.5),
		carried:        118 * short / s.Epsilon * gamma * math.Pow(d, 1.5),
		flat:           300 * long / s.Epsilon * gamma * gamma * math.Pow(d+1, 4),
	}
}

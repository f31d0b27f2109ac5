package estimate

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// rounding is the part by which sensitivities are larger than proved, for the rounding of what devices compute.
const rounding = 1 + 1e-9

// layeredSums are the statistics of LPLR-UPDATE, Algorithm 3 of "On the optimal regret of locally private linear
// contextual bandit", for all bins of a layer and all oracles at once: how many people are in a bin, the sum of their
// y_h phi_h, and that of phi_h phi_h'. A device sends gamma^k phi_h in place of phi_h, of norm at most 1, so that all
// bins have the same noise; the curator scales it back. Who is in no bin sends zeros, and never silence.
//
// The replacement of a record takes it out of one bin and puts it into another, or changes it within one. So with Y the
// clip of y_h in the layer, in l1 and l2:
//   - counts move by 2 and sqrt(2), and by 1 where there is one bin;
//   - y v, with v of norm at most 1, moves by 2 Y sqrt(d), because the l1 norm of v is at most sqrt(d), and by 2 Y: by
//     sqrt(2) Y between bins, but from y v to -y v within one;
//   - the upper triangle of v v' moves by d+1 and sqrt(2): its l1 norm is (|v|_1^2 + |v|_2^2)/2 <= (d+1)/2, and
//     |v v' - w w'|^2 = |v|^4 + |w|^4 - 2 <v, w>^2 <= 2. Both hold within a bin as well, from one direction to another.
//
// The literal variant has the paper's noise. It fits counts that move by 1, and y v by sqrt(d): a record that comes or
// goes. Replacement moves both by twice as much, and the guarantee of these two alone is twice as weak. The noise of
// the matrix hides nothing: see mechanism.Wishart. The paper also takes y_h in [-1, 1] for granted, which it is not.
func (l *layered) layeredSums(layer int, bins []*bin) []learn.Statistic {
	for i, b := range bins {
		b.index = i
	}
	moves, most := number(bins), l.most(layer)
	d, k := l.dim, len(bins)
	triangle := d * (d + 1) / 2
	count := learn.Statistic{Name: "count", Diameter: math.Sqrt(moves), Diameter1: moves,
		Lower: constant(k, 0), Upper: constant(k, 1)}
	count.Vector = func(dst []float64, r learn.Record) []float64 {
		dst, out := zeros(dst, k)
		if p := l.locate(r, layer); p.bin != nil {
			out[p.bin.index] = 1
		}
		return dst
	}
	first := learn.Statistic{Name: "first", Diameter: 2 * most * rounding,
		Diameter1: 2 * most * math.Sqrt(float64(d)) * rounding,
		Lower:     constant(k*d, -most), Upper: constant(k*d, most)}
	first.Vector = func(dst []float64, r learn.Record) []float64 {
		dst, out := zeros(dst, k*d)
		if p := l.locate(r, layer); p.bin != nil {
			for j, v := range p.scaled {
				out[p.bin.index*d+j] = p.reward * v
			}
		}
		return dst
	}
	second := learn.Statistic{Name: "second", Diameter: math.Sqrt2 * rounding, Diameter1: float64(d+1) * rounding}
	for range bins {
		for i := range d {
			for j := i; j < d; j++ {
				low, high := -.5, .5
				if i == j {
					low, high = 0, 1
				}
				second.Lower, second.Upper = append(second.Lower, low), append(second.Upper, high)
			}
		}
	}
	second.Vector = func(dst []float64, r learn.Record) []float64 {
		dst, out := zeros(dst, k*triangle)
		if p := l.locate(r, layer); p.bin != nil {
			at := p.bin.index * triangle
			for i, v := range p.scaled {
				for _, w := range p.scaled[i:] {
					out[at] = v * w
					at++
				}
			}
		}
		return dst
	}
	count.Share, first.Share, second.Share = l.shares[0], l.shares[1], l.shares[2]
	if l.variant == LayeredLiteral && !math.IsInf(l.epsilon, 1) {
		count.Noise = mechanism.Laplace{Scale: 3 / l.epsilon}
		first.Noise = mechanism.Laplace{Scale: 3 * math.Sqrt(float64(d)) / l.epsilon}
		second.Noise = mechanism.Wishart{Dim: d, Degrees: d + 1, Variance: 1.5 / l.epsilon, Factor: 3}
	}
	return []learn.Statistic{count, first, second}
}

// number is how many bins' counts a replacement can change.
func number(bins []*bin) float64 { return float64(min(2, len(bins))) }

// place is where a record is in a layer.
type place struct {
	bin    *bin      // nil: nowhere
	left   []float64 // phi_h
	scaled []float64 // gamma^k phi_h, of norm at most 1
	reward float64   // y_h, clipped to [-Y, Y]
	width  float64   // eta of the parent, at most the cap
}

// locate is what a device computes of its record by the public tree: a function of one record, which clips what it is
// given.
func (l *layered) locate(r learn.Record, layer int) (p place) {
	oracle := 0
	if len(l.roots) > 1 {
		oracle = r.Tag
	}
	if oracle < 0 || oracle >= len(l.roots) || math.IsNaN(r.Reward) {
		return p
	}
	at, predicted := 0, 0.0
	l.walk(l.roots[oracle], r.Arm, func(b *bin, left []float64) bool {
		at++
		switch {
		case b == nil:
			return false
		case at == layer:
			p.bin, p.left = b, left
			return false
		case b.active:
			along := convex.Dot(b.direction, left)
			predicted += along * b.value
			p.width += b.chi(along)
		}
		return true
	})
	if p.bin == nil {
		return p
	}
	p.width = min(l.cap, p.width)
	p.reward = between(between(r.Reward, layeredReward)-predicted, l.most(layer))
	scale := math.Pow(l.gamma, float64(p.bin.level))
	for _, v := range p.left {
		p.scaled = append(p.scaled, scale*v)
	}
	if norm := convex.Norm(p.scaled); norm > 1 {
		for j := range p.scaled {
			p.scaled[j] /= norm
		}
	}
	return p
}

// moments are what the curator knows of a bin: sums over its people divided by n, and the deviations of their noise.
type moments struct {
	share, shareDeviation   float64
	first                   []float64 // of y_h phi_h
	firstDeviation          float64
	second                  *mat.SymDense // of phi_h phi_h'
	secondDeviation, radius float64       // radius is gamma^-k
}

// unpack reads a bin out of the answer to layeredSums.
func (l *layered) unpack(a learn.Answer, b *bin) moments {
	n, d := float64(a.People), l.dim
	deviation := func(i, at int) float64 { return math.Sqrt(max(0, a.Sums[i].Variance[at])) / n }
	radius := math.Pow(l.gamma, -float64(b.level))
	m := moments{share: a.Sums[0].Values[b.index] / n, shareDeviation: deviation(0, b.index), radius: radius,
		second: mat.NewSymDense(d, nil)}
	for j := range d {
		m.first = append(m.first, radius*a.Sums[1].Values[b.index*d+j]/n)
	}
	m.firstDeviation = radius * deviation(1, b.index*d)
	at := b.index * d * (d + 1) / 2
	m.secondDeviation = radius * radius * deviation(2, at)
	for i := range d {
		for j := i; j < d; j++ {
			m.second.SetSym(i, j, radius*radius*a.Sums[2].Values[at]/n)
			at++
		}
	}
	return m
}

// zeros appends n zeros to dst, and returns it with the zeros.
func zeros(dst []float64, n int) (all, appended []float64) {
	all = append(dst, make([]float64, n)...)
	return all, all[len(dst):]
}

func constant(n int, v float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// between clips v to [-bound, bound].
func between(v, bound float64) float64 { return max(-bound, min(bound, v)) }

package estimate

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// sums are the statistics of LPLR-UPDATE, Algorithm 3 of "On the optimal regret of locally private linear contextual
// bandit", for all bins that are open, of all oracles at once: how many people are in a bin, the sum of their y_h
// phi_h, and that of phi_h phi_h'. Their ranges and diameters are proved in package statistic.
//
// The literal variant has the paper's noise. It fits counts that move by 1, and y v by sqrt(d): a record that comes or
// goes. Replacement moves both by twice as much, and the guarantee of these two alone is twice as weak. The noise of
// the matrix hides nothing: see mechanism.Wishart. The paper also takes y_h in [-1, 1] for granted, which it is not.
func (l *layeredRun) sums(open []int) (out []learn.Statistic, err error) {
	d := l.dim
	noises := []mechanism.Noise{
		mechanism.Laplace{Scale: 3 / l.epsilon},
		mechanism.Laplace{Scale: 3 * math.Sqrt(float64(d)) / l.epsilon},
		mechanism.Wishart{Dim: d, Degrees: d + 1, Variance: 1.5 / l.epsilon, Factor: 3},
	}
	for i, kind := range []statistic.Kind{statistic.BinCount, statistic.BinFirst, statistic.BinSecond} {
		s, err := l.ofAll(kind, open)
		if err != nil {
			return nil, err
		}
		s.Share = l.shares[i]
		if l.variant == LayeredLiteral && !math.IsInf(l.epsilon, 1) {
			s.Noise = noises[i]
		}
		out = append(out, s)
	}
	return out, nil
}

// ofAll is a statistic of the trees of some oracles. That of one oracle alone can be announced.
func (l *layeredRun) ofAll(kind statistic.Kind, oracles []int) (learn.Statistic, error) {
	parts := make(map[int]learn.Statistic, len(oracles))
	for _, o := range oracles {
		part, err := learn.Announced(statistic.Statistic{Kind: kind, Family: l.family, ArmDim: l.dim,
			Structure: l.structure, Tree: l.oracles[o].tree.Clone()})
		if err != nil {
			return learn.Statistic{}, err
		}
		parts[o] = part
	}
	if len(l.oracles) == 1 {
		return parts[0], nil
	}
	return beside(kind, oracles, parts), nil
}

// beside is the statistic that has those of several oracles one after the other, all 0 but that of the record's Tag.
// Between two oracles records are no farther apart than between two bins of one: of BinCount and BinErrors, which move
// by half as much where there is one bin, by twice the largest coordinate in l1, and sqrt 2 times it in l2.
func beside(kind statistic.Kind, oracles []int, parts map[int]learn.Statistic) learn.Statistic {
	s, dim, start := learn.Statistic{Name: string(kind)}, 0, map[int]int{}
	for _, o := range oracles {
		part := parts[o]
		start[o] = dim
		dim += part.Dim()
		s.Lower, s.Upper = append(s.Lower, part.Lower...), append(s.Upper, part.Upper...)
		s.Diameter, s.Diameter1 = max(s.Diameter, part.Diameter), max(s.Diameter1, part.Diameter1)
	}
	if n := len(oracles); n > 1 && (kind == statistic.BinCount || kind == statistic.BinErrors) {
		most := slices.Max(s.Upper)
		s.Diameter, s.Diameter1 = max(s.Diameter, math.Sqrt2*most), max(s.Diameter1, 2*most)
	}
	s.Vector = func(dst []float64, r learn.Record) []float64 {
		from := len(dst)
		dst = append(dst, make([]float64, dim)...)
		if part, known := parts[r.Tag]; known {
			copy(dst[from+start[r.Tag]:], part.Vector(nil, r))
		}
		return dst
	}
	return s
}

// moments are what the curator knows of a bin: sums over its people divided by n, and the deviations of their noise.
type moments struct {
	people                  float64 // n
	share, shareDeviation   float64
	first                   []float64 // of y_h phi_h
	firstDeviation          float64
	second                  *mat.SymDense // of phi_h phi_h'
	secondDeviation, radius float64       // radius is gamma^-k
}

// unpack reads the bin of a number out of the answer to sums.
func (l *layeredRun) unpack(a learn.Answer, number, level int) moments {
	n, d := float64(a.People), l.dim
	deviation := func(i, at int) float64 { return math.Sqrt(max(0, a.Sums[i].Variance[at])) / n }
	radius := math.Pow(l.gamma, -float64(level))
	m := moments{people: n, share: a.Sums[0].Values[number] / n, shareDeviation: deviation(0, number), radius: radius,
		second: mat.NewSymDense(d, nil)}
	for j := range d {
		m.first = append(m.first, radius*a.Sums[1].Values[number*d+j]/n)
	}
	m.firstDeviation = radius * deviation(1, number*d)
	at := number * symmetric.Dim(d)
	m.secondDeviation = radius * radius * deviation(2, at)
	for i := range d {
		for j := i; j < d; j++ {
			m.second.SetSym(i, j, radius*radius*a.Sums[2].Values[at]/n)
			at++
		}
	}
	return m
}

// pooled is the answer of the people of both.
func pooled(a, b learn.Answer) learn.Answer {
	if a.People == 0 {
		return b
	}
	out := learn.Answer{People: a.People + b.People}
	for i, s := range a.Sums {
		sum := learn.Sum{Values: slices.Clone(s.Values), Variance: slices.Clone(s.Variance)}
		for j := range sum.Values {
			sum.Values[j] += b.Sums[i].Values[j]
			sum.Variance[j] += b.Sums[i].Variance[j]
		}
		out.Sums = append(out.Sums, sum)
	}
	return out
}

// between clips v to [-bound, bound].
func between(v, bound float64) float64 { return max(-bound, min(bound, v)) }

package estimate

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// errors is the statistic of LPLR-CI, Algorithm 5 of "On the optimal regret of locally private linear contextual
// bandit": for each bin of the last layer, the sum over its people of eta |<u, phi>|, with eta the width of the bin's
// parent. It bounds what the errors of the layers above do to the bin's estimate. A device sends gamma^k times this, in
// [0, cap]; the curator scales it back, and divides by sqrt(s). The people are others than those of sums. The paper's
// noise, in the literal variant, is for a record that comes or goes, and for a cap of 1.
func (l *layeredRun) errors(oracles []int) (learn.Statistic, error) {
	s, err := l.ofAll(statistic.BinErrors, oracles)
	if l.variant == LayeredLiteral && !math.IsInf(l.epsilon, 1) {
		s.Noise = mechanism.Laplace{Scale: 1 / l.epsilon}
	}
	return s, err
}

// widen is the curator's side of LPLR-CI: the widths of the bins of the last layer of some oracles, from the answer to
// errors. Layer 1 has no parent, hence no such errors, and no answer.
func (l *layeredRun) widen(oracles []int, a learn.Answer) {
	number := 0
	for _, i := range oracles {
		o := l.oracles[i]
		first, n := o.tree.Last()
		for j := first; j < first+n; j++ {
			b, known := &o.tree.Bins[j], o.of[j]
			radius, carried, deviation := math.Pow(l.gamma, -float64(b.Level)), 0.0, 0.0
			if len(a.Sums) > 0 {
				unit := radius / math.Sqrt(known.moment) / (known.share * float64(a.People))
				carried = max(0, unit*a.Sums[0].Values[number])
				sampling := o.tree.Cap * o.tree.Cap * known.share * float64(a.People)
				deviation = unit * math.Sqrt(max(0, a.Sums[0].Variance[number])+sampling)
			}
			number++
			b.Flat, b.Slope = l.width(known, radius, carried, deviation, len(a.Sums) > 0)
		}
	}
}

// width is chi of a bin: what it adds to its parent's width, flat and for each unit along its direction. carried is
// what the errors above do to it, with its deviation.
//
// Plug-in, with every deviation z times: the paper's term kappa_3 gamma^2 (d+1)^4/(psi sqrt(n)) becomes
// |<u, phi>|/s times the deviation of <u, lambda - Lambda theta*>, from the noise of the sums, the scatter of the
// rewards, and 2 sqrt(d) for the operator norm of a matrix of noise. The paper's kappa_2 term becomes the deviation of
// the sum of errors. It is printed over psi n, but its proof needs psi sqrt(n), which the option theory has.
func (l *layeredRun) width(known regressed, radius, carried, deviation float64, below bool) (flat, slope float64) {
	root := math.Sqrt(known.moment)
	if l.theory != nil {
		per := 1 / (known.share * math.Sqrt(float64(l.phase)))
		if below {
			carried += l.theory.carried * per
		}
		return l.theory.flat * per, carried / root
	}
	own := known.firstDeviation*known.firstDeviation +
		4*float64(l.dim)*known.secondDeviation*known.secondDeviation*l.radius*l.radius +
		radius*radius*known.shareDeviation*known.shareDeviation + known.sampling*known.sampling
	return 0, l.score*math.Sqrt(own)/known.moment + (carried+l.score*deviation)/root
}

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

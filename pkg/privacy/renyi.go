package privacy

import (
	"errors"
	"fmt"
	"math"
)

// renyiOrders are the orders over which Renyi minimises. Orders above 64 matter only for an epsilon well below 0.2.
var renyiOrders = [...]float64{1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192,
	256, 512, 1024}

// IntegerRelease describes one or more equal releases for the cross-check Renyi, which cannot use that
// rounding hides: it needs the shift of the vector after rounding, Shift + sqrt(Dimension), in whole levels.
type IntegerRelease struct {
	Noise     *Binomial
	Dimension int
	L2        float64 // l2 shift of the rounded vector: Release.Shift + sqrt(Dimension)
	LInf      int     // the most levels one coordinate can move
	Times     int     // how many such releases the record takes part in
}

// ErrNeighbour says that a cross-check does not apply to its input. It is wrapped with the reason.
var ErrNeighbour = errors.New("privacy: cross-check not applicable")

func (r IntegerRelease) check() error {
	if r.Noise == nil || r.Dimension < 1 || !(r.L2 > 0) || math.IsInf(r.L2, 1) || r.LInf < 1 || r.Times < 1 {
		return fmt.Errorf("%w: release %+v, want noise, positive dimension, shifts and times", ErrNeighbour, r)
	}
	return nil
}

// RenyiResult is what Renyi found.
type RenyiResult struct {
	Epsilon, Delta float64
	Order          float64 // the order that gave it
}

// Renyi bounds (epsilon, delta) of the composed releases through Renyi divergences of the binomial, conditioned on
// counts within reach standard deviations of the mean (8.5 is customary). tailDelta is the delta spent on the
// conversion; Delta adds what the conditioning costs. It is an upper neighbour of Certify, kept as a cross-check and
// never used for a guarantee.
//
// Conversion: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", 2020, Proposition 12.
func Renyi(releases []IntegerRelease, tailDelta, reach float64) (RenyiResult, error) {
	if !(tailDelta > 0 && tailDelta < 1) || !(reach > 0) || math.IsInf(reach, 1) {
		return RenyiResult{}, fmt.Errorf("%w: tailDelta %v, reach %v", ErrNeighbour, tailDelta, reach)
	}
	costs := make([]float64, len(renyiOrders))
	lost, lostLog := 0.0, 0.0
	for _, r := range releases {
		if err := r.check(); err != nil {
			return RenyiResult{}, err
		}
		per := make([]float64, len(renyiOrders)) // max over k of divergence/k^2
		tau := 0.0
		for k := 1; k <= min(r.LInf, int(r.L2)); k++ {
			outside := r.Noise.renyi(k, reach, func(i int, divergence float64) {
				per[i] = math.Max(per[i], divergence/float64(k*k))
			})
			tau = math.Max(tau, outside)
		}
		all := float64(r.Dimension) * tau
		if all >= 1 {
			return RenyiResult{}, fmt.Errorf("%w: the counts leave the good range with probability %v",
				ErrNeighbour, all)
		}
		for i := range costs {
			costs[i] += float64(r.Times) * per[i] * r.L2 * r.L2
		}
		lost += float64(r.Times) * all
		lostLog -= float64(r.Times) * math.Log1p(-all)
	}
	best := RenyiResult{Epsilon: math.Inf(1), Delta: tailDelta + lost}
	for i, a := range renyiOrders {
		e := costs[i] + math.Log((a-1)/a) - (math.Log(tailDelta)+math.Log(a))/(a-1) + lostLog
		if e < best.Epsilon {
			best.Epsilon, best.Order = e, a
		}
	}
	if math.IsNaN(best.Epsilon) || math.IsInf(best.Epsilon, 0) {
		return RenyiResult{}, fmt.Errorf("%w: no order has a finite divergence", ErrNeighbour)
	}
	return best, nil
}

// renyi passes, order by order, the larger of the two Renyi divergences between the law and its shift by k, both
// conditioned on the counts that are within reach standard deviations of both means, and returns the larger mass
// outside.
func (b *Binomial) renyi(k int, reach float64, use func(order int, divergence float64)) (outside float64) {
	mean, t := float64(b.n)*b.p, reach*b.Sigma()
	first := max(k, int(math.Ceil(mean-t))+k)
	last := min(int(b.n), int(math.Floor(mean+t)))
	if first > last {
		for i := range renyiOrders {
			use(i, math.Inf(1))
		}
		return 1
	}
	outP := b.CDF(first-1) + b.Survival(last)
	outQ := b.CDF(first-1-k) + b.Survival(last-k)
	logP, logQ := math.Log1p(-outP), math.Log1p(-outQ)
	for i, a := range renyiOrders {
		there, back := 0.0, 0.0
		for x := first; x <= last; x++ {
			p, q := b.Probability(x), b.Probability(x-k)
			loss := math.Log(p/q) - logP + logQ
			there += p * math.Exp((a-1)*loss-logP)
			back += q * math.Exp((1-a)*loss-logQ)
		}
		d := math.Log(math.Max(there, back)) / (a - 1)
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		use(i, d)
	}
	return math.Max(outP, outQ)
}

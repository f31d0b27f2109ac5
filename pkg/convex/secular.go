package convex

import "math"

// secular finds nu >= 0 with sum_i (num_i/(p_i + nu q_i))^2 = target^2, given that the sum exceeds target^2 at nu = 0.
// p_i, q_i >= 0, not both 0 where num_i is not 0. Both projections of this package come down to it.
//
// The norm's reciprocal is concave in nu, so Newton's method on 1/norm - 1/target rises monotonically to the root from any
// start below it (J. J. Moré and D. C. Sorensen, "Computing a trust region step", 1983). The start is the nu at which the
// largest single term reaches the target.
func secular(num, p, q []float64, target float64) float64 {
	nu := 0.0
	for i, v := range num {
		if q[i] > 0 {
			nu = math.Max(nu, (math.Abs(v)/target-p[i])/q[i])
		}
	}
	for range 100 {
		sum, slope := 0.0, 0.0
		for i, v := range num {
			if v == 0 {
				continue
			}
			d := p[i] + nu*q[i]
			t := v / d
			sum += t * t
			slope += t * t * q[i] / d
		}
		n := math.Sqrt(sum)
		if !(n > target*(1+4e-16)) || slope == 0 {
			break
		}
		next := nu + sum/slope*(n-target)/target
		if !(next > nu) || math.IsInf(next, 0) {
			break
		}
		nu = next
	}
	return nu
}

package privacy

import (
	"fmt"
	"math"
)

// CPSGD returns the epsilon of the closed-form bound for one binomial release at the given delta: Agarwal, Suresh, Yu,
// Kumar, McMahan, "cpSGD: communication-efficient and differentially-private distributed SGD", 2018, Theorem 1, with
// unit quantisation steps. L1 shift is taken as sqrt(Dimension) times the l2 shift. It is an upper neighbour of
// Certify, kept for comparison. Times must be 1.
//
// It is refused unless N p (1-p) >= max(23 ln(10 D/delta), 2 LInf), the theorem's condition.
func CPSGD(r IntegerRelease, delta float64) (float64, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	if !(delta > 0 && delta < 1) || r.Times != 1 {
		return 0, fmt.Errorf("%w: delta %v, times %d, want delta in (0,1) and one release", ErrNeighbour, delta, r.Times)
	}
	p, d, inf := r.Noise.p, float64(r.Dimension), math.Min(float64(r.LInf), math.Floor(r.L2))
	v := float64(r.Noise.n) * p * (1 - p)
	if need := math.Max(23*math.Log(10*d/delta), 2*inf); !(v >= need) {
		return 0, fmt.Errorf("%w: variance %v, the theorem needs %v", ErrNeighbour, v, need)
	}
	q, c, h := cpsgdConstants(p)
	l1 := math.Sqrt(d) * r.L2
	return r.L2*math.Sqrt(2*math.Log(1.25/delta))/math.Sqrt(v) +
		(r.L2*c*math.Sqrt(math.Log(10/delta))+l1*q)/(v*(1-delta/10)) +
		(2.0/3*inf*math.Log(1.25/delta)+inf*h*math.Log(20*d/delta)*math.Log(10/delta))/v, nil
}

// cpsgdConstants returns b_p, c_p and d_p of the theorem.
func cpsgdConstants(p float64) (q, c, h float64) {
	o := 1 - p
	q = 2.0/3*(p*p+o*o) + 1 - 2*p
	c = math.Sqrt2 * (3*p*p*p + 3*o*o*o + 2*p*p + 2*o*o)
	h = 4.0 / 3 * (p*p + o*o)
	return q, c, h
}

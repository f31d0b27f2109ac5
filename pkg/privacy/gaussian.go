package privacy

import (
	"errors"
	"fmt"
	"math"
)

// A Guarantee says how well the records are hidden: for every two records a device may hold, the trade-off function
// between "the view came from the first" and "it came from the second" lies above f(0,TailDelta) (x) G(Mu), the
// trade-off function of a unit-variance Gaussian whose mean moves by Mu, after an event of probability TailDelta has
// been given up (Dong, Roth, Su, "Gaussian differential privacy", 2019). Equivalently, for every epsilon >= 0 the view
// is (epsilon, Delta(epsilon))-DP. A view may hold releases of two further kinds: those that are (Pure, 0)-DP together,
// and those that are Rho-zCDP together. Delta says what all of them give together.
//
// The zero value is perfect privacy: nothing was released. A guarantee with a NaN, negative or infinite Mu, Pure or
// Rho, or with a TailDelta outside [0,1], promises nothing: Epsilon is +Inf and Delta is 1.
type Guarantee struct {
	// Mu is the shift of the dominating Gaussian, in its standard deviations; 0 hides everything. TailDelta is the
	// probability given up, summed over the coordinates of all releases.
	Mu        float64 `json:"mu"`
	TailDelta float64 `json:"tail_delta"`
	// epsilon of the releases with pure differential privacy, summed over them
	Pure float64 `json:"pure,omitempty"`
	Rho  float64 `json:"rho,omitempty"` // zCDP of the releases with discrete Gaussian noise, summed over them
}

// NoGuarantee is what functions of this package return with an error, so that an ignored error cannot be mistaken for
// privacy.
func NoGuarantee() Guarantee { return Guarantee{Mu: math.Inf(1), TailDelta: 1} }

// ErrTarget says that an (epsilon, delta) is outside the range of MuFor. It is wrapped with the offending value.
var ErrTarget = errors.New("privacy: invalid target")

func (g Guarantee) promises() bool {
	return g.Mu >= 0 && !math.IsInf(g.Mu, 1) && g.TailDelta >= 0 && g.TailDelta <= 1 && // false for NaN
		g.Pure >= 0 && !math.IsInf(g.Pure, 1) && g.Rho >= 0 && !math.IsInf(g.Rho, 1)
}

// Promises reports whether the guarantee bounds anything at all.
func (g Guarantee) Promises() bool { return g.promises() }

// Compose returns the guarantee of all the releases together when one record takes part in each of them, with
// independent coins. The releases may be chosen adaptively (each after seeing the results of the earlier ones) as long
// as the guarantees were fixed beforehand and hold for every earlier result.
//
// Proof sketch: trade-off functions compose by tensor products, also adaptively; G(m1) (x) G(m2) = G(sqrt(m1^2+m2^2)),
// and f(0,d1) (x) f(0,d2) = f(0, 1-(1-d1)(1-d2)), which d1+d2 bounds (Dong, Roth, Su, Theorem 4 and Corollary 2).
// Pure parts add: given any history, each pure release multiplies the likelihood ratio by at most e^Pure. Parts of zCDP
// add (Bun and Steinke, "Concentrated Differential Privacy", 2016, Lemma 2.3). Rounded up.
func Compose(gs ...Guarantee) Guarantee {
	var sum, d, pure, rho float64
	for _, g := range gs {
		if !g.promises() {
			return NoGuarantee()
		}
		sum += g.Mu * g.Mu
		d += g.TailDelta
		pure += g.Pure
		rho += g.Rho
	}
	up := 1 + float64(len(gs)+4)*0x1p-53
	g := Guarantee{Mu: math.Sqrt(sum) * up, TailDelta: math.Min(1, d*up), Pure: pure * up, Rho: rho * up}
	if len(gs) == 1 {
		g = gs[0]
	}
	if !g.promises() {
		return NoGuarantee()
	}
	return g
}

// Repeat is Compose of n releases with the same guarantee, each after the results of those before it, rounded up. A
// number below 1 is a mistake and promises nothing.
func Repeat(g Guarantee, n int) Guarantee {
	switch {
	case !g.promises() || n < 1:
		return NoGuarantee()
	case n == 1:
		return g
	}
	times := float64(n) * (1 + 8*0x1p-53) // each part is one product, a root at most, and one more product
	out := Guarantee{Mu: g.Mu * math.Sqrt(times) * (1 + 4*0x1p-53), TailDelta: math.Min(1, g.TailDelta*times),
		Pure: g.Pure * times, Rho: g.Rho * times}
	if !out.promises() {
		return NoGuarantee()
	}
	return out
}

// Delta returns a delta such that the view is (epsilon, delta)-DP, rounded up; 1 for an epsilon that is NaN, or a
// guarantee that promises nothing. For epsilon < 0 it answers for epsilon = 0, which is the stronger statement.
//
// Proof sketch: the hockey-stick divergence of f(0,d) (x) G(mu) is d + (1-d) * deltaG(epsilon; mu), with
// deltaG = Phi(-epsilon/mu+mu/2) - e^epsilon Phi(-epsilon/mu-mu/2) (Dong, Roth, Su, Corollary 1).
//
// A pure part moves epsilon by Pure and costs no delta. Proof: let P and Q be the laws of the whole adaptive view under
// the two records, and Q' the law in which the pure releases answer as under P and the others as under Q, each given
// the same history. Every pure release has, whatever the history, a likelihood ratio of at most e to its epsilon, so Q
// >= e^-Pure Q' on every set. P and Q' answer the pure releases alike, so these are coins and post-processing between
// the others, and P(S) - e^x Q'(S) <= Delta(x) of the others alone, adaptive composition included. Together, for every
// set S, P(S) - e^(x+Pure) Q(S) <= P(S) - e^x Q'(S) <= Delta(x) for x >= 0. Below Pure the answer is 1.
//
// With a Rho above 0 the Gaussian part counts as zCDP as well, and delta is d + (1-d) DeltaOfRho(mu^2/2 + Rho,
// epsilon). Proof sketch: a release whose trade-off function lies above f(0,d_i) (x) G(mu_i) can be computed, whatever
// the history, from a coin that shows the record with probability d_i and from a Gaussian that the record shifts by
// mu_i (Blackwell's theorem; Dong, Roth, Su, Theorem 2). If no coin shows the record, which has probability at least
// 1-d and does not depend on the record, each such release is mu_i^2/2-zCDP, since the Renyi divergence of order alpha
// of the Gaussians is alpha mu_i^2/2. All releases together are then (mu^2/2 + Rho)-zCDP, adaptively (Bun and Steinke,
// Lemma 2.3).
func (g Guarantee) Delta(epsilon float64) float64 {
	if !g.promises() || math.IsNaN(epsilon) {
		return 1
	}
	if epsilon < 0 {
		epsilon = 0
	}
	if g.Pure > 0 {
		if epsilon < g.Pure {
			return 1
		}
		epsilon = math.Nextafter(epsilon-g.Pure, 0)
		if g.Mu == 0 && g.TailDelta == 0 && g.Rho == 0 {
			return 0
		}
	}
	rest := 0.0
	if g.Rho > 0 {
		rest = DeltaOfRho(g.concentrated(), epsilon)
	} else {
		rest = gaussianDelta(epsilon, g.Mu)
	}
	return math.Min(1, math.Nextafter(g.TailDelta+(1-g.TailDelta)*rest, 2))
}

// concentrated is the zCDP of the Gaussian part and of Rho together, once the tail event is given up; rounded up.
func (g Guarantee) concentrated() float64 { return (g.Mu*g.Mu/2 + g.Rho) * (1 + 0x1p-50) }

// Epsilon returns an epsilon such that the view is (epsilon, delta)-DP, rounded up: +Inf if delta is NaN or not above
// TailDelta.
func (g Guarantee) Epsilon(delta float64) float64 {
	if !g.promises() || math.IsNaN(delta) {
		return math.Inf(1)
	}
	if g.Pure > 0 {
		rest := g
		rest.Pure = 0
		switch {
		case delta >= 1:
			return 0
		case rest == Guarantee{} && delta >= 0:
			return g.Pure
		}
		return math.Nextafter(g.Pure+rest.Epsilon(delta), math.Inf(1))
	}
	if g.Delta(0) <= delta {
		return 0
	}
	if delta <= g.TailDelta {
		return math.Inf(1)
	}
	// Beyond mu^2/2 + 40 mu the Gaussian part is below 1e-300, and so is that of zCDP beyond rho + 53 sqrt(rho).
	lo, hi := 0.0, g.Mu*g.Mu/2+40*g.Mu+math.SmallestNonzeroFloat64
	if g.Rho > 0 {
		hi = g.concentrated() + 53*math.Sqrt(g.concentrated())
	}
	if !(g.Delta(hi) <= delta) {
		return math.Inf(1)
	}
	for i := 0; i < 200 && hi-lo > 1e-14*hi; i++ {
		mid := lo + (hi-lo)/2
		if mid == lo || mid == hi {
			break
		}
		if g.Delta(mid) <= delta {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// MuFor returns the largest mu, rounded down, whose Gaussian is (epsilon, delta)-DP: a budget as one number of which
// the squares add. It refuses an epsilon that is negative, NaN or infinite, and a delta outside (0,1).
func MuFor(epsilon, delta float64) (float64, error) {
	if !(epsilon >= 0) || math.IsInf(epsilon, 1) {
		return 0, fmt.Errorf("%w: epsilon is %v, want a finite number >= 0", ErrTarget, epsilon)
	}
	if !(delta > 0 && delta < 1) {
		return 0, fmt.Errorf("%w: delta is %v, want a number strictly between 0 and 1", ErrTarget, delta)
	}
	lo, hi := 0.0, 1.0
	for gaussianDelta(epsilon, hi) <= delta {
		lo, hi = hi, 2*hi
	}
	for i := 0; i < 1100 && hi-lo > 1e-15*hi; i++ { // halving alone reaches the smallest positive double
		mid := lo + (hi-lo)/2
		if mid == lo || mid == hi {
			break
		}
		if gaussianDelta(epsilon, mid) <= delta {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, nil
}

// gaussianDelta returns the smallest delta for which a Gaussian shifted by mu is (epsilon, delta)-DP, rounded up
// (epsilon, mu >= 0).
//
// With x = -epsilon/mu + mu/2 and y = x - mu, e^epsilon phi(y) = phi(x); so both terms share the factor exp(-x^2/2) and
// only the difference of two scaled complementary error functions can cancel. Each is good to 2e-14, which is added
// back. For a tiny mu that slack would be all there is; there the tangent bounds the difference instead.
func gaussianDelta(epsilon, mu float64) float64 {
	if mu == 0 {
		return 0
	}
	const slack = 4e-14
	q := epsilon / mu
	x, y := mu/2-q, -mu/2-q
	if math.IsInf(q, 1) {
		return math.SmallestNonzeroFloat64 // epsilon/mu beyond 1e308: exp(-x^2/2) is below any double
	}
	inexact := 1e-15 * (8 + q*(math.Abs(x)+1) + mu*mu) // rounding of x, amplified by the exponential
	if !(inexact < 0.01) {
		if x < -50 {
			return math.SmallestNonzeroFloat64 // exp(-x^2/2) is below 1e-500
		}
		return 1
	}
	common := 0.5 * math.Exp(-x*x/2)
	second := scaledErfc(-y / math.Sqrt2)
	if x <= 0 {
		first := scaledErfc(-x / math.Sqrt2)
		difference := math.Min(math.Max(0, first-second+slack*first), tangent(-x/math.Sqrt2, mu/math.Sqrt2))
		return math.Nextafter(common*(1+inexact)*difference, 2)
	}
	d := math.Min(1, lowerTail(x)-common*second+slack+inexact)
	if x < 1 {
		d = math.Min(d, math.Nextafter(common*(1+inexact)*tangent(-x/math.Sqrt2, mu/math.Sqrt2), 2))
	}
	return d
}

// tangent bounds f(u)-f(u+h) from above, rounded up, where f(u) = exp(u^2)*erfc(u), u > -1 and h >= 0: f is a mixture
// of falling exponentials, so it is convex, and h times its slope at u, -f'(u) = 2/sqrt(pi) - 2u*f(u), is a bound. It
// is tight to a factor 1 + O(h).
func tangent(u, h float64) float64 {
	const slack = 4e-14
	fall := 2 * u * scaledErfc(u)
	return h * (2/sqrtPi - fall + slack*(2/sqrtPi+math.Abs(fall)))
}

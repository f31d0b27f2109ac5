package privacy

import (
	"math"
	"slices"
)

// The exact side of the cross-checks. Nothing here uses the noise tables or the scores of the package.

// coins returns the law of the sum of n coins of probability p, by adding one coin after another.
func coins(n int, p float64) []float64 {
	law := []float64{1}
	for range n {
		next := make([]float64, len(law)+1)
		for i, w := range law {
			next[i] += w * (1 - p)
			next[i+1] += w * p
		}
		law = next
	}
	return law
}

// encoded returns the law of floor(v) + Ber(v-floor(v)) + noise on 0..size-1, v >= 0.
func encoded(noise []float64, v float64, size int) []float64 {
	out := make([]float64, size)
	k := int(math.Floor(v))
	f := v - float64(k)
	for i, w := range noise {
		out[i+k] += (1 - f) * w
		if f > 0 {
			out[i+k+1] += f * w
		}
	}
	return out
}

// pair is two laws on one space.
type pair struct{ p, q []float64 }

// encodedPair returns the laws of the encoded values v and v+t (t of either sign, both values >= 0).
func encodedPair(noise []float64, v, t float64) pair {
	size := len(noise) + int(math.Ceil(math.Max(v, v+t))) + 1
	return pair{encoded(noise, v, size), encoded(noise, v+t, size)}
}

func (a pair) times(b pair) pair {
	out := pair{make([]float64, 0, len(a.p)*len(b.p)), make([]float64, 0, len(a.p)*len(b.p))}
	for i := range a.p {
		for j := range b.p {
			out.p = append(out.p, a.p[i]*b.p[j])
			out.q = append(out.q, a.q[i]*b.q[j])
		}
	}
	return out
}

func (a pair) swapped() pair { return pair{a.q, a.p} }

// hockeyStick returns the exact sum of max(p - e^epsilon q, 0).
func (a pair) hockeyStick(epsilon float64) float64 {
	sum, e := 0.0, math.Exp(epsilon)
	for i := range a.p {
		sum += math.Max(0, a.p[i]-e*a.q[i])
	}
	return sum
}

// mu returns the smallest mu for which the trade-off curve of the pair lies above f(0,d) (x) G(mu): the largest
// normal-score gap at a vertex of the Neyman-Pearson polygon. It stands for the hockey-stick divergences at all
// epsilon, of both signs, at once. -Inf if d alone suffices, +Inf if no mu does.
func (a pair) mu(d float64) float64 {
	type atom struct{ p, q float64 }
	atoms := make([]atom, 0, len(a.p))
	for i := range a.p {
		if a.p[i] > 0 || a.q[i] > 0 {
			atoms = append(atoms, atom{a.p[i], a.q[i]})
		}
	}
	// Reject "p" where q/p is large: order by increasing q/p, so the accepted set grows.
	slices.SortFunc(atoms, func(x, y atom) int {
		switch l, r := x.q*y.p, y.q*x.p; {
		case l < r:
			return -1
		case l > r:
			return 1
		}
		return 0
	})
	n := len(atoms)
	rejectP, rejectQ := make([]float64, n+1), make([]float64, n+1) // mass of atoms[i:]
	for i := n - 1; i >= 0; i-- {
		rejectP[i], rejectQ[i] = rejectP[i+1]+atoms[i].p, rejectQ[i+1]+atoms[i].q
	}
	worst := math.Inf(-1)
	var acceptP, acceptQ float64
	for i := 0; i <= n; i++ {
		// alpha = rejectP (p rejected though true), beta = acceptQ (q accepted as p).
		alpha, beta := rejectP[i], acceptQ
		if acceptP > d && alpha < 1-d && beta < 1-d {
			lower := score(acceptP-d, alpha, d)    // Phi^-1((1-alpha-d)/(1-d))
			upper := -score(rejectQ[i]-d, beta, d) // Phi^-1(beta/(1-d))
			if rejectQ[i] > d {
				worst = math.Max(worst, lower-upper)
			}
		}
		if i < n {
			acceptP += atoms[i].p
			acceptQ += atoms[i].q
		}
	}
	return worst
}

// score returns Phi^-1(lower/(1-d)) where lower + upper = 1 - d, from whichever is smaller.
func score(lower, upper, d float64) float64 {
	if lower < upper {
		return bisectQuantile(lower / (1 - d))
	}
	return -bisectQuantile(upper / (1 - d))
}

// bisectQuantile inverts erfc by Newton steps from the Gaussian tail's leading order: independent of the package's
// quantile.
func bisectQuantile(p float64) float64 {
	if p <= 0 {
		return math.Inf(-1)
	}
	if p > 0.5 {
		return -bisectQuantile(1 - p)
	}
	z := -math.Sqrt(-2 * math.Log(p) * 0.9)
	if p > 0.1 {
		z = (p - 0.5) * math.Sqrt(2*math.Pi)
	}
	for range 60 {
		f := 0.5 * math.Erfc(-z/math.Sqrt2)
		step := (math.Log(f) - math.Log(p)) * f / (math.Exp(-z*z/2) / math.Sqrt(2*math.Pi))
		z -= step
		if math.Abs(step) < 1e-15*(1+math.Abs(z)) {
			break
		}
	}
	return z
}

package family

import (
	"fmt"
	"math"
)

// DefaultScoreClip is c of the bounded score: the standard deviation of a count at the score 0, where its rate is 1.
// On the population of the experiment families (R = 5, epsilon 1) it has half the regret of no clip.
const DefaultScoreClip = 1

// Bounded is the response whose residuals one record moves little. It is the family itself, except for counts up to
// more than one. There the residual mu(z) - r, which one record can move by R and more
// although it is seldom larger than the standard deviation, is replaced by Huber's bounded score,
//
//	t(z) - r, clipped to [-c, c],  with the centre t(z) for which its mean at the score z is zero,
//
// and mu' by the slope of its mean. It is the optimal bounded score of Huber, "Robust estimation of a location
// parameter" (1964), centred as by Künsch, Stefanski and Carroll, "Conditionally unbiased bounded-influence estimation
// in general regression models" (1989), used here for privacy: the noise of a release is proportional to what one
// record can move, 2c, and its signal to the slope.
//
// Why the estimate stays right. The centre makes the gradient's mean zero at the true parameter. The Hessian's weight
// is Cov(psi, r), the derivative of that mean. The sampling variance Var(psi) is at most Cov(psi, r), because psi and
// r - psi both increase with r; so the practical profile, which takes the Hessian for the variance, errs on the wide
// side. The price is the efficiency of Huber's estimator: without noise the regret is 179 where the residual has 169.
//
// No other score does much better. The slope of the mean of any score psi with values in an interval of length 2c is
// Cov(psi, r) = E[(psi - its middle) (r - mu)], at most c E|r - mu|. At scores from 0 to 2 with R = 5 this one has 0.84
// to 0.94 of it, so that another could save at most a sixth of the noise; clips of 0.5 and 0.75 save 4 % of the regret.
func Bounded(f Family) Response {
	if p, ok := f.(Poisson); ok && p.r > DefaultScoreClip {
		return boundedScore{p, DefaultScoreClip}
	}
	return f
}

// Residual is what a record's gradient has for mu(z) - r at the score z, given the response's mean there: the
// difference itself, or what a bounded score clips it to.
func Residual(f Response, mean, reward float64) float64 {
	c, clipped := ClipOf(f)
	if !clipped {
		return mean - reward
	}
	return math.Max(-c, math.Min(c, mean-reward))
}

// boundedScore is Huber's score of a count. As a Response, its Mean is the centre t and its Variance the slope.
type boundedScore struct {
	p    Poisson
	clip int
}

// law writes the weights of the counts from lo to hi, up to a factor; all others are below 1e-40.
func (b boundedScore) law(z float64, weights *[MaxPoissonReward + 1]float64) (lo, hi int) {
	mode := b.p.mode(z)
	rate := math.Exp(math.Min(z, 700))
	lo, hi, weights[mode] = mode, mode, 1
	for w := 1.0; hi < b.p.r; {
		if w *= rate / float64(hi+1); w < 1e-40 {
			break
		}
		hi++
		weights[hi] = w
	}
	for w := 1.0; lo > 0; {
		if w *= float64(lo) / rate; w < 1e-40 {
			break
		}
		lo--
		weights[lo] = w
	}
	return lo, hi
}

// moments returns the centre t and the slope.
func (b boundedScore) moments(z float64) (centre, slope float64) {
	if math.IsNaN(z) {
		return z, z
	}
	var weights [MaxPoissonReward + 1]float64
	lo, hi := b.law(z, &weights)
	c := float64(b.clip)
	sum := func(t float64) float64 {
		s := 0.0
		for k := lo; k <= hi; k++ {
			s += weights[k] * math.Max(-c, math.Min(c, float64(k)-t))
		}
		return s
	}
	// The sum falls in t, from at least 0 at lo to at most 0 at hi, and is linear between integers.
	from, to := lo, hi
	for to-from > 1 {
		if mid := (from + to) / 2; sum(float64(mid)) >= 0 {
			from = mid
		} else {
			to = mid
		}
	}
	centre = float64(from)
	if f, g := sum(float64(from)), sum(float64(to)); f > g {
		centre += float64(to-from) * f / (f - g)
	}
	total := 0.0
	for k := lo; k <= hi; k++ {
		d := float64(k) - centre
		total += weights[k]
		slope += weights[k] * math.Max(-c, math.Min(c, d)) * d // = Cov(psi, r), as E psi = 0
	}
	return centre, math.Max(0, slope/total)
}

// Mean is the centre t(z), in [0, R].
func (b boundedScore) Mean(z float64) float64 {
	t, _ := b.moments(z)
	return t
}

// Variance is the slope, which is between the variance of the score and that of the reward.
func (b boundedScore) Variance(z float64) float64 {
	_, slope := b.moments(z)
	return slope
}

// slopeGrid cells on either side of 0 bound the largest slope.
const slopeGrid = 500

// MaxVariance is the largest slope on a grid, plus what it can rise between two points, and at most the family's.
//
// Proof. With A = {|r-t| < c}, E psi = 0 gives t' P(A) = Cov(psi, r) = slope, and the slope E[psi r] has the derivative
// E[psi (r-mu)^2] + slope (mu - E[r|A]), of absolute value at most c w + min(w, c sqrt(w)) (c+R), where w bounds the
// reward's variance. The slope is continuous, also where A changes.
func (b boundedScore) MaxVariance(S float64) float64 {
	c, w := float64(b.clip), b.p.MaxVariance(S)
	rise := c*w + math.Min(w, c*math.Sqrt(w))*(c+b.MaxReward())
	largest := b.Variance(0)
	for i := -slopeGrid; i <= slopeGrid && S > 0; i++ {
		largest = math.Max(largest, b.Variance(S*float64(i)/slopeGrid))
	}
	return math.Min(w, largest+rise*S/slopeGrid/2)
}

// Smoothness is not needed: the bounds of a bounded score do not look between angles.
func (b boundedScore) Smoothness(float64) (second, third float64) { return 0, 0 }

// Name, MinReward, MaxReward, Dispersion and Symmetric implement Response.
func (b boundedScore) Name() string {
	return fmt.Sprintf("%s, score in [-%d, %[2]d]", b.p.Name(), b.clip)
}
func (b boundedScore) Dispersion() float64 { return 1 }
func (b boundedScore) MinReward() float64  { return 0 }
func (b boundedScore) MaxReward() float64  { return b.p.MaxReward() }
func (b boundedScore) Symmetric() bool     { return false }

// ClipOf is the bound of a response's residuals if they are clipped.
func ClipOf(f Response) (c float64, clipped bool) {
	b, clipped := f.(boundedScore)
	return float64(b.clip), clipped
}

package family

import (
	"fmt"
	"math"
)

// MaxPoissonReward is the largest R of the poisson family; one evaluation costs at most R steps.
const MaxPoissonReward = 1000

// Poisson is the exponential family on the counts {0, ..., R} with weights exp(kz)/k!: a Poisson law of rate exp(z)
// conditioned on being at most R. It is not a Poisson count clipped at R: clipping would bias the mean. Build it with
// New.
type Poisson struct{ r int }

func newPoisson(maxReward float64) (Family, error) {
	if !(maxReward >= 1 && maxReward <= MaxPoissonReward) || maxReward != math.Trunc(maxReward) {
		return nil, fmt.Errorf("%w: poisson rewards are counts in {0..R} with R an integer in [1, %d], not %v",
			ErrMaxReward, MaxPoissonReward, maxReward)
	}
	return Poisson{r: int(maxReward)}, nil
}

// mode is the count of largest weight at z.
func (p Poisson) mode(z float64) int {
	if z >= math.Log(float64(p.r)) {
		return p.r
	}
	return int(math.Exp(z))
}

// moments sums the weights relative to the largest one, outwards from the mode, so that nothing overflows and every
// ratio is at most 1. It returns the sum of the relative weights and the mean and variance.
func (p Poisson) moments(z float64) (mode int, total, mean, variance float64) {
	if math.IsNaN(z) {
		return 0, z, z, z
	}
	mode = p.mode(z)
	rate := math.Exp(math.Min(z, 700))
	total = 1
	var first, second float64 // moments of k - mode
	for k, w := mode+1, 1.0; k <= p.r; k++ {
		w *= rate / float64(k)
		if w < 1e-40 {
			break
		}
		d := float64(k - mode)
		total, first, second = total+w, first+w*d, second+w*d*d
	}
	for k, w := mode-1, 1.0; k >= 0; k-- {
		w *= float64(k+1) / rate
		if w < 1e-40 {
			break
		}
		d := float64(k - mode)
		total, first, second = total+w, first+w*d, second+w*d*d
	}
	first, second = first/total, second/total
	return mode, total, float64(mode) + first, math.Max(0, second-first*first)
}

// LogPartition is log sum_{k<=R} exp(kz)/k!.
func (p Poisson) LogPartition(z float64) float64 {
	mode, total, _, _ := p.moments(z)
	lg, _ := math.Lgamma(float64(mode) + 1)
	if mode == 0 {
		return math.Log(total)
	}
	return float64(mode)*z - lg + math.Log(total)
}

// Mean implements Family.
func (p Poisson) Mean(z float64) float64 {
	_, _, mean, _ := p.moments(z)
	return math.Min(mean, float64(p.r))
}

// Variance implements Family.
func (p Poisson) Variance(z float64) float64 {
	_, _, _, v := p.moments(z)
	return v
}

// SelfConcordance is R, as for every canonical family on [0, R].
func (p Poisson) SelfConcordance(float64) float64 { return float64(p.r) }

// MaxVariance searches |z| <= S with an error margin. The weights times k! are log-concave, so the variance is at most
// the mean, hence at most R; and at most R^2/4 on any interval of length R.
func (p Poisson) MaxVariance(S float64) float64 {
	r := float64(p.r)
	return canonicalMaxVariance(p, S, math.Min(r, r*r/4))
}

// Smoothness implements Family.
func (p Poisson) Smoothness(S float64) (second, third float64) {
	return canonicalSmoothness(p.MaxReward(), p.MaxVariance(S))
}

// Name, MinReward, MaxReward, Dispersion and Symmetric implement Family. With R = 1 the family is the logistic one.
func (Poisson) Name() string         { return NamePoisson }
func (Poisson) MinReward() float64   { return 0 }
func (p Poisson) MaxReward() float64 { return float64(p.r) }
func (p Poisson) Symmetric() bool    { return p.r == 1 }
func (Poisson) Dispersion() float64  { return 1 }

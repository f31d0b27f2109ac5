package convex

import (
	"fmt"
	"math"
)

// ErrorInputs are the public numbers of an optimiser's run.
type ErrorInputs struct {
	Reports   int     // n, of every release
	Dimension int     // d
	Rounds    int     // T
	Radius    float64 // S
	// MaxGradient bounds the norm of one record's gradient: R.
	MaxGradient float64
	Ridge       float64 // lambda
	// SumProxy is the sub-Gaussian variance proxy of one coordinate of a released sum, in squared data units: for the
	// vector-summation protocol s^2 (n/4 + n b c_p), with c_p = 1/4 at bias 1/2 and (1-2p)/(2 ln((1-p)/p)) below.
	SumProxy float64
	// Failure is delta_0 in (0, 1).
	Failure float64
}

// ErrorBound is the result of OptimizerError.
type ErrorBound struct {
	// Noise is Xi: with probability at least 1 - delta_0 the squared norm of the noise of the mean gradient stays below
	// it in all rounds.
	Noise float64
	// Step is eta*, the constant step for which Nu holds.
	Step float64
	// Nu bounds the cumulative loss of the average of the iterates (AverageAll) above its minimum over the ball.
	Nu float64
}

// OptimizerError bounds the error of the shuffle optimiser run with the constant step Step and AverageAll: with
// probability at least 1 - 2 Failure the regularised cumulative loss at the result is at most its minimum over the ball
// plus Nu, for any convex losses whose gradients are bounded as stated.
//
// Derivation. With D = 2S, Lp = R + lambda S/n and noise N_i of the mean gradient, projected descent gives an average
// excess of at most D^2/(2 eta T) + eta/(2T) sum |g_i + N_i|^2 + (1/T) sum <N_i, theta* - theta_i>, and
// |g+N|^2 <= 2(Lp^2 + |N|^2). A vector of d independent coordinates of proxy v has |N|^2 <= v(d + 2 sqrt(dt) + 2t)
// except with probability exp(-t) (D. Hsu, S. Kakade, T. Zhang, "A tail inequality for quadratic forms of subgaussian
// random vectors", 2012), used with t = ln(T/delta_0) for all rounds at once; the last sum is a martingale with
// increments of proxy v D^2. eta* balances the first two terms.
func OptimizerError(in ErrorInputs) (ErrorBound, error) {
	if in.Reports < 1 || in.Dimension < 1 || in.Rounds < 1 {
		return ErrorBound{}, fmt.Errorf("%w: %d reports, dimension %d, %d rounds",
			ErrParameter, in.Reports, in.Dimension, in.Rounds)
	}
	if !(in.Radius > 0) || !(in.MaxGradient > 0) || !(in.Ridge >= 0) || !(in.SumProxy >= 0) ||
		!(in.Failure > 0 && in.Failure < 1) || math.IsInf(in.Radius+in.MaxGradient+in.Ridge+in.SumProxy, 0) {
		return ErrorBound{}, fmt.Errorf("%w: radius %v, gradient bound %v, ridge %v, noise proxy %v, failure %v",
			ErrParameter, in.Radius, in.MaxGradient, in.Ridge, in.SumProxy, in.Failure)
	}
	n, d, T := float64(in.Reports), float64(in.Dimension), float64(in.Rounds)
	diameter := 2 * in.Radius
	lipschitz := in.MaxGradient + in.Ridge*in.Radius/n
	v := in.SumProxy / (n * n)
	t := math.Log(T / in.Failure)
	noise := v * (d + 2*math.Sqrt(d*t) + 2*t)
	square := lipschitz*lipschitz + noise
	return ErrorBound{
		Noise: noise,
		Step:  diameter / math.Sqrt(2*T*square),
		Nu:    n * diameter * (math.Sqrt(2*square/T) + math.Sqrt(2*v*math.Log(1/in.Failure)/T)),
	}, nil
}

// SmoothInputs are the public numbers of a run with the step of SmoothnessStep and AverageSecondHalf.
type SmoothInputs struct {
	Reports   int // n, of every release
	Dimension int // d
	Rounds    int // T
	// Step is eta = 1/L on the mean loss, L bounding its curvature.
	Step float64
	// Start bounds the distance of the start from the minimum: D.
	Start float64
	// SumVariance is the variance of one coordinate of a released sum, V.
	SumVariance float64
}

// SmoothError estimates how far the cumulative loss at the result lies above its minimum, in expectation:
//
//	n D^2 / (4 e eta (floor(T/2)+1))  +  (T / ceil(T/2)) eta d V/n.
//
// The first term is the part of the start's excess that the steps leave, to second order: i steps on a quadratic leave
// (1-eta h)^i of the distance in a direction of curvature h, hence a loss of at most n D^2/2 * max over h of h (1-eta
// h)^(2i) <= n D^2/(4 e eta i), and every iterate in the average has at least floor(T/2)+1 steps behind it. The second
// term is the noise, for any convex losses of curvature at most 1/eta: with N_i the noise of the mean gradient, a step
// gives, for every theta in the ball,
//
//	f(theta_(i+1)) - f(theta) <= (|theta_i - theta|^2 - |theta_(i+1) - theta|^2)/(2 eta) + eta |N_i|^2 - <N_i, a> ,
//
// where a depends on earlier noise only; in expectation the sum over all T steps, divided by the ceil(T/2) averaged
// ones, leaves (T/ceil(T/2)) eta d V/n^2. Unlike OptimizerError it does not bound the error with high probability, and
// it is small enough to be of use.
func SmoothError(in SmoothInputs) (float64, error) {
	if in.Reports < 1 || in.Dimension < 1 || in.Rounds < 1 {
		return 0, fmt.Errorf("%w: %d reports, dimension %d, %d rounds",
			ErrParameter, in.Reports, in.Dimension, in.Rounds)
	}
	if !(in.Step > 0) || !(in.Start >= 0) || !(in.SumVariance >= 0) || math.IsInf(in.Step+in.Start+in.SumVariance, 0) {
		return 0, fmt.Errorf("%w: step %v, distance of the start %v, noise variance %v",
			ErrParameter, in.Step, in.Start, in.SumVariance)
	}
	n, half := float64(in.Reports), in.Rounds/2
	start := n * in.Start * in.Start / (4 * math.E * in.Step * float64(half+1))
	noise := float64(in.Rounds) / float64(in.Rounds-half) * in.Step * float64(in.Dimension) * in.SumVariance / n
	return start + noise, nil
}

package convex

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// DefaultRounds is the number of gradient rounds of the paper profile. The paper's own number, about (epsilon n)^2/d up
// to logarithms, is far more than the number of rounds for which devices can be asked to stay.
const DefaultRounds = 10

// Averaging says which of the iterates theta^(0), ..., theta^(T) of a run over T rounds make up its result.
type Averaging string

const (
	// AverageAll is the mean of theta^(0) .. theta^(T-1), the points at which gradients were taken. The regret bound of
	// gradient descent holds for it (OptimizerError).
	AverageAll Averaging = "all"
	// AverageSecondHalf is the mean of the last ceil(T/2) iterates, theta^(T) included, which forgets the start: suffix
	// averaging (A. Rakhlin, O. Shamir, K. Sridharan, "Making gradient descent optimal for strongly convex stochastic
	// optimization", 2012).
	AverageSecondHalf Averaging = "second-half"
)

// OptimizerConfig describes a run of the shuffle optimiser on one cohort.
type OptimizerConfig struct {
	Start     []float64 // theta^(0); it is projected on the ball
	Rounds    int       // T >= 1, the number of gradient releases
	Radius    float64   // S > 0: every iterate has norm at most S
	Step      float64   // eta > 0, on the mean loss, in every round
	Averaging Averaging // empty means AverageAll
	// Ridge is lambda >= 0: the optimiser minimises the sum of the records' losses plus lambda/2 |theta|^2. The
	// analyzer adds the ridge's gradient itself, for it is public; inside the devices' gradients it would only add
	// sensitivity.
	Ridge float64
}

// Optimizer is P_GD, the shuffle convex optimiser of Riffle's seed paper, Algorithm 7, as a state machine over released
// gradient sums: publish Iterate, collect the cohort's gradient release, Absorb the debiased sum, until Done. It is
// projected gradient descent; the gradients may be noisy. The iterate is a function of the configuration and of earlier
// releases only. Not safe for concurrent use.
type Optimizer struct {
	cfg   OptimizerConfig
	theta []float64
	sum   []float64 // of the iterates that the average takes
	taken int       // the number of these iterates
	round int
}

// NewOptimizer checks the configuration.
func NewOptimizer(cfg OptimizerConfig) (*Optimizer, error) {
	if len(cfg.Start) == 0 {
		return nil, fmt.Errorf("%w: the start has no coordinates", ErrDimension)
	}
	if cfg.Rounds < 1 {
		return nil, fmt.Errorf("%w: %d rounds, at least 1 is needed", ErrParameter, cfg.Rounds)
	}
	if !(cfg.Radius > 0) || !(cfg.Step > 0) || !(cfg.Ridge >= 0) || !IsFinite(cfg.Radius+cfg.Step+cfg.Ridge) {
		return nil, fmt.Errorf("%w: radius %v and step %v must be positive, the ridge %v at least 0, all finite",
			ErrParameter, cfg.Radius, cfg.Step, cfg.Ridge)
	}
	switch cfg.Averaging {
	case "":
		cfg.Averaging = AverageAll
	case AverageAll, AverageSecondHalf:
	default:
		return nil, fmt.Errorf("%w: unknown averaging %q: known are %s and %s",
			ErrParameter, cfg.Averaging, AverageAll, AverageSecondHalf)
	}
	theta, err := Ball{cfg.Radius}.Project(nil, cfg.Start)
	if err != nil {
		return nil, err
	}
	o := &Optimizer{cfg: cfg, theta: theta, sum: make([]float64, len(theta))}
	o.average()
	return o, nil
}

// average adds the current iterate, theta^(round), to the average if it belongs there.
func (o *Optimizer) average() {
	if o.cfg.Averaging == AverageAll && o.Done() || o.cfg.Averaging == AverageSecondHalf && o.round <= o.cfg.Rounds/2 {
		return
	}
	o.taken++
	for j, v := range o.theta {
		o.sum[j] += v
	}
}

// Iterate is a copy of the point at which the next gradient release is due, or of the last iterate when Done.
func (o *Optimizer) Iterate() []float64 { return slices.Clone(o.theta) }

// Round is the number of releases absorbed.
func (o *Optimizer) Round() int { return o.round }

// Done reports whether all rounds are over.
func (o *Optimizer) Done() bool { return o.round >= o.cfg.Rounds }

// Absorb takes a released gradient sum over the given number of reports (null records included: they add nothing to the
// sum) and steps along the mean (sum + lambda theta)/reports. On an error nothing has changed.
func (o *Optimizer) Absorb(sum []float64, reports int) error {
	if reports < 1 {
		return fmt.Errorf("%w: a release of %d reports", ErrParameter, reports)
	}
	if o.Done() {
		return fmt.Errorf("%w: all %d rounds are over", ErrParameter, o.cfg.Rounds)
	}
	if err := checkVector("the gradient sum", sum, len(o.theta)); err != nil {
		return err
	}
	next := make([]float64, len(o.theta))
	for j, v := range o.theta {
		next[j] = v - o.cfg.Step*((sum[j]+o.cfg.Ridge*v)/float64(reports))
	}
	next, err := Ball{o.cfg.Radius}.Project(next, next)
	if err != nil {
		return err
	}
	o.theta = next
	o.round++
	o.average()
	return nil
}

// Result is the average that the configuration asks for, over the rounds so far; its norm is at most Radius. Before the
// average has begun it is the current iterate.
func (o *Optimizer) Result() []float64 {
	if o.taken == 0 {
		return o.Iterate()
	}
	mean := make([]float64, len(o.sum))
	for j, v := range o.sum {
		mean[j] = v / float64(o.taken)
	}
	mean, err := Ball{o.cfg.Radius}.Project(mean, mean)
	if err != nil { // not reached: iterates are finite and bounded
		return o.Iterate()
	}
	return mean
}

// SmoothnessStep is the step 1/L of gradient descent on the mean loss (the sum of the losses plus lambda/2 |theta|^2,
// over reports), whose gradient is Lipschitz with L = maxVariance * lmax + lambda/reports: maxVariance bounds mu' over
// the ball, lmax is the largest eigenvalue of the mean of the arms' outer products. covariance is the released sum of
// the outer products, unweighted and without ridge. The noise in its largest eigenvalue is limited by what holds
// without data: arms have norm at most 1, so lmax <= 1. lmax is taken to be at least 1/reports, so that the step stays
// bounded.
//
// Without noise, steps of this size never increase the mean loss (Yu. Nesterov, "Introductory Lectures on Convex
// Optimization", Theorem 2.2.7). The weighted matrices H_k cannot stand in for the covariance: their weights are below
// the loss's curvature, and steps computed from them overshoot.
func SmoothnessStep(maxVariance float64, covariance mat.Symmetric, ridge float64, reports int) (float64, error) {
	if !(maxVariance > 0) || math.IsInf(maxVariance, 0) || !(ridge >= 0) || math.IsInf(ridge, 0) || reports < 1 {
		return 0, fmt.Errorf("%w: variance bound %v, ridge %v, %d reports", ErrParameter, maxVariance, ridge, reports)
	}
	n := float64(reports)
	values, _, err := Spectrum(covariance)
	if err != nil {
		return 0, fmt.Errorf("covariance: %w", err)
	}
	largest := math.Min(1, math.Max(1/n, values[len(values)-1]/n))
	return 1 / (maxVariance*largest + ridge/n), nil
}

package convex

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// DefaultRounds is the number of gradient rounds of the paper profile. The paper's own number, about (epsilon n)^2/d up to
// logarithms, is far more than devices can be asked to stay for.
const DefaultRounds = 10

// OptimizerConfig describes the shuffle optimiser of one cohort.
type OptimizerConfig struct {
	DescentConfig
	// Ridge is lambda >= 0: the optimiser minimises the sum of the records' losses plus lambda/2 |theta|^2. The analyzer
	// adds the ridge's gradient itself, for it is public; inside the devices' gradients it would only add sensitivity.
	Ridge float64
}

// Optimizer is P_GD, the shuffle convex optimiser of Riffle's seed paper, Algorithm 7, as a state machine over released
// gradient sums: publish Iterate, collect the gradient release of the cohort, Absorb the debiased sum, until Done. The
// iterate is a function of the configuration and of earlier releases only.
type Optimizer struct {
	descent *Descent
	ridge   float64
}

// NewOptimizer checks the configuration.
func NewOptimizer(cfg OptimizerConfig) (*Optimizer, error) {
	if !(cfg.Ridge >= 0) || math.IsInf(cfg.Ridge, 0) {
		return nil, fmt.Errorf("%w: the ridge is %v, it must be finite and at least 0", ErrParameter, cfg.Ridge)
	}
	d, err := NewDescent(cfg.DescentConfig)
	if err != nil {
		return nil, err
	}
	return &Optimizer{descent: d, ridge: cfg.Ridge}, nil
}

// Iterate is the point at which the next gradient release is due.
func (o *Optimizer) Iterate() []float64 { return o.descent.Iterate() }

// Round is the number of releases absorbed.
func (o *Optimizer) Round() int { return o.descent.Round() }

// Done says whether all rounds are over.
func (o *Optimizer) Done() bool { return o.descent.Done() }

// Result is the estimate: the average of the iterates that the configuration asks for.
func (o *Optimizer) Result() []float64 { return o.descent.Result() }

// Absorb takes a released gradient sum over the given number of reports (null records included: they add nothing to the
// sum) and steps along the mean (sum + lambda theta)/reports. On an error nothing has changed.
func (o *Optimizer) Absorb(sum []float64, reports int) error {
	if reports < 1 {
		return fmt.Errorf("%w: a release of %d reports", ErrParameter, reports)
	}
	theta := o.descent.theta
	if err := checkVector("the gradient sum", sum, len(theta)); err != nil {
		return err
	}
	mean := make([]float64, len(sum))
	for j, v := range sum {
		mean[j] = (v + o.ridge*theta[j]) / float64(reports)
	}
	return o.descent.Absorb(mean)
}

// SmoothnessStep is the step 1/L of gradient descent on the mean loss (the sum of the losses plus lambda/2 |theta|^2, over
// reports), whose gradient is Lipschitz with L = maxVariance * lmax + lambda/reports: maxVariance bounds mu' over the
// ball, lmax is the largest eigenvalue of the mean of the arms' outer products. covariance is the released sum of the
// outer products, unweighted and without ridge. Its noise is met by what is known of lmax without it: arms have norm at
// most 1, so lmax <= 1; and lmax is taken to be at least 1/reports, so that the step stays bounded.
//
// Without noise, steps of this size never increase the mean loss (Yu. Nesterov, "Introductory Lectures on Convex
// Optimization", Theorem 2.2.7). The weighted matrices H_k will not do here: their weights are below the loss's
// curvature, and steps computed from them overshoot.
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

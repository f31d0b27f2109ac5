package convex

import (
	"fmt"
	"math"
)

// Averaging says which of the iterates theta^(0), ..., theta^(T) a descent over T rounds returns.
type Averaging string

const (
	// AverageAll is the mean of theta^(0) .. theta^(T-1), the points at which gradients were taken: what the regret bound
	// of gradient descent is about (OptimizerError).
	AverageAll Averaging = "all"
	// AverageSecondHalf is the mean of the last ceil(T/2) iterates, theta^(T) included: suffix averaging (A. Rakhlin, O.
	// Shamir, K. Sridharan, "Making gradient descent optimal for strongly convex stochastic optimization", 2012). It
	// forgets the start.
	AverageSecondHalf Averaging = "second-half"
	// AverageNone is theta^(T).
	AverageNone Averaging = "none"
)

// Step is the step size of round i, counted from 0.
type Step func(i int) float64

// ConstantStep is eta in every round.
func ConstantStep(eta float64) Step { return func(int) float64 { return eta } }

// DecreasingStep is eta/sqrt(i+1), for gradients of bounded norm when the number of rounds is open.
func DecreasingStep(eta float64) Step {
	return func(i int) float64 { return eta / math.Sqrt(float64(i)+1) }
}

// DescentConfig describes a projected gradient descent.
type DescentConfig struct {
	// Start is theta^(0); it is projected on the ball.
	Start []float64
	// Rounds is T >= 1, the number of gradients.
	Rounds int
	// Radius is S > 0: every iterate has norm at most S.
	Radius float64
	// Step gives the step sizes, positive and finite.
	Step Step
	// Averaging is one of the constants; empty means AverageAll.
	Averaging Averaging
}

// Descent is projected gradient descent as a state machine: take Iterate, find a gradient there, Absorb it, until Done.
// Gradients may be noisy. It is deterministic: the same gradients give the same iterates. Not safe for concurrent use.
type Descent struct {
	cfg   DescentConfig
	theta []float64
	sum   []float64 // of the iterates that the average takes
	taken int       // how many they are
	round int
}

// NewDescent checks the configuration.
func NewDescent(cfg DescentConfig) (*Descent, error) {
	if len(cfg.Start) == 0 {
		return nil, fmt.Errorf("%w: the start has no coordinates", ErrDimension)
	}
	if cfg.Rounds < 1 {
		return nil, fmt.Errorf("%w: %d rounds, at least 1 is needed", ErrParameter, cfg.Rounds)
	}
	if !(cfg.Radius > 0) || math.IsInf(cfg.Radius, 0) {
		return nil, fmt.Errorf("%w: the radius is %v, it must be positive and finite", ErrParameter, cfg.Radius)
	}
	if cfg.Step == nil {
		return nil, fmt.Errorf("%w: no step rule", ErrParameter)
	}
	switch cfg.Averaging {
	case "":
		cfg.Averaging = AverageAll
	case AverageAll, AverageSecondHalf, AverageNone:
	default:
		return nil, fmt.Errorf("%w: unknown averaging %q: known are %s, %s, %s", ErrParameter, cfg.Averaging, AverageAll, AverageSecondHalf, AverageNone)
	}
	theta, err := Ball{cfg.Radius}.Project(nil, cfg.Start)
	if err != nil {
		return nil, err
	}
	d := &Descent{cfg: cfg, theta: theta, sum: make([]float64, len(theta))}
	d.count()
	return d, nil
}

// count adds the current iterate, theta^(round), to the average if it belongs there.
func (d *Descent) count() {
	i, T := d.round, d.cfg.Rounds
	switch d.cfg.Averaging {
	case AverageAll:
		if i == T {
			return
		}
	case AverageSecondHalf:
		if i <= T/2 {
			return
		}
	default:
		return
	}
	d.taken++
	for j, v := range d.theta {
		d.sum[j] += v
	}
}

// Dim is the dimension of the iterates.
func (d *Descent) Dim() int { return len(d.theta) }

// Round is the number of gradients absorbed.
func (d *Descent) Round() int { return d.round }

// Done says whether all rounds are over.
func (d *Descent) Done() bool { return d.round >= d.cfg.Rounds }

// Iterate is a copy of the current iterate: the point of the next gradient, or the last iterate when Done.
func (d *Descent) Iterate() []float64 { return append([]float64(nil), d.theta...) }

// Absorb takes the gradient at Iterate and moves on. On an error nothing has changed.
func (d *Descent) Absorb(gradient []float64) error {
	if d.Done() {
		return fmt.Errorf("%w: all %d rounds are over", ErrParameter, d.cfg.Rounds)
	}
	if err := checkVector("the gradient", gradient, len(d.theta)); err != nil {
		return err
	}
	eta := d.cfg.Step(d.round)
	if !(eta > 0) || math.IsInf(eta, 0) {
		return fmt.Errorf("%w: the step of round %d is %v, it must be positive and finite", ErrParameter, d.round, eta)
	}
	next := make([]float64, len(d.theta))
	for j, v := range d.theta {
		next[j] = v - eta*gradient[j]
	}
	next, err := Ball{d.cfg.Radius}.Project(next, next)
	if err != nil {
		return err
	}
	d.theta = next
	d.round++
	d.count()
	return nil
}

// Result is the average that the configuration asks for, over the rounds so far; its norm is at most Radius. Before the
// average has begun it is the current iterate.
func (d *Descent) Result() []float64 {
	if d.taken == 0 {
		return d.Iterate()
	}
	mean := make([]float64, len(d.sum))
	for j, v := range d.sum {
		mean[j] = v / float64(d.taken)
	}
	mean, err := Ball{d.cfg.Radius}.Project(mean, mean)
	if err != nil { // not reached: iterates are finite and bounded
		return d.Iterate()
	}
	return mean
}

// Descend runs a descent to its end on an oracle that writes the (noisy) gradient at theta into gradient.
func Descend(cfg DescentConfig, oracle func(gradient, theta []float64) error) ([]float64, error) {
	d, err := NewDescent(cfg)
	if err != nil {
		return nil, err
	}
	gradient := make([]float64, d.Dim())
	for !d.Done() {
		if err := oracle(gradient, d.Iterate()); err != nil {
			return nil, err
		}
		if err := d.Absorb(gradient); err != nil {
			return nil, err
		}
	}
	return d.Result(), nil
}

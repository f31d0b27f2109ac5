package experiment

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// spread plays the same learner in many trials side by side and counts the rounds in which the arms that the trials
// played, together, reach all directions: the smallest eigenvalue of the mean of xx' over the trials is above a cut.
// That is Table 1 of "Improved rate for locally differentially private linear bandits", whose cut is "O(1)". The
// first trial is the run's own, and its regret is the run's.
//
// The paper does not say whether the trials share their true parameter. If each has its own, the directions that they
// play stay spread whatever they learn; if they share it, they all come to play near it, and the share of rounds falls
// as they learn.
type spread struct {
	play.Algorithm
	trials []*trial // the others
	arm    []float64
	cut    float64
	rounds int
	above  int
}

// trial is a run beside the run.
type trial struct {
	algorithm play.Algorithm
	next      func() (population.Person, error, bool)
	stop      func()
}

// The options of a kind that counts the spread: how many trials (default 50), the cut (default 0.02), and whether all
// trials have the same true parameter (1) or each its own (0, the default).
const (
	optionTrials, defaultTrials = "trials", 50
	optionCut, defaultCut       = "cut", 0.02
	optionShared                = "shared_parameter"
	// trialSeeds is how many seeds a run has for its trials.
	trialSeeds = 1 << 16
)

// spreading is the job's learner with trials beside it.
func (j job) spreading(k kind, e *environment.Environment, devices, noise protocol.Source) (play.Algorithm, error) {
	k.spread = false
	s := learn.Setting{Options: j.Algorithm.Options}
	count := int(s.Option(optionTrials, defaultTrials))
	out := &spread{cut: s.Option(optionCut, defaultCut)}
	if count < 1 || count > trialSeeds {
		return nil, fmt.Errorf("%w: %s: %d trials, must be in [1, %d]", ErrExperiment, j.Algorithm.Name, count,
			trialSeeds)
	}
	j.Algorithm.Options = maps.Clone(j.Algorithm.Options)
	for _, name := range []string{optionTrials, optionCut, optionShared} {
		delete(j.Algorithm.Options, name)
	}
	own, err := j.makeLearner(k, e, devices, noise)
	if err != nil {
		return nil, err
	}
	out.Algorithm = own
	for i := 1; i < count; i++ {
		seed := j.Seed*trialSeeds + uint64(i)
		people := j.Environment
		if s.Option(optionShared, 0) != 0 {
			people.Parameter = e.Theta
		}
		other, err := people.Open(seed, e.Info().People)
		if err != nil {
			return nil, err
		}
		t, own := &trial{}, rand.NewChaCha8(key(seed, 'd'))
		if t.algorithm, err = j.makeLearner(k, other, own, rand.NewChaCha8(key(seed, 'n'))); err != nil {
			return nil, err
		}
		t.next, t.stop = iter.Pull2(other.People())
		out.trials = append(out.trials, t)
	}
	return out, nil
}

// Choose implements play.Algorithm.
func (s *spread) Choose(arms [][]float64) (int, error) {
	arm, err := s.Algorithm.Choose(arms)
	if err == nil {
		s.arm = arms[arm]
	}
	return arm, err
}

// Learn implements play.Algorithm: all trials decide for a person.
func (s *spread) Learn(reward float64) error {
	if err := s.Algorithm.Learn(reward); err != nil {
		return err
	}
	d, n := len(s.arm), float64(1+len(s.trials))
	mean := mat.NewSymDense(d, nil)
	mean.SymRankOne(mean, 1/n, mat.NewVecDense(d, s.arm))
	for _, t := range s.trials {
		x, err := t.decide()
		if err != nil {
			return err
		}
		mean.SymRankOne(mean, 1/n, mat.NewVecDense(d, x))
	}
	values, _, err := convex.Spectrum(mean)
	if err != nil {
		return err
	}
	if s.rounds++; values[0] > s.cut {
		s.above++
	}
	return nil
}

// decide plays for the trial's next person and returns the arm.
func (t *trial) decide() ([]float64, error) {
	p, err, ok := t.next()
	if err != nil || !ok {
		return nil, fmt.Errorf("%w: a trial has no more people: %w", ErrExperiment, err)
	}
	arm, err := t.algorithm.Choose(p.Arms)
	if err != nil {
		return nil, err
	}
	reward, err := p.Reward(arm)
	if err != nil {
		return nil, err
	}
	return p.Arms[arm], t.algorithm.Learn(reward)
}

// Spread is the share of rounds above the cut so far.
func (s *spread) Spread() float64 { return float64(s.above) / float64(max(1, s.rounds)) }

// Close ends all trials.
func (s *spread) Close() {
	for _, t := range s.trials {
		t.stop()
		if c, ok := t.algorithm.(interface{ Close() }); ok {
			c.Close()
		}
	}
	if c, ok := s.Algorithm.(interface{ Close() }); ok {
		c.Close()
	}
}

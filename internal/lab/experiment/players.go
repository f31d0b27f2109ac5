package experiment

import (
	"fmt"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/internal/lab/baseline"
	"github.com/riffle-dp/riffle/internal/lab/environment"
	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/internal/lab/simulate"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// The kinds of algorithms.
const (
	KindRiffle   = "riffle"             // the learner through the shuffle protocol, planned as the analyzer plans
	KindLocal    = "local-dp"           // the learner with every device's own Gaussian noise
	KindCentral  = "central-dp"         // the learner with a trusted curator's Gaussian noise
	KindBatched  = "nonprivate-batched" // the learner with exact sums: B-GLinCB-G
	KindGreedy   = "greedy"
	KindUniform  = "uniform"
	KindConstant = "constant" // the best constant arm, known in hindsight
	KindRSGLinCB = "rs-glincb"
	KindGLMUCB   = "glm-ucb"
	KindGLOC     = "gloc"
	KindECOLog   = "ecolog"
	KindFresh    = "fresh-release" // a yardstick that knows the truth: see baseline.Fresh
)

var kinds = []string{KindRiffle, KindLocal, KindCentral, KindBatched, KindGreedy, KindUniform, KindConstant, KindRSGLinCB, KindGLMUCB, KindGLOC, KindECOLog, KindFresh}

// private says whether the algorithm has an epsilon.
func (a Algorithm) private() bool {
	return a.Kind == KindRiffle || a.Kind == KindLocal || a.Kind == KindCentral || a.Kind == KindFresh
}

// noiseFree stands for no privacy where a rule asks for an epsilon: the first cohort of the learner with exact sums is what its rule
// gives for so large a budget that noise does not matter.
const noiseFree = 10

// freshDiameter is that of a score at an estimate of zero; elsewhere it is larger.
const freshDiameter = 1

// config is the learner's configuration in a run.
func (j job) config(info population.Info) glm.Config {
	c := j.Algorithm.Learner
	set(&c.Family, info.Family)
	set(&c.MaxReward, info.MaxReward)
	set(&c.Dimension, info.Dim)
	set(&c.Radius, info.NormBound)
	set(&c.Horizon, info.People)
	set(&c.Epsilon, j.Epsilon)
	set(&c.Epsilon, noiseFree)
	set(&c.Delta, j.Delta)
	return c
}

func set[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// player makes the job's player. Its coins and the channel's noise come from generators of the seed: this is a simulation.
func (j job) player(e *environment.Environment) (simulate.Player, error) {
	info := e.Info()
	devices, noise := rand.NewChaCha8(key(j.Seed, 'd')), rand.NewChaCha8(key(j.Seed, 'n'))
	setting := baseline.Setting{Family: e.Family, Dimension: info.Dim, Radius: info.NormBound, Horizon: info.People, Failure: j.Failure, Source: devices}
	switch j.Algorithm.Kind {
	case KindRSGLinCB, KindGLMUCB, KindGLOC:
		kappa, err := e.Kappa()
		if err != nil {
			return nil, err
		}
		setting.Kappa = kappa
	}
	switch j.Algorithm.Kind {
	case KindRiffle:
		trust := simulate.Shuffle(j.Algorithm.Terms.resolve(j.Epsilon, j.Delta))
		if j.Algorithm.Anytime > 0 {
			return j.anytime(info, trust, devices, noise)
		}
		return simulate.NewBatched(j.config(info), trust, devices, noise)
	case KindLocal:
		return baseline.NewLocalDP(j.config(info), j.Epsilon, j.Delta, devices, noise)
	case KindCentral:
		return simulate.NewBatched(j.config(info), simulate.Central(j.Epsilon, j.Delta), devices, noise)
	case KindBatched:
		if j.Algorithm.Anytime > 0 {
			return j.anytime(info, simulate.Exact, devices, nil)
		}
		return baseline.NewBGLinCBG(j.config(info), devices)
	case KindGreedy:
		return baseline.NewGreedy(setting)
	case KindUniform:
		return &baseline.Uniform{Source: devices}, nil
	case KindConstant:
		arm, _, err := population.BestConstant(e.People())
		return baseline.Constant(arm), err
	case KindRSGLinCB:
		return baseline.NewRSGLinCB(setting)
	case KindGLMUCB:
		return baseline.NewGLMUCB(setting)
	case KindGLOC:
		return baseline.NewGLOC(setting)
	case KindECOLog:
		return baseline.NewECOLog(setting)
	case KindFresh:
		if e.Theta == nil {
			return nil, fmt.Errorf("%w: %s needs an environment with a known parameter", ErrExperiment, j.Algorithm.Name)
		}
		p := j.Algorithm.Learner.Practical
		return baseline.NewFresh(setting, e.Theta, j.Epsilon, j.Delta, freshDiameter, p.FirstCohort, p.Growth)
	}
	return nil, fmt.Errorf("%w: kind %q", ErrExperiment, j.Algorithm.Kind)
}

// anytime is the learner that is not told the horizon.
func (j job) anytime(info population.Info, trust simulate.Trust, devices, noise protocol.Source) (simulate.Player, error) {
	c := j.config(info)
	c.Horizon = j.Algorithm.Anytime
	return simulate.NewAnytime(c, trust, devices, noise)
}

func key(seed uint64, purpose byte) (k [32]byte) {
	k[31] = purpose
	for i := range 8 {
		k[i] = byte(seed >> (8 * i))
	}
	return k
}

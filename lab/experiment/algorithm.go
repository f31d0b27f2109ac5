package experiment

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/lab/baseline"
	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// The kinds of algorithms.
const (
	// KindRiffle is the learner with one of the four channels, planned as the analyzer plans, of exact integer noise;
	// AlgorithmSpec.Trust names it. A channel's name is a kind, too: KindRiffle with this channel.
	KindRiffle = "riffle"
	// Yardsticks of floating-point Gaussian noise, as the literature has them: the learner with noise of every device,
	// by which it weighs its sums, and with that of a trusted curator. The channels local and central are KindRiffle.
	KindGaussianLocal   = "local-dp"
	KindGaussianCentral = "central-dp"
	// KindBatched is the learner with exact sums. In the paper profile it is close to B-GLinCB of Sawarni, Das, Barman
	// and Sinha, "Generalized linear bandits with limited adaptivity" (2024), but has G-optimal designs in every batch
	// instead of distributional ones, and estimates from whole batches; hence B-GLinCB-G. KindBGLinCB is the original.
	KindBatched  = "nonprivate-batched"
	KindGreedy   = "greedy"
	KindUniform  = "uniform"
	KindConstant = "constant" // the best constant arm, known in hindsight
	// KindBGLinCB is B-GLinCB itself, with the constants of Learner.Paper.
	KindBGLinCB  = "b-glincb"
	KindRSGLinCB = "rs-glincb"
	KindGLMUCB   = "glm-ucb"
	KindGLOC     = "gloc"
	KindECOLog   = "ecolog"
	KindFresh    = "fresh-release" // a yardstick that knows the truth: see baseline.Fresh
)

var kinds = []string{
	KindRiffle, KindGaussianLocal, KindGaussianCentral, KindBatched, KindGreedy, KindUniform, KindConstant, KindBGLinCB,
	KindRSGLinCB, KindGLMUCB, KindGLOC, KindECOLog, KindFresh,
}

// private reports whether the algorithm has an epsilon.
func (a AlgorithmSpec) private() bool {
	if k, ok := learners[a.Kind]; ok {
		return len(k.trusts) > 0
	}
	return slices.Contains([]string{KindRiffle, KindGaussianLocal, KindGaussianCentral, KindFresh}, a.Kind)
}

// noiseFree is the epsilon of algorithms without privacy. With a budget this large noise does not matter to the rule
// for the first cohort.
const noiseFree = 1000

// freshDiameter is that of a score at an estimate of zero; elsewhere it is larger.
const freshDiameter = 1

// config is the learner's configuration in a run.
func (j job) config(info population.Info) learner.Config {
	c := j.Algorithm.Learner
	c.Family, c.MaxReward = cmp.Or(c.Family, info.Family), cmp.Or(c.MaxReward, info.MaxReward)
	c.Dimension, c.Radius = cmp.Or(c.Dimension, info.Dim), cmp.Or(c.Radius, info.NormBound)
	if c.Structure == nil && !j.Algorithm.AnyArm {
		c.Structure = info.Structure
	}
	c.Horizon = cmp.Or(c.Horizon, info.People)
	c.Epsilon, c.Delta = cmp.Or(c.Epsilon, j.Epsilon, noiseFree), cmp.Or(c.Delta, j.Delta)
	return c
}

// algorithm makes the job's algorithm. Its coins and the channel's noise come from generators of the seed: this is a
// simulation.
func (j job) algorithm(e *environment.Environment) (play.Algorithm, error) {
	info := e.Info()
	devices, noise := rand.NewChaCha8(key(j.Seed, 'd')), rand.NewChaCha8(key(j.Seed, 'n'))
	setting := baseline.Setting{
		Family: e.Family, Dimension: info.Dim, Radius: info.NormBound, Horizon: info.People, Failure: j.Failure,
		Source: devices,
	}
	if k, ok := learners[j.Algorithm.Kind]; ok {
		return j.makeLearner(k, e, devices, noise)
	}
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
		terms := j.Algorithm.Terms.resolve(cmp.Or(j.Algorithm.Trust, plan.Shuffle), j.Epsilon, j.Delta)
		return j.learner(info, play.Planned(terms), devices, noise)
	case KindGaussianLocal:
		return play.NewBatched(j.config(info), play.GaussianLocal(j.Epsilon, j.Delta), devices, noise)
	case KindGaussianCentral:
		return play.NewBatched(j.config(info), play.GaussianCentral(j.Epsilon, j.Delta), devices, noise)
	case KindBatched:
		return j.learner(info, play.Exact, devices, nil)
	case KindGreedy:
		return baseline.NewGreedy(setting)
	case KindUniform:
		return &baseline.Uniform{Source: devices}, nil
	case KindConstant:
		arm, _, err := population.BestConstant(e.People())
		return baseline.Constant(arm), err
	case KindBGLinCB:
		return baseline.NewBGLinCB(setting, j.config(info))
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
			return nil, fmt.Errorf("%w: %s needs an environment with a known parameter", ErrExperiment,
				j.Algorithm.Name)
		}
		p := j.Algorithm.Learner.Practical
		return baseline.NewFresh(setting, e.Theta, j.Epsilon, j.Delta, freshDiameter, p.FirstCohort, p.Growth)
	}
	return nil, fmt.Errorf("%w: kind %q", ErrExperiment, j.Algorithm.Kind)
}

// learner is Riffle's own learner, told the horizon unless the algorithm is anytime.
func (j job) learner(
	info population.Info, trust play.Trust, devices, noise protocol.Source,
) (play.Algorithm, error) {
	c := j.config(info)
	if j.Algorithm.Anytime == 0 {
		return play.NewBatched(c, trust, devices, noise)
	}
	c.Horizon = j.Algorithm.Anytime
	return play.NewAnytime(c, trust, devices, noise)
}

func key(seed uint64, purpose byte) (k [32]byte) {
	k[31] = purpose
	for i := range 8 {
		k[i] = byte(seed >> (8 * i))
	}
	return k
}

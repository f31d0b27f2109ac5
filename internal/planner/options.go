// Package planner says what a deployment's privacy costs before anything runs: how many bit messages, bytes and seconds
// it takes of each person, and how large the error of every released sum is, compared with a trusted curator's and with
// that of local differential privacy.
//
// The plans are those that an analyzer announces for the same settings (pkg/plan, calibrate.Bits). This package lays
// out the cohorts, computes the costs and shows them. CPU times are estimates from one measurement of this machine; the
// other numbers are exact.
package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrOptions says that an option is out of range; it is wrapped with the option's name and value.
var ErrOptions = errors.New("plan")

// Options say what to plan.
type Options struct {
	Learner glm.Profile // whose cohorts and statistics are planned: practical, the default, or a program
	Users   int         // people, divided into cohorts by the learner's schedule; used if Cohorts is empty
	Cohorts []int       // sizes of the cohorts

	Dimension int // of arms, or of generic vectors; 0 where Choices say it
	// Choices, if not 0, is how many options a decision has, each with its own weight of every one of Context numbers:
	// arms have the structure of package structure, and Choices times Context coordinates.
	Choices, Context int
	Family           string  // reward family of the practical profile's statistics
	MaxReward        float64 // R of the family
	Radius           float64 // bound on the parameter's norm, for the schedule
	ThetaNorm        float64 // norm of the public point at which the statistics are evaluated
	// HessianShare is the Hessian's part of the budget: 0 is the learner's default, SearchShare finds the one with the
	// least noise in an estimate.
	HessianShare float64
	// Releases > 0 is a number of rounds that each release one vector of the dimension with entries in [-1/2, 1/2] and
	// l2 diameter 1, instead of the practical profile's Hessian and gradient.
	Releases int

	// Terms are what an analyzer would be configured with. A VarianceRatio of 0 asks for the least noise that
	// MaxMessages and Bytes allow.
	plan.Terms

	// Credentials is how many credentials an account gets in the time for which epsilon is, where issuers let people
	// in; 0: there are no issuers.
	Credentials int

	HostMessages int // most bit messages of one report that hosts send by default; 0: not known
	MeanMessages int // most bit messages per person, averaged over all cohorts and divided where they help most; 0: off
	Bytes        int // most bytes that one person sends; 0: no limit
	// SealSeconds is the time that one bit message takes to encrypt; MeasureSeal measures it.
	SealSeconds float64
	// Machine prices the channels beside each other; nil: their CPU times are 0. Measure measures it.
	Machine *Machine
	// Progress, which may be nil, is called before each of so many steps with its name; done counts from 0.
	Progress func(step string, done, all int)
}

// tell calls Progress.
func (o Options) tell(step string, done, all int) {
	if o.Progress != nil {
		o.Progress(step, done, all)
	}
}

// SearchShare as a HessianShare asks for a search.
const SearchShare = -1

func (o Options) check() error {
	wrong := func(name string, value any, want string) error {
		return fmt.Errorf("%w: %s %v: want %s", ErrOptions, name, value, want)
	}
	if err := privacy.CheckEpsilon(o.Epsilon); err != nil {
		return fmt.Errorf("%w: --epsilon: %w", ErrOptions, err)
	}
	if err := privacy.CheckDelta(o.Delta); err != nil {
		return fmt.Errorf("%w: --delta: %w", ErrOptions, err)
	}
	if err := o.checkLearner(); err != nil {
		return err
	}
	switch {
	case (o.Choices != 0 || o.Context != 0) && (o.Choices < 2 || o.Context < 1 || o.Choices > glm.MaxDimension ||
		o.Context > glm.MaxDimension/o.Choices):
		return wrong("--options and --context", fmt.Sprintf("%d and %d", o.Choices, o.Context),
			fmt.Sprintf("at least 2 options of at least 1 number, and %d weights in all at most", glm.MaxDimension))
	case o.Choices != 0 && (o.Dimension != 0 || o.Releases > 0):
		return fmt.Errorf("%w: --options and --context say how many numbers an arm has; leave out --dim and "+
			"--releases", ErrOptions)
	case o.Choices == 0 && (o.Dimension < 1 || o.Dimension > wire.MaxCoordinates):
		return wrong("--dim", o.Dimension, fmt.Sprintf("1 to %d", wire.MaxCoordinates))
	case o.Credentials < 0:
		return wrong("--credentials", o.Credentials, "a number >= 0")
	case o.Releases < 0 || o.Releases > wire.MaxRounds:
		return wrong("--releases", o.Releases, fmt.Sprintf("0 to %d", wire.MaxRounds))
	case o.Users < 1 && len(o.Cohorts) == 0:
		return wrong("--users", o.Users, "at least 1")
	case !(o.DropOut >= 0 && o.DropOut < 1):
		return wrong("--drop-out", o.DropOut, "a share in [0, 1)")
	case !(o.Dishonest >= 0 && o.Dishonest < 1):
		return wrong("--dishonest", o.Dishonest, "a share in [0, 1)")
	case o.DishonestReports < 0:
		return wrong("--dishonest-reports", o.DishonestReports, "a number >= 0")
	case o.MaxMessages < plan.ByCoordinates || o.Bytes < 0 || o.MeanMessages < 0:
		return wrong("--messages, --mean-messages or --bytes", min(o.MaxMessages, o.Bytes, o.MeanMessages),
			"a number >= 0, or --messages -1 for a limit that follows the numbers released")
	case !(o.VarianceRatio >= 0) || math.IsInf(o.VarianceRatio, 0):
		return wrong("--variance", o.VarianceRatio, "a finite number > 1, or 0")
	case !(o.MaxShift >= 0) || math.IsInf(o.MaxShift, 0):
		return wrong("--max-shift", o.MaxShift, "a finite number >= 0")
	case o.HessianShare != SearchShare && o.HessianShare != 0 && !(o.HessianShare > 0 && o.HessianShare < 1):
		return wrong("--hessian-share", o.HessianShare, "a number between 0 and 1")
	case !(o.ThetaNorm >= 0 && o.ThetaNorm <= statistic.MaxParameterNorm):
		return wrong("--theta-norm", o.ThetaNorm, fmt.Sprintf("0 to %d", statistic.MaxParameterNorm))
	case o.MeanMessages > 0 && (o.MaxMessages != 0 || o.Bytes > 0 || o.VarianceRatio > 0):
		return fmt.Errorf("%w: --mean-messages is a budget of its own; leave out --messages, --bytes and --variance",
			ErrOptions)
	case o.Channel != "" && !slices.Contains(plan.Channels(), o.Channel):
		return wrong("--trust", o.Channel, "one of "+strict.List(plan.Channels(), "and"))
	case !(o.ServerNoise >= 0 && o.ServerNoise <= 1):
		return wrong("--server-noise", o.ServerNoise, "a share in [0, 1]")
	case o.Channel == plan.Local && o.ServerNoise > 0:
		return fmt.Errorf("%w: --server-noise %v must be 0 with --trust local: the channel trusts no server, so that "+
			"no server's noise counts in it", ErrOptions, o.ServerNoise)
	case o.Channel == plan.Central && o.ServerNoise > 0 && o.ServerNoise < 1:
		return fmt.Errorf("%w: --server-noise %v must be 0 or 1 with --trust central: the analyzer always adds all "+
			"of the noise, since devices add none", ErrOptions, o.ServerNoise)
	case o.NoDeviceNoise && o.ServerNoise == 0:
		return fmt.Errorf("%w: without device noise there must be --server-noise, or nothing is private", ErrOptions)
	case o.Releases > 0 && (!o.bits() || o.ServerNoise > 0):
		return fmt.Errorf("%w: --trust and --server-noise need the learner's statistics; leave out --releases",
			ErrOptions)
	case o.MeanMessages > 0 && o.Releases > 0:
		return fmt.Errorf("%w: --mean-messages needs the learner's statistics; leave out --releases", ErrOptions)
	}
	for _, n := range o.Cohorts {
		if n < 1 || n > 1<<31 {
			return wrong("--cohort", n, "1 to 2^31 people")
		}
	}
	return nil
}

// config is the learner's configuration.
func (o Options) config() learner.Config {
	c := learner.Config{Profile: o.Learner, Family: o.Family, MaxReward: o.MaxReward, Dimension: o.arms(),
		Radius: o.Radius, Horizon: max(1, o.Users), Epsilon: o.Epsilon, Delta: o.Delta, MinCohort: o.MinCohort}
	if o.Choices != 0 {
		c.Structure = structure.Options(o.Choices, o.Context)
	}
	return c
}

// arms is the dimension of arms.
func (o Options) arms() int {
	if o.Choices != 0 {
		return o.Choices * o.Context
	}
	return o.Dimension
}

// task is one cohort to plan.
type task struct {
	size    int
	step    learner.Step // what is asked; none of --releases
	request calibrate.Request
	// rounds is the number of reports in which one person sends the releases: 1, or one for each release.
	rounds int
	// spread is learner.Config.Spread in the learner's own schedule; zero for cohorts that the caller gave.
	spread float64
}

// configured is the learner's configuration with its defaults.
func (o Options) configured() (config learner.Config, err error) {
	config = o.config()
	if len(o.Cohorts) > 0 {
		config.Horizon = 0
		for _, n := range o.Cohorts {
			config.Horizon += n
		}
	}
	if o.HessianShare > 0 {
		config.Practical.HessianShare = o.HessianShare
	}
	if config, err = config.Resolve(); err != nil {
		return config, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return config, nil
}

// tasks lays out the cohorts.
func (o Options) tasks(proposer *plan.Proposer) (all []task, first *FirstCohort, err error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	if o.Releases > 0 {
		sizes := o.Cohorts
		if len(sizes) == 0 {
			sizes = []int{o.Users}
		}
		for _, n := range sizes {
			r := o.generic(n)
			all = append(all, task{size: n, request: r, rounds: o.Releases})
		}
		return all, nil, nil
	}
	config, err := o.configured()
	if err != nil {
		return nil, nil, err
	}
	steps, err := o.steps(config)
	if err != nil {
		return nil, nil, err
	}
	first = o.first(config, steps)
	after := config.Horizon
	for i, step := range steps {
		n := step.Cohort
		after -= n
		t, err := o.task(proposer, step)
		if err != nil {
			return nil, nil, o.explain(err, i, n, 1)
		}
		if first != nil && i > 0 && !o.Learner.Program() {
			t.spread = config.Spread(n, after)
		}
		all = append(all, t)
	}
	return all, first, nil
}

// task is the plan of a step's cohort.
func (o Options) task(proposer *plan.Proposer, step learner.Step) (task, error) {
	terms := o.Terms
	// This is the channel shuffle's request without server noise, with a limit that is set for each cohort.
	terms.Channel, terms.ServerNoise, terms.NoDeviceNoise, terms.MaxMessages = plan.Shuffle, 0, false, 0
	step.VarianceRatio = o.VarianceRatio
	r, err := proposer.Request(step, terms)
	r.VarianceRatio = o.VarianceRatio
	return task{size: step.Cohort, step: step, request: r, rounds: 1}, err
}

// step is what a learner asks of a cohort at a public point of the given norm.
func (o Options) step(c learner.Config) (learner.Step, error) {
	f, err := family.New(c.Family, c.MaxReward)
	if err != nil {
		return learner.Step{}, err
	}
	theta := make([]float64, c.Dimension)
	for i := range theta {
		theta[i] = o.ThetaNorm / math.Sqrt(float64(c.Dimension)) // no direction is special
	}
	score := glm.Score(f, glm.Practical)
	h, err := statistic.NewHessian(score, theta)
	if err != nil {
		return learner.Step{}, err
	}
	g, err := statistic.NewGradient(score, theta)
	if err != nil {
		return learner.Step{}, err
	}
	h.Structure, g.Structure = c.Structure, c.Structure
	share := c.Practical.HessianShare
	return learner.Step{Statistics: [][]statistic.Statistic{{h, g}}, Shares: [][]float64{{share, 1 - share}},
		Policy: glm.Policy{Dimension: c.Dimension, Structure: c.Structure, Family: c.Family, MaxReward: c.MaxReward,
			Radius: c.Radius}}, nil
}

// generic asks for vectors of diameter 1.
func (o Options) generic(n int) calibrate.Request {
	s := privacy.Vector{Name: "vector", Diameter: 1}
	for range o.Dimension {
		s.Lower, s.Upper = append(s.Lower, -0.5), append(s.Upper, 0.5)
	}
	r := calibrate.Request{
		Epsilon: o.Epsilon, Delta: o.Delta, Cohort: n,
		MinCohort:    max(o.MinCohort, int(math.Ceil(float64(n)*(1-o.DropOut)))),
		MaxDishonest: max(o.DishonestReports, int(math.Ceil(float64(n)*o.Dishonest))), VarianceRatio: o.VarianceRatio,
		MaxShift: o.MaxShift, NoiseBits: o.NoiseBits, Biases: o.Biases,
	}
	for range o.Releases {
		r.Releases = append(r.Releases, s)
	}
	if len(r.Biases) == 0 {
		r.Biases = plan.DefaultBiases()
	}
	r.Shares = privacy.Even(o.Releases)
	return r
}

// limit is how many messages the budget allows one person of a cohort.
func (o Options) limit(t task) (int, error) {
	most := o.MaxMessages
	if most == plan.ByCoordinates {
		most = plan.MessagesFor(t.request.Releases)
	}
	if o.Bytes == 0 {
		return most, nil
	}
	held, err := o.held(t.rounds)
	if err == nil && (most == 0 || held < most) {
		most = held
	}
	return most, err
}

// held is how many messages fit into one report per round within the allowed bytes.
func (o Options) held(rounds int) (int, error) {
	if o.Bytes < rounds*wire.EnvelopeSize(seal.BitSize) {
		return 0, &Infeasible{Option: "--bytes",
			Reason: fmt.Sprintf("%d bytes do not hold %d sealed reports of one bit message each", o.Bytes, rounds),
			Remedy: fmt.Sprintf("allow %d bytes or more", rounds*wire.EnvelopeSize(seal.BitSize))}
	}
	lo, hi := 1, o.Bytes
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; rounds*wire.EnvelopeSize(mid*seal.BitSize) <= o.Bytes {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo * rounds, nil
}

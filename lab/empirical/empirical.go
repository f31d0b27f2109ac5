// Package empirical measures from below what a release reveals about one record. A certificate (package privacy) says
// that epsilon is at most so much; this package plays releases many times over, attacks them, and says that epsilon is
// at least so much. A lower bound above the certificate proves that something is broken: the mathematics, the noise, or
// the code between them.
//
// # How it works
//
// A plan is made as an analyzer makes it, for a small cohort. The cohort's other devices report the null record. The
// canary reports one of three records: two for which all released sums together move as far as the noise lets one see
// (canary.go), and the null record. These are the worlds. In each run the attacker sees the noised counts of every
// coordinate of every release at once, as the worst placed observer of the channel does: the reports that the plan does
// not count on are missing, because their senders may be the attacker. The attack projects the counts on the line
// between two worlds, which for Gaussian noise is the likelihood ratio, and guesses the world by a threshold.
//
// If a release is (epsilon, delta)-DP, every event has TPR <= e^epsilon FPR + delta, where FPR and TPR are its
// probabilities in two worlds. So epsilon is at least ln((TPR - delta) / FPR). The first half of the runs chooses the
// threshold, the other half counts how often the event happened, and Clopper-Pearson intervals bound both
// probabilities. Every attack and both directions count: the error is divided over all of them, so that all their
// bounds hold together at the stated confidence, and the largest is the result. Nothing is assumed about the noise.
//
// # What runs
//
// Records become vectors by the statistics that devices use, and vectors become counts by protocol.Encoding.Encode, one
// device at a time. That is the code which rounds and adds noise on a device. Encryption is left out, because it takes
// a thousand times as long and draws from other randomness. To show that nothing else is left out, some runs are made
// in both ways from the same random words: once more through pkg/device, pkg/wire and the channel's package, envelopes
// included (sealed.go). The counts must be equal, every one. The noise that the analyzer of the channel central adds is
// drawn by protocol.Encoding.AddServerNoise, since the role draws its own beside its disk.
//
// # Games
//
// This is the game Sums, and Rewards with a third release. Where a curator noises sums of rows (Fit, Prior), the canary
// is a row whose values lie beyond the bounds, and the code that noises the rows runs as a whole (games.go). A game is
// opened by one function, which says what is claimed, how far the records lie apart, and how to draw what is seen.
//
// # What it does not show
//
// A lower bound below the claim does not prove the claim: there may be a better attack, and there are cohorts and plans
// that were not played. Result.Power says what was within reach. A small delta is not: to see that half of the noise is
// missing takes half a million measured runs at delta 1e-4 and ten million at 1e-6, where only events count that happen
// in two runs of ten thousand. The plan that is played therefore has its own delta.
package empirical

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// ErrOptions says that an option is out of range; it is wrapped with the option's name and what is wanted.
var ErrOptions = errors.New("empirical epsilon")

// ErrDiffers says that sealed reports do not give the counts that the same random words give without encryption: what
// was measured is not what runs.
var ErrDiffers = errors.New("empirical epsilon: the counts of sealed reports differ from the counts that are measured")

// A Fault is a way to break the system on purpose, to show that the attack finds it.
type Fault string

// The faults.
const (
	NoFault   Fault = ""
	HalfNoise Fault = "half-noise" // half of the noise bits are drawn, devices' and servers'
	OneNoise  Fault = "one-noise"  // one other device draws its noise, and nobody else does
	Copies    Fault = "copies"     // the canary's report is counted again in place of other people's
	Twice     Fault = "twice"      // the canary's record is reported twice, each time with noise of its own
	NoNoise   Fault = "no-noise"   // nobody draws noise
)

// faults are those that the options allow. In games without devices a record that counts twice is what a missing clip
// or an underestimated sensitivity makes of it, and half of the noise is half of its variance, as if sqrt 2 were
// forgotten.
func (o Options) faults() []Fault {
	if o.Game.usesChannel() {
		return Faults(o.Channel)
	}
	return []Fault{HalfNoise, Twice, NoNoise}
}

// Faults lists the faults that a channel can have. In Central no device draws noise. In Local the attacker sees each
// report by itself, so that a copy tells nothing new.
func Faults(c plan.Channel) []Fault {
	switch c {
	case plan.Central:
		return []Fault{HalfNoise, Copies, Twice}
	case plan.Local:
		return []Fault{HalfNoise, OneNoise, Twice}
	}
	return []Fault{HalfNoise, OneNoise, Copies, Twice}
}

// Options say what is measured.
type Options struct {
	Game       Game         // what is attacked
	Channel    plan.Channel // whose noise is attacked
	Epsilon    float64      // of the plan that is played
	Delta      float64      // of the plan that is played, and of the lower bound
	Dimension  int          // of arms
	Cohort     int          // people of a cohort
	Runs       int          // of each world; an even number
	Sealed     int          // runs that are repeated with encryption; none with a fault
	Confidence float64      // of the lower bound, in (0, 1)
	Seed       [32]byte     // of all rounding and noise
	Fault      Fault
	Copied     int // copies that are counted with the fault Copies, beside the report itself
	Workers    int // that play at the same time; 0: one for each processor
	// Progress is told how many runs are over, of how many; nil: nobody is. Calls come from several goroutines.
	Progress func(done, all int)
}

// The defaults of Options. The defaults of Delta and Runs go together: with them half of the noise is found in every
// channel (see Power). They take some 25 seconds of one processor.
const (
	DefaultEpsilon    = 1.0 // as deployments have by default (plan.DefaultEpsilon)
	DefaultDelta      = 1e-4
	DefaultDimension  = 2 // five coordinates in two releases
	DefaultCohort     = 60
	DefaultRuns       = 2_000_000
	DefaultSealed     = worlds // each once
	DefaultConfidence = 0.99
)

// DefaultOptions leave out the seed, which the caller draws.
func DefaultOptions() Options {
	return Options{Game: Sums, Channel: plan.Shuffle, Epsilon: DefaultEpsilon, Delta: DefaultDelta,
		Dimension: DefaultDimension,
		Cohort:    DefaultCohort, Runs: DefaultRuns, Sealed: DefaultSealed, Confidence: DefaultConfidence, Copied: 1}
}

// Limits of Options: they keep memory and time in bounds.
const (
	maxDimension = 20
	maxCohort    = 1 << 16
	minRuns      = 1000
	maxRuns      = 1 << 30
)

func (o Options) check() error {
	wrong := func(name string, value any, want string) error {
		return fmt.Errorf("%w: %s is %v, want %s", ErrOptions, name, value, want)
	}
	switch {
	case !slices.Contains(Games(), o.Game):
		return wrong("game", o.Game, fmt.Sprintf("one of %q", Games()))
	case !slices.Contains(plan.Channels(), o.Channel):
		return wrong("channel", o.Channel, strict.List(plan.Channels(), "and"))
	case !(o.Epsilon > 0) || math.IsInf(o.Epsilon, 0):
		return wrong("epsilon", o.Epsilon, "a finite number above 0")
	case !(o.Delta > 0 && o.Delta < 1):
		return wrong("delta", o.Delta, "a number between 0 and 1")
	case o.Dimension < 1 || o.Dimension > maxDimension:
		return wrong("dimension", o.Dimension, fmt.Sprintf("1 to %d", maxDimension))
	case o.Cohort < 1 || o.Cohort > maxCohort:
		return wrong("cohort", o.Cohort, fmt.Sprintf("1 to %d people", maxCohort))
	case o.Runs < minRuns || o.Runs > maxRuns || o.Runs%2 != 0:
		return wrong("runs", o.Runs, fmt.Sprintf("an even number from %d to %d", minRuns, maxRuns))
	case o.Sealed < 0 || o.Workers < 0:
		return wrong("sealed or workers", min(o.Sealed, o.Workers), "a number from 0 on")
	case !(o.Confidence > 0 && o.Confidence < 1):
		return wrong("confidence", o.Confidence, "a number between 0 and 1")
	case o.Fault != NoFault && !slices.Contains(o.faults(), o.Fault):
		return wrong("fault", o.Fault, fmt.Sprintf("one that the game %s can have in the channel %s: %q", o.Game,
			o.Channel,
			o.faults()))
	case o.Fault == Copies && o.Copied < 1:
		return wrong("copied", o.Copied, "at least 1")
	}
	return nil
}

// Result is what was measured. Its JSON is what riffle-lab epsilon --json prints.
type Result struct {
	Claimed    float64 `json:"claimed"`     // epsilon that the plan's guarantee gives at Delta
	LowerBound float64 `json:"lower_bound"` // on the true epsilon at Delta; 0 where nothing can be said
	Exceeds    bool    `json:"exceeds"`     // the claim is false: LowerBound is above it
	Confidence float64 `json:"confidence"`  // with which LowerBound holds
	Runs       int     `json:"runs"`        // of each world; half of them choose thresholds
	Delta      float64 `json:"delta"`

	Game        Game         `json:"game"`
	Seed        string       `json:"seed"`              // in hexadecimal digits: the same options give the same result
	Channel     plan.Channel `json:"channel,omitempty"` // of games that a channel carries
	Fault       Fault        `json:"fault,omitempty"`
	Dimension   int          `json:"dimension"`
	Coordinates int          `json:"coordinates"` // that are attacked together, over all releases
	Reports     int          `json:"reports"`     // in the attacker's view, the canary's among them
	Sealed      int          `json:"sealed"`      // runs that encryption did not change
	// Reach is how far the canary's two records lie apart, as a share of the largest distance that the certificate
	// allows for, measured in the noise.
	Reach   float64  `json:"reach"`
	Power   Power    `json:"power"`
	Attacks []Attack `json:"attacks"`
}

// Run measures. Errors: ErrOptions, also for terms that no plan keeps; ErrDiffers; the context's cause.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Fault != NoFault {
		o.Sealed = 0
	}
	g, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	choosing, measured, err := g.play(ctx)
	if err != nil {
		return nil, err
	}
	r := g.described
	r.Game, r.Claimed, r.Reach, r.Confidence, r.Runs = o.Game, g.claimed, g.reach, o.Confidence, o.Runs
	r.Delta, r.Seed, r.Fault, r.Dimension = o.Delta, hex.EncodeToString(o.Seed[:]), o.Fault, o.Dimension
	r.Attacks = attacks(choosing, measured, o.Delta, 1-o.Confidence)
	for _, a := range r.Attacks {
		r.LowerBound = max(r.LowerBound, a.LowerBound)
	}
	r.Exceeds = r.LowerBound > r.Claimed
	r.Power, err = newPower(r.Claimed, o.Delta, o.Runs/2, (1-o.Confidence)/float64(len(r.Attacks)))
	return &r, err
}

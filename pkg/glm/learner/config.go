package learner

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// ErrConfig wraps every reason to refuse a configuration.
var ErrConfig = errors.New("glm: bad configuration")

// Config says what is learnt and how. It is public, fixed before the first person, and must not be derived from private
// data. A zero tunable means its documented default, which Resolve fills in.
type Config struct {
	Profile   glm.Profile `json:"profile"`    // default Practical
	Family    string      `json:"family"`     // see family.New; default "logistic", of programs "linear"
	MaxReward float64     `json:"max_reward"` // R, default 1
	Dimension int         `json:"dimension"`  // d in [1, glm.MaxDimension]
	// Structure says which coordinates of an arm can be other than 0 together; nil: any arm. What cannot is not
	// released.
	Structure structure.Structure `json:"structure,omitempty"`
	// Radius is S in (0, statistic.MaxParameterNorm], a bound of ||theta*||; default DefaultRadius. A bound that is too
	// large costs little; one that is too small biases the estimate.
	Radius  float64 `json:"radius"`
	Horizon int     `json:"horizon"` // T, people; each is in one cohort
	Epsilon float64 `json:"epsilon"` // privacy target of a record, which only FirstCohort uses here; default 1
	Delta   float64 `json:"delta"`   // likewise; default 1e-6
	// MinCohort is the smallest cohort to plan: a shorter remainder of the horizon joins the cohort before it. The
	// fewest reports that may be released are a matter of the privacy plan instead. Default 50 (Practical), 500 (Paper;
	// n_floor: the noise makes smaller batches useless).
	MinCohort int             `json:"min_cohort"`
	Practical PracticalConfig `json:"practical"`
	Paper     PaperConfig     `json:"paper"`
	Program   *ProgramConfig  `json:"program,omitempty"` // of programs only; nil: the defaults
}

// ProgramConfig tunes the profiles that are programs. What its names mean is the program's: see learn/program.
type ProgramConfig struct {
	Arms    int                `json:"arms"`              // the most that a person has; default DefaultArms
	Failure float64            `json:"failure"`           // of confidence sets, in (0, 1); default DefaultFailure
	Variant string             `json:"variant,omitempty"` // of the algorithm; "": the default
	Options map[string]float64 `json:"options,omitempty"` // its tunables by name
}

// The defaults of ProgramConfig.
const (
	DefaultArms    = 10
	DefaultFailure = 0.02 // that of the papers' experiments
)

// DefaultRadius is the default of Config.Radius. On letters and shuttle states 5 keeps up to a fifth less of the gain
// than 10 to 20, which are alike.
const DefaultRadius = 10

// fill sets a zero tunable to its default.
func fill(v *float64, value float64) {
	if *v == 0 {
		*v = value
	}
}

// limit is the range of a parameter; low and high are finite.
type limit struct {
	name         string
	v, low, high float64
}

// within refuses the first parameter that is out of its range.
func within(limits ...limit) error {
	for _, l := range limits {
		if !(l.v >= l.low && l.v <= l.high) {
			return fmt.Errorf("%w: %s %v must be in [%v, %v]", ErrConfig, l.name, l.v, l.low, l.high)
		}
	}
	return nil
}

// PracticalConfig tunes the practical profile. Zero means the default.
type PracticalConfig struct {
	// FirstCohort is n1, the number of people who explore without any knowledge. Default: the rule FirstCohort.
	FirstCohort int `json:"first_cohort"`
	// Growth is the ratio of successive cohorts, at least 1; default DefaultGrowth, or DefaultQuietGrowth where noise
	// is so small that the first cohort is a MinCohort.
	Growth float64 `json:"growth"`
	// MaxEpochs caps the number of cohorts, the last taking the rest of the horizon; default 64, which no horizon
	// reaches at growth 2.
	MaxEpochs int `json:"max_epochs"`
	// Sampling is by how many standard deviations the draws are spread that a cohort's policy samples from, before the
	// factor of Config.Spread. Default DefaultSampling; negative means greedy play after the first cohort.
	Sampling float64 `json:"sampling"`
	// ExplorerShare is the share of decisions that explore where there is Caution; the others are cautious. Default
	// DefaultExplorerShare; negative means 0.
	ExplorerShare float64 `json:"explorer_share"`
	// HessianShare is the part of mu^2 for the Hessian release, in (0, 1); the gradient gets the rest.
	HessianShare float64 `json:"hessian_share"`
	// HessianNoise weighs the error that a noisy Hessian brings into the estimate, which is HessianNoise times half the
	// noise variance times the expected squared distance to the truth. 1 is the exact value for noise independent of
	// the distance; 0.5, the default, has 10 % less regret. Negative means 0.
	HessianNoise float64 `json:"hessian_noise"`
	// Prior is the number of prior observations per direction, each of information d/S^2 and at least leastPrecision:
	// it assumes a norm of theta* of about S/sqrt(Prior), and no coordinate far beyond 3. It keeps the first estimates
	// small where the first cohort shows nothing. Default DefaultPrior.
	Prior float64 `json:"prior"`
	// Bend in [0, 1] is the share by which the slopes of a cohort's Hessian may be wrong: see tempered. Default
	// family.Flatness up to Radius; negative means 0, for those who know that scores are small.
	Bend float64 `json:"bend"`
	// DesignTolerance is that of design.Options, of the first cohort; default DefaultPracticalTolerance.
	DesignTolerance float64 `json:"design_tolerance"`

	// What follows is of deployments that last. Zero leaves everything as it was.

	// Panel, if not 0, is the size of every cohort: people come back, and cohorts do not grow.
	Panel int `json:"panel,omitempty"`
	// Decisions is K_max, the most decisions of one report, by which its vectors are divided; 0: 1.
	Decisions int `json:"decisions,omitempty"`
	// HalfLife is after how many cohorts an observation counts half, for worlds that change; 0: never.
	HalfLife float64 `json:"half_life,omitempty"`
	// Alarm is the significance at which the test that the world has not changed (Change) makes the learner forget
	// what it knew, in [0, 1); 0: never.
	Alarm float64 `json:"alarm,omitempty"`
	// PriorTheta and PriorPrecision are public knowledge from before the first person: an estimate, and the inverse
	// of the covariance of its error. They take the place of Prior. Both or neither.
	PriorTheta     []float64        `json:"prior_theta,omitempty"`
	PriorPrecision symmetric.Packed `json:"prior_precision,omitempty"`
	// Control is the share of decisions of the control group (Policy.Control), and ControlShare the part of mu^2 for
	// the release that compares it with the policy; 0 with a Control: DefaultControlShare.
	Control      float64 `json:"control,omitempty"`
	ControlShare float64 `json:"control_share,omitempty"`
	// Caution is Policy.Caution.
	Caution float64 `json:"caution,omitempty"`
}

// Constants names where the constants of the paper profile come from; the two sets are never mixed.
type Constants string

const (
	// TunedConstants are chosen by measurement: one constant times the proof's terms (TunedWidth). The default constant
	// is large enough that the confidence sets hold theta* at a measured rate (DefaultPaperWidth). With them the
	// profile learns at realistic sizes.
	TunedConstants Constants = "tuned"
	// ProofConstants are those for which the confidence sets provably hold. At realistic sizes they eliminate nothing:
	// for d = 3, S = 2 and T = 1e5 every half-width exceeds the range of x.theta.
	ProofConstants Constants = "proof"
)

// PaperConfig tunes the paper profile. Zero means the default.
type PaperConfig struct {
	Constants Constants `json:"constants"` // default TunedConstants
	// Warmup is tau_1; default max(MinCohort, T^(2/3)). The paper's equation (6), as far as it can be rebuilt,
	// (sqrt(kappa) e^{3S} d^2 gamma^2 alpha / S)^{2/3}, exceeds any realistic horizon.
	Warmup int `json:"warmup"`
	// Second is tau_2; default max(alpha, tau_1). The paper's alpha can be so small that its noise is useless.
	Second int `json:"second"`
	// Alpha of equation (7); default 2 sqrt(T).
	Alpha float64 `json:"alpha"`
	// Kappa bounds 1/mu' over all arms; default KappaBound, the worst case of the ball.
	Kappa float64 `json:"kappa"`
	// Width is c of TunedWidth; with ProofConstants it must be 0.
	Width float64 `json:"width"`
	// Eta of ProofInputs; default 1/2.
	Eta float64 `json:"eta"`
	// Failure is delta_0; default 1/T^2.
	Failure float64 `json:"failure"`
	// Rounds is T_opt, the gradient rounds of each batch; default convex.DefaultRounds.
	Rounds int `json:"rounds"`
	// CovarianceShare in (0, 1) is the part of mu^2 for the covariance release; the gradients divide the rest evenly.
	CovarianceShare float64 `json:"covariance_share"`
	// EstimationRidge is the ridge of the optimiser with TunedConstants, default 1. It is separate from the design
	// matrices' lambda, which would bias theta. With ProofConstants both are the same lambda.
	EstimationRidge float64 `json:"estimation_ridge"`
	// ProxyRatio is the sub-Gaussian variance proxy of the noise over its variance: 1 for fair noise bits (the
	// default), 1.2137 for bias 1/4; (1-2p)/(2 p(1-p) ln((1-p)/p)) at bias p bounds it.
	ProxyRatio float64 `json:"proxy_ratio"`
	// DesignTolerance is that of design.Options; default design.DefaultTolerance.
	DesignTolerance float64 `json:"design_tolerance"`
}

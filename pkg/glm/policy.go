package glm

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// ErrPolicy wraps every reason to refuse a policy.
var ErrPolicy = errors.New("glm: bad policy")

// Play says how an arm is picked among the survivors of elimination.
type Play string

const (
	// PlayDesign draws from the G-optimal design of the scaled survivors (Algorithm 1, line 21).
	PlayDesign Play = "design"
	// PlayGreedy takes the survivor with the largest estimated reward; ties go to the lowest index. It is for epochs
	// whose data no later epoch needs.
	PlayGreedy Play = "greedy"
	// PlayUniform draws a survivor uniformly: the reference with which every regret is compared.
	PlayUniform Play = "uniform"
	// PlayOptimistic takes the survivor with the largest upper confidence bound of Optimism, as LinUCB does; ties go to
	// the lowest index. In Algorithm 2 of the seed paper it has a Criterion: where that fires, it takes the arm of the
	// largest norm there.
	PlayOptimistic Play = "optimistic"
	// PlayDefault takes the default arm.
	PlayDefault Play = "default"
	// PlaySampled picks one of the policy's Draws uniformly and takes the survivor that is best under it; ties go to
	// the lowest index. With draws from the posterior this is Thompson sampling with a propensity that anybody can
	// compute: the share of draws under which an arm is best.
	PlaySampled Play = "sampled"
	// PlaySpanner draws uniformly from a barycentric spanner of the survivors: the last line of Algorithm 4 of
	// "Near-optimal private learning in linear contextual bandits".
	PlaySpanner Play = "spanner"
	// PlayInverseGap plays each of K survivors with probability 1/(K + Gamma g), g the gap between the largest
	// estimated reward and its own, and gives what is left, at least 0, to the greedy survivor besides: Abe and Long,
	// "Associative reinforcement learning using linear probabilistic concepts" (1999); Foster and Rakhlin, "Beyond UCB"
	// (2020). Estimates are clipped to [-1, 1], where mean rewards of the linear family lie.
	PlayInverseGap Play = "inverse-gap"
)

// plays are all of them.
var plays = []Play{PlayDesign, PlayGreedy, PlayUniform, PlayOptimistic, PlayDefault, PlaySampled, PlaySpanner,
	PlayInverseGap}

// Policy is everything a device needs to decide in one epoch. It is public data: a function of the configuration and of
// released sums only. Its JSON form carries every float64 exactly.
type Policy struct {
	Profile   Profile `json:"profile"`
	Epoch     int     `json:"epoch"` // from 0
	Family    string  `json:"family"`
	MaxReward float64 `json:"max_reward"` // R
	Dimension int     `json:"dimension"`  // d
	// Radius is S: theta*, the draws and the theta of Scaling have norm at most S. Estimates need not, since the noise
	// of what was released can take them out of the ball; they are finite.
	Radius float64 `json:"radius"`
	// Structure says which coordinates of an arm can be other than 0 together. An arm set with an arm that does not
	// fit is refused. nil: any arm.
	Structure structure.Structure `json:"structure,omitempty"`
	// Theta is the estimate that greedy play follows: zero before anything is known.
	Theta []float64 `json:"theta"`
	// Stages are the elimination stages, earliest first (Algorithm 1, lines 12-17); none in the first epoch.
	Stages []Stage `json:"stages,omitempty"`
	// Trees are what layered regression learned in each epoch, earliest first, of the linear family: they eliminate as
	// stages do, and greedy play follows the last of them in place of Theta. At most MaxTrees.
	Trees []layered.Tree `json:"trees,omitempty"`
	// Scaling is set from the second epoch on (Algorithm 1, line 20).
	Scaling *Scaling `json:"scaling,omitempty"`
	Play    Play     `json:"play"`
	// Explore is the share of decisions that PlayDesign draws from the design, PlaySampled from the Draws and
	// PlaySpanner from the spanner, in (0, 1]; the others take the greedy survivor. Zero means all.
	Explore float64 `json:"explore,omitempty"`
	// DesignTolerance is design.Options.Tolerance for PlayDesign and PlaySpanner; zero means the default of each.
	DesignTolerance float64 `json:"design_tolerance,omitempty"`
	// Gamma belongs to PlayInverseGap: at least 0, where 0 is uniform play; 0 with other plays.
	Gamma float64 `json:"gamma,omitempty"`
	// Draws belong to PlaySampled, which needs between 1 and MaxDraws of them; other plays have none. Each has the
	// policy's dimension and norm at most Radius.
	Draws [][]float64 `json:"draws,omitempty"`
	// Criterion belongs to PlayOptimistic, which can do without it.
	Criterion *Criterion `json:"criterion,omitempty"`
	// Optimism belongs to PlayOptimistic, which needs it. In Algorithm 2 it is the second stage of confidence, equation
	// (16): the estimate theta_tau, H_tau^-1 and beta.
	Optimism *Stage `json:"optimism,omitempty"`
	// Control is the share of decisions that a coin of the device gives the default arm, in [0, 1), so that the
	// policy can be compared with it.
	Control float64 `json:"control,omitempty"`
	// Caution, if not 0, has the default arm played in place of the greedy one unless the estimate says that the
	// greedy arm is better by so many standard deviations of their difference. Exploration goes on: the share of
	// Explore, the 1/(K + Gamma g) of every survivor, and all of PlayOptimistic.
	Caution float64 `json:"caution,omitempty"`
}

// Criterion is Criterion I of Algorithm 2: a person whose largest arm x has x' Covariance x of at least Threshold plays
// that arm, so that the records of explorers show what is least known.
type Criterion struct {
	Covariance symmetric.Packed `json:"covariance"` // V^-1, the inverse of the released matrix of explorers' arms
	Threshold  float64          `json:"threshold"`  // of the squared norm; positive
}

// Clone returns a copy that shares no memory with p.
func (p *Policy) Clone() *Policy {
	out := *p
	out.Theta, out.Stages, out.Structure = slices.Clone(p.Theta), slices.Clone(p.Stages), slices.Clone(p.Structure)
	for i, s := range out.Stages {
		out.Stages[i] = s.Clone()
	}
	out.Trees = slices.Clone(p.Trees)
	for i := range out.Trees {
		out.Trees[i] = *p.Trees[i].Clone()
	}
	if p.Draws != nil {
		out.Draws = make([][]float64, len(p.Draws))
		for i, draw := range p.Draws {
			out.Draws[i] = slices.Clone(draw)
		}
	}
	if p.Scaling != nil {
		scaling := *p.Scaling
		scaling.Stage = scaling.Stage.Clone()
		out.Scaling = &scaling
	}
	if e := p.Criterion; e != nil {
		out.Criterion = &Criterion{Covariance: slices.Clone(e.Covariance), Threshold: e.Threshold}
	}
	if p.Optimism != nil {
		stage := p.Optimism.Clone()
		out.Optimism = &stage
	}
	return &out
}

// Stage is one confidence set: |x.(theta - theta*)| <= Width * sqrt(x' Covariance x), or with Means
// |mu(x.theta) - mu(x.theta*)| for the mean mu of the family. In the paper profile these are
// equations (12)-(13) of Riffle's seed paper with Covariance = V^-1 or H_j^-1 and Width = gamma (times sqrt(kappa) for
// the warm-up stage); in the practical profile Covariance is the pooled noise-aware covariance of the estimate.
type Stage struct {
	Theta      []float64        `json:"theta"`
	Covariance symmetric.Packed `json:"covariance"`
	Width      float64          `json:"width"`
	Means      bool             `json:"means,omitempty"`
}

// HalfWidth is Width * sqrt(x' Covariance x), never negative.
func (s Stage) HalfWidth(x []float64) float64 {
	return s.halfWidth(x, s.Covariance.Form(x))
}

// halfWidths writes the half-width of every vector.
func (s Stage) halfWidths(dst []float64, vectors [][]float64) {
	s.Covariance.Forms(dst, vectors)
	for i, x := range vectors {
		dst[i] = s.halfWidth(x, dst[i])
	}
}

func (s Stage) halfWidth(x []float64, form float64) float64 {
	if form < 1e-280 { // squares of tiny coordinates underflow; a width of zero would be wrong even there
		largest := convex.MaxAbs(x)
		if largest > 0 && largest < 1e-100 {
			scaled := make([]float64, len(x))
			for j, v := range x {
				scaled[j] = v / largest
			}
			return s.Width * largest * math.Sqrt(math.Max(0, s.Covariance.Form(scaled)))
		}
	}
	return s.Width * math.Sqrt(math.Max(0, form))
}

// Clone returns a copy that shares no memory with s.
func (s Stage) Clone() Stage {
	s.Theta, s.Covariance = slices.Clone(s.Theta), slices.Clone(s.Covariance)
	return s
}

// Scaling holds the constants of equations (10)-(11):
// s(x)^2 = mu'(x.theta) / exp(M_sc * min(2S, Width*sqrt(x'Covariance x))). While the stage's confidence set holds
// theta*, s(x)^2 <= mu'(x.theta*), so that weighted outer products stay below the Hessian.
type Scaling struct {
	Stage
	Diameter        float64 `json:"diameter"`         // 2S: the most by which two points of the ball differ on an arm
	SelfConcordance float64 `json:"self_concordance"` // M_sc of the family on |z| <= S
	MaxWeight       float64 `json:"max_weight"`       // w_max = max of mu' on |z| <= S: s(x)^2 <= MaxWeight for every x
}

// Score is the response from which the statistics of a profile are computed: the bounded one in the practical profile,
// the family itself in the others. The rule depends on nothing but the announced profile and family, so that a device
// computes the same statistic as the analyzer plans for.
func Score(f family.Family, profile Profile) family.Response {
	if profile == Practical {
		return family.Bounded(f)
	}
	return f
}

// NewScaling builds the scaling of a stage for a family on the ball of radius S.
func NewScaling(family family.Family, radius float64, stage Stage) *Scaling {
	return &Scaling{Stage: stage, Diameter: 2 * radius,
		SelfConcordance: family.SelfConcordance(radius), MaxWeight: family.MaxVariance(radius)}
}

// Validate refuses a policy that a device must not follow: one with a wrong profile, family, size, structure or play, a
// number that is not finite, a covariance that is not positive semidefinite, a negative width, or a draw outside the
// ball of radius S. A device calls it once per announced policy. All errors wrap ErrPolicy.
func (p *Policy) Validate() error {
	if err := p.validate(); err != nil {
		return fmt.Errorf("%w of epoch %d: %w", ErrPolicy, p.Epoch, err)
	}
	return nil
}

func (p *Policy) validate() error {
	if !slices.Contains(Profiles(), p.Profile) {
		return fmt.Errorf("profile %q is none of %s", p.Profile, strict.List(Profiles(), "or"))
	}
	if _, err := family.New(p.Family, p.MaxReward); err != nil {
		return err
	}
	if p.Epoch < 0 || p.Dimension < 1 || p.Dimension > MaxDimension {
		return fmt.Errorf("epoch %d must not be negative, dimension %d must be in [1, %d]",
			p.Epoch, p.Dimension, MaxDimension)
	}
	if err := p.Structure.Validate(p.Dimension); err != nil {
		return err
	}
	if !(p.Radius > 0) || math.IsInf(p.Radius, 0) {
		return fmt.Errorf("radius %v must be positive and finite", p.Radius)
	}
	if !slices.Contains(plays, p.Play) {
		return fmt.Errorf("play %q is none of %q", p.Play, plays)
	}
	if !(p.Control >= 0 && p.Control < 1) || math.Signbit(p.Control) {
		return fmt.Errorf("control %v must be in [0, 1)", p.Control)
	}
	if !(p.Caution >= 0 && p.Caution <= symmetric.MaxEntry) || math.Signbit(p.Caution) {
		return fmt.Errorf("caution %v must be in [0, %v]", p.Caution, symmetric.MaxEntry)
	}
	if !(p.Explore >= 0 && p.Explore <= 1) {
		return fmt.Errorf("explore %v must be in [0, 1]", p.Explore)
	}
	if t := p.DesignTolerance; t != 0 && !(t >= 1e-12 && t <= 1) {
		return fmt.Errorf("design tolerance %v must be in [1e-12, 1], or 0 for the default", t)
	}
	if g := p.Gamma; !(g >= 0 && g <= symmetric.MaxEntry) || math.Signbit(g) || g != 0 && p.Play != PlayInverseGap {
		return fmt.Errorf("gamma %v must be in [0, %v], and 0 with another play than %q", g, symmetric.MaxEntry,
			PlayInverseGap)
	}
	if err := p.checkEstimate(p.Theta); err != nil {
		return err
	}
	if err := p.checkDraws(); err != nil {
		return err
	}
	for j, s := range p.Stages {
		s.Means = false
		if err := p.checkStage(s); err != nil {
			return fmt.Errorf("stage %d: %w", j, err)
		}
	}
	if err := p.checkTrees(); err != nil {
		return err
	}
	if s := p.Scaling; s != nil {
		err := p.checkStage(s.Stage)
		if err == nil {
			err = p.checkBall(s.Theta)
		}
		if err != nil {
			return fmt.Errorf("scaling: %w", err)
		}
		values := []float64{s.MaxWeight, s.Diameter}
		if p.Family != family.NameLinear || s.SelfConcordance != 0 { // mu' of the linear family is constant
			values = append(values, s.SelfConcordance)
		}
		for _, v := range values {
			if !(v > 0) || math.IsInf(v, 0) {
				return fmt.Errorf("scaling: self-concordance %v, largest weight %v and diameter %v must be positive "+
					"and finite",
					s.SelfConcordance, s.MaxWeight, s.Diameter)
			}
		}
	}
	return p.checkOptimistic()
}

// checkOptimistic refuses optimistic play without its confidence set, and that or a criterion with another play.
func (p *Policy) checkOptimistic() error {
	e, o := p.Criterion, p.Optimism
	if p.Play != PlayOptimistic {
		if e != nil || o != nil {
			return fmt.Errorf("play %q goes with neither a criterion nor optimism", p.Play)
		}
		return nil
	}
	if o == nil {
		return fmt.Errorf("play %q needs optimism", p.Play)
	}
	if err := p.checkStage(*o); err != nil {
		return fmt.Errorf("optimism: %w", err)
	}
	if e == nil {
		return nil
	}
	if !(e.Threshold > 0 && e.Threshold <= symmetric.MaxEntry) {
		return fmt.Errorf("criterion: threshold %v must be in (0, %v]", e.Threshold, symmetric.MaxEntry)
	}
	if err := e.Covariance.Check(p.Dimension); err != nil {
		return fmt.Errorf("criterion: %w", err)
	}
	return nil
}

// checkStage refuses a confidence set that is out of range, and one of means: only stages of elimination can be.
func (p *Policy) checkStage(s Stage) error {
	if s.Means {
		return errors.New("only elimination compares means")
	}
	if !(s.Width >= 0 && s.Width <= symmetric.MaxEntry) {
		return fmt.Errorf("width %v must be in [0, %v]", s.Width, symmetric.MaxEntry)
	}
	if err := p.checkEstimate(s.Theta); err != nil {
		return err
	}
	return s.Covariance.Check(p.Dimension)
}

// checkEstimate refuses a theta of another dimension, or with an entry above symmetric.MaxEntry: scores stay finite.
func (p *Policy) checkEstimate(theta []float64) error {
	if len(theta) != p.Dimension {
		return fmt.Errorf("theta has dimension %d, the policy says %d", len(theta), p.Dimension)
	}
	for i, v := range theta {
		if !(math.Abs(v) <= symmetric.MaxEntry) {
			return fmt.Errorf("theta has entry %d = %v, at most %v", i, v, symmetric.MaxEntry)
		}
	}
	return nil
}

// checkBall refuses a theta outside the ball of radius S.
func (p *Policy) checkBall(theta []float64) error {
	if err := p.checkEstimate(theta); err != nil {
		return err
	}
	length := convex.Norm(theta)
	if !(length <= p.Radius*(1+1e-12)) { // also refuses NaN
		return fmt.Errorf("theta has norm %v above the radius %v", length, p.Radius)
	}
	return nil
}

// Weight is s(x)^2 of equation (10): at most mu'(x.theta) and at most MaxWeight, for every x in the unit ball, never
// negative. x must have the scaling's dimension.
func (s *Scaling) Weight(family family.Family, x []float64) float64 {
	exponent := s.SelfConcordance * math.Min(s.Diameter, s.HalfWidth(x))
	return math.Min(s.MaxWeight, family.Variance(convex.Dot(x, s.Theta))*math.Exp(-exponent))
}

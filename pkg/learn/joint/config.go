package joint

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// The variants. The default, "", is Sound.
const (
	// Sound is the algorithm whose optimiser calls are triggered by released matrices only, with constants that work.
	Sound = "sound"
	// Proof is Sound with the constants of the regret proof, rebuilt (see proof.go). At every size that fits a computer
	// it explores in every round.
	Proof = "proof"
	// Literal is the paper's listing with the constants of its public experiments. Its accounting is not sound: an
	// optimiser call is triggered by a raw context, and its noise is calibrated to adding a record, not to replacing
	// it. Config.Guarantee says so. It is for repeating the paper's numbers.
	Literal = learn.Literal
)

// Config is everything public that is fixed before a run. Resolve makes it; it is not changed afterwards.
type Config struct {
	Family    family.Family
	Dimension int     // d
	Horizon   int     // T, people
	Batch     int     // people of a micro-batch: a leaf of the trees; the policy is frozen in it
	Radius    float64 // S
	Kappa     float64
	Variant   string // Sound, Proof or Literal

	NodeV, NodeH             mechanism.Noise // of a node of the tree of V, and of H
	LambdaV, LambdaH         float64         // ridges of V and H
	FloorV, FloorH           float64         // eigenvalues of released matrices below are raised to it
	MaxWeight                float64         // the most that w_t can be: w_max/e
	RhoExplore, RhoSwitch    float64         // zCDP of one optimiser call of each kind; +Inf without noise
	ExploreCalls, SwitchCall int             // C1 and C2, the most calls of each kind
	// a call is due when a matrix exceeds so much times the one at the last call
	GrowthV, GrowthH float64
	Threshold        float64 // of Criterion I: explore where the largest squared norm is at least this
	Gamma, Beta      float64 // widths of the two confidence sets, equations (14)-(16)
	Iterations, Skip int     // of Descent
	Ridge            float64 // of Descent
	// StepSize, if not 0, is the constant step of Descent in place of the one that follows from the released matrices.
	StepSize float64
	// Ellipsoid says that the second estimate is kept in the confidence set of the first (Theta_2).
	Ellipsoid bool
	// Clip of each row's gradient; 0: none. Literal only.
	Clip float64
}

// Defaults of Sound, by option. None is from the paper, whose constants are not usable. They were tuned in simulations
// with other parameters, arms and seeds than those of the experiment table2-joint, at epsilon 1 and 4. With a ridge of
// 2 or a growth of 1.2 some runs lost a thousand and more, half of what uniform play does.
const (
	defaultTreeShare    = 0.5  // "tree_share": part of the budget that the trees get
	defaultRidge        = 3    // "ridge": lambda over the deviation of the matrix noise, sg sqrt(2 d m)
	defaultFloor        = 0.25 // part of lambda below which no eigenvalue falls
	defaultGrowth       = 1.3  // "growth": c_sw
	defaultGrowthV      = 1.41 // "explore_growth": c_V
	defaultExploreCalls = 6    // "explore_calls": C1
	spareCalls          = 8    // "calls": C2, by default how often H can grow in all directions at once, and these
	defaultIterations   = 15   // "iterations"
	defaultFitRidge     = 1    // "fit_ridge": of the estimates
	defaultThreshold    = 100  // "threshold": Criterion I, this over kappa R^4 S^2 d c_V (public experiments)
	defaultGamma        = 1    // "gamma", "beta": factors of the widths
	defaultBeta         = 1
	stepMargin          = 1.5 // by which e H_tau must exceed the Hessian near the minimum
)

// budgetSlack is the part of the budget that is left for those who recompute the guarantee with coarser bounds of the
// rounding (package plan, on every device).
const budgetSlack = 1e-4

var options = []string{"tree_share", "ridge", "growth", "explore_growth", "explore_calls", "calls", "iterations",
	"fit_ridge", "threshold", "gamma", "beta"}

// Resolve makes the configuration of a run in micro-batches of so many people. It refuses (learn's errors, or one that
// names the option) what cannot run.
func Resolve(s learn.Setting, batch int) (Config, error) {
	if err := s.Check([]string{Sound, Proof, Literal}, options); err != nil {
		return Config{}, err
	}
	if batch < 1 || batch > s.Horizon {
		return Config{}, fmt.Errorf("joint: micro-batches of %d people, want 1 to the horizon %d", batch, s.Horizon)
	}
	if s.Dimension > glm.MaxDimension {
		return Config{}, fmt.Errorf("joint: dimension %d is above %d", s.Dimension, glm.MaxDimension)
	}
	c := Config{Family: s.Family, Dimension: s.Dimension, Horizon: s.Horizon, Batch: batch, Radius: s.Radius,
		Kappa: s.Kappa, Variant: s.Variant}
	if c.Variant == "" {
		c.Variant = Sound
	}
	if c.Kappa == 0 {
		c.Kappa = learner.KappaBound(s.Family, s.Radius)
	}
	if !(c.Kappa > 0) || math.IsInf(c.Kappa, 0) {
		return Config{}, fmt.Errorf("joint: kappa %v must be positive and finite", c.Kappa)
	}
	c.MaxWeight = s.Family.MaxVariance(s.Radius) / math.E
	c.ExploreCalls = int(s.Option("explore_calls", defaultExploreCalls))
	c.Iterations = int(s.Option("iterations", defaultIterations))
	c.Skip = c.Iterations / 2
	c.Ridge = s.Option("fit_ridge", defaultFitRidge)
	c.GrowthH = s.Option("growth", defaultGrowth)
	c.GrowthV = s.Option("explore_growth", defaultGrowthV)
	if c.Variant == Literal {
		return c, c.literal(s)
	}
	share, calls := s.Option("tree_share", defaultTreeShare), s.Option("calls", 1)
	if c.ExploreCalls < 1 || !(calls >= 1) || c.Iterations < 1 || !(c.Ridge >= 0) || !(c.GrowthH > 1) ||
		!(c.GrowthV > 1) || !(share > 0 && share < 1) {
		return Config{},
			fmt.Errorf("joint: calls %d and %d, iterations %d must be at least 1, growth %v and %v above 1, "+
				"fit_ridge %v at least 0, tree_share %v in (0, 1)", c.ExploreCalls, int(calls), c.Iterations, c.GrowthH,
				c.GrowthV, c.Ridge, share)
	}
	optimiser, err := c.trees(s, share)
	if err != nil {
		return Config{}, err
	}
	c.ridges(s.Option("ridge", defaultRidge))
	most := math.Log1p(c.MaxWeight*float64(c.Horizon)/(float64(c.Dimension)*c.LambdaH)) / math.Log(c.GrowthH)
	c.SwitchCall = int(s.Option("calls", spareCalls+math.Ceil(most)))
	c.RhoExplore, c.RhoSwitch = optimiser/float64(c.ExploreCalls), optimiser/float64(c.SwitchCall)
	if c.Variant == Proof {
		return c, c.proof(s)
	}
	return c, c.practical(s)
}

// Leaves is the number of micro-batches of a run, and Levels the most nodes of a tree that hold one of them.
func (c Config) Leaves() int { return (c.Horizon + c.Batch - 1) / c.Batch }

// Levels is described at Leaves.
func (c Config) Levels() int { return bits.Len(uint(c.Leaves())) }

// trees gives the trees their share of a record's budget, and returns what is left for the optimiser.
func (c *Config) trees(s learn.Setting, share float64) (left float64, err error) {
	rho, err := mechanism.Budget(s.Epsilon, s.Delta)
	if err != nil {
		return 0, fmt.Errorf("joint: %w", err)
	}
	rho *= 1 - budgetSlack
	node := share * rho / float64(c.Levels())
	v, h := c.leafV(), c.leafH()
	if c.NodeV, err = mechanism.ForRho(v.replaced, node); err != nil {
		return 0, fmt.Errorf("joint: the tree of V: %w", err)
	}
	if c.NodeH, err = mechanism.ForRho(h.replaced, node); err != nil {
		return 0, fmt.Errorf("joint: the tree of H: %w", err)
	}
	if math.IsInf(rho, 1) {
		return rho, nil
	}
	return rho - share*rho, nil
}

// ridges sets lambda so that the noise of released matrices is a part of it.
func (c *Config) ridges(factor float64) {
	size := factor * math.Sqrt(2*float64(c.Dimension)*float64(c.Levels()))
	c.LambdaV, c.LambdaH = math.Max(1, size*c.NodeV.Deviation()), math.Max(1, size*c.NodeH.Deviation())
	c.FloorV, c.FloorH = defaultFloor*c.LambdaV, defaultFloor*c.LambdaH
}

// leaf says how far one record moves a leaf: when it is replaced by another of the same tree, and when it leaves for
// the other tree. The first counts every coordinate's rounding twice, so that the second costs at most half as much:
// (w + s)^2 <= (sqrt 2 w + sqrt 2 s)^2/2 for a rounding of s.
type leaf struct{ replaced, moved mechanism.Sensitivity }

// leafV is that of x x' with |x| <= 1: two of them are at most sqrt 2 apart in the Frobenius norm. (In one dimension 1,
// but a record that moves between the trees then costs 1/2 at both.)
func (c Config) leafV() leaf { return c.leafOf(1) }

// leafH is that of w x x' with 0 <= w <= MaxWeight.
func (c Config) leafH() leaf { return c.leafOf(c.MaxWeight) }

func (c Config) leafOf(w float64) leaf {
	dim := symmetric.Dim(c.Dimension)
	return leaf{replaced: mechanism.Sensitivity{Dim: 2 * dim, L2: w * math.Sqrt2 * (1 + 1e-12)},
		moved: mechanism.Sensitivity{Dim: dim, L2: w * (1 + 1e-12)}}
}

// Guarantee is what everything that leaves during the whole run reveals of one record, whatever the others are: joint
// differential privacy, since the record's own decision does not leave. For Literal it promises nothing.
//
// Proof sketch. The record enters one leaf of one tree, which is in at most Levels nodes, and the rows of one of the
// two kinds of calls. Replaced by another record, it stays at its kind (then two calls of that kind see other rows, and
// the nodes of that tree move by the diameter of a leaf), or changes it (then both trees and both kinds of calls see a
// row come or go). The cost of the second case is at most the mean of the costs of the first. When
// calls happen, their steps and their number follow from released matrices and public numbers; a call's cost does not
// depend on its rows. So all else is post-processing, and zCDP adds.
func (c Config) Guarantee() privacy.Guarantee {
	if c.Variant == Literal {
		return privacy.NoGuarantee()
	}
	levels := float64(c.Levels())
	nodes := func(s mechanism.Sensitivity, n mechanism.Noise) privacy.Guarantee { return n.Guarantee(s) }
	v, h := c.leafV(), c.leafH()
	stayV, stayH := nodes(v.replaced, c.NodeV), nodes(h.replaced, c.NodeH)
	leaveV, leaveH := nodes(v.moved, c.NodeV), nodes(h.moved, c.NodeH)
	if !stayV.Promises() || !stayH.Promises() || math.IsInf(c.RhoExplore, 1) || math.IsInf(c.RhoSwitch, 1) {
		return privacy.NoGuarantee()
	}
	explore, switching := float64(c.ExploreCalls)*c.RhoExplore, float64(c.SwitchCall)*c.RhoSwitch
	moved := levels*(leaveV.Rho+leaveH.Rho) + (explore+switching)/2
	return privacy.Guarantee{Rho: math.Max(moved, math.Max(levels*stayV.Rho+explore, levels*stayH.Rho+switching))}
}

// gradientNoise is that of one iteration of a call with budget rho, at a public point.
func (c Config) gradientNoise(rho float64) func([]float64) (mechanism.Noise, error) {
	return func(theta []float64) (mechanism.Noise, error) {
		return mechanism.ForRho(gradientSensitivity(c.Family, theta), rho/float64(c.Iterations))
	}
}

// widths are the factors R S sqrt(d ln(T/zeta)) and sqrt(d ln(T/zeta)) of the public experiments.
func (c *Config) widths(s learn.Setting, gamma, beta float64) {
	root := math.Sqrt(float64(c.Dimension) * math.Log(float64(c.Horizon)/s.Failure))
	c.Gamma = gamma * c.Family.MaxReward() * c.Radius * root
	c.Beta = beta * root
}

// practical sets the constants that work.
func (c *Config) practical(s learn.Setting) error {
	d := float64(c.Dimension)
	c.widths(s, s.Option("gamma", defaultGamma), s.Option("beta", defaultBeta))
	r := c.Family.MaxReward()
	c.Threshold = s.Option("threshold", defaultThreshold) /
		(c.Kappa * math.Pow(r, 4) * c.Radius * c.Radius * d * c.GrowthV)
	factor := s.Option("ridge", defaultRidge)
	if !(factor > 0) || !(c.Gamma >= 0) || !(c.Beta >= 0) || !(c.Threshold > 0) {
		return fmt.Errorf("joint: ridge %v and threshold %v must be positive, gamma %v and beta %v not negative",
			factor, c.Threshold, c.Gamma, c.Beta)
	}
	return nil
}

package joint

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Curator is the trusted party of Algorithm 2 ("Shuffle and joint differential privacy for generalized linear
// contextual bandits"): it reads every record in the clear and gives out releases. What it holds besides the public
// State must not leave it: the rows, how many explored, exact sums. Not safe for concurrent use.
//
// What differs from the paper, in Sound and Proof. The listing refits theta_o when a person explores, and tests H only
// when none does: both read a raw context. If replacing one record turns exploring into not exploring, theta_o is new
// in one world and old in the other with certainty, and everyone after sees which; conditioning on the other people's
// indicators (Lemma J.7) does not undo that. Here a call of either kind is triggered by the released matrices alone. So
// calls of both kinds are also few: of the order of d log T.
type Curator struct {
	config        Config
	noise         protocol.Source
	state         State
	first, second []Row // those who explored, and the others
	v, h          tree
	// drawn, if not nil, is told of every release of noise: tests keep the books with it.
	drawn func(draw)
}

// draw is one addition of noise: to the node of a tree that ends with a leaf, or to a sum of gradients at a point.
type draw struct {
	what  string // "V", "H", "first" or "second"
	leaf  int    // the number of leaves so far
	noise mechanism.Noise
	theta []float64
}

// NewCurator starts before the first micro-batch. Noise comes from src, which in a deployment must be a cryptographic
// generator.
func NewCurator(c Config, src protocol.Source) *Curator {
	n := symmetric.Dim(c.Dimension)
	return &Curator{config: c, noise: src, state: c.Begin(), v: tree{noise: c.NodeV, grid: gridOf(c.NodeV), dim: n},
		h: tree{noise: c.NodeH, grid: gridOf(c.NodeH), dim: n}}
}

// State is what is public so far.
func (c *Curator) State() State { return c.state }

// Absorb takes the records of the next micro-batch, in any order, and returns what leaves: it draws the noise of the
// node that the micro-batch completes in each tree, and makes the calls of the optimiser that are then due. Records
// longer than the unit ball and rewards out of range are clipped. A missing record is one whose arm is zero. On an
// error the curator is not usable any more; it may be built again by Replay.
func (c *Curator) Absorb(records []learn.Record) (Release, error) {
	v, h, explored, err := c.take(records)
	if err != nil {
		return Release{}, err
	}
	var r Release
	if r.V, err = c.v.release(v, c.noise); err != nil {
		return Release{}, err
	}
	if r.H, err = c.h.release(h, c.noise); err != nil {
		return Release{}, err
	}
	c.tell(draw{what: "V", leaf: c.v.leaves, noise: c.v.noise})
	c.tell(draw{what: "H", leaf: c.h.leaves, noise: c.h.noise})
	next, first, second, err := c.config.advance(c.state, r.V, r.H)
	if err != nil {
		return Release{}, err
	}
	if c.config.Variant == Literal && explored && c.state.ExploreCalls < c.config.ExploreCalls {
		first, next.ExploreCalls = true, c.state.ExploreCalls+1
	}
	r.First, r.Second = onEstimateGrid(c.state.First), onEstimateGrid(c.state.Second)
	if first {
		if r.First, err = c.estimate(next, "first", c.first); err != nil {
			return Release{}, err
		}
		next.First = fromGrid(r.First, estimateGrid)
	}
	if second {
		if r.Second, err = c.estimate(next, "second", c.second); err != nil {
			return Release{}, err
		}
		next.Second = fromGrid(r.Second, estimateGrid)
	}
	c.state = next
	return r, nil
}

// Replay takes the records of the next micro-batch and the release that Absorb gave for them, and draws nothing: the
// curator is then in the state after that Absorb. Errors wrap ErrRelease.
func (c *Curator) Replay(records []learn.Record, r Release) error {
	next, err := c.config.Apply(c.state, r)
	if err != nil {
		return err
	}
	if _, _, _, err := c.take(records); err != nil {
		return err
	}
	if c.config.Variant == Literal && !slices.Equal(next.First, c.state.First) {
		next.ExploreCalls++
	}
	c.state = next
	return nil
}

// take keeps the rows and pushes one leaf to each tree: zero where no record of the micro-batch belongs.
func (c *Curator) take(records []learn.Record) (v, h []float64, explored bool, err error) {
	if len(records) > c.config.Batch {
		return nil, nil, false, fmt.Errorf("%w: %d records in a micro-batch of %d", ErrRelease, len(records),
			c.config.Batch)
	}
	for _, r := range records {
		if len(r.Arm) != c.config.Dimension || r.Count() > 1 || !convex.AllFinite(r.Arm) || !convex.IsFinite(r.Reward) {
			return nil, nil, false, fmt.Errorf("%w: a record is not one person's finite arm of dimension %d",
				ErrRelease,
				c.config.Dimension)
		}
	}
	n := symmetric.Dim(c.config.Dimension)
	leafV, leafH := make([]float64, n), make([]float64, n)
	for _, r := range records {
		arm, _ := convex.ToUnitBall(slices.Clone(r.Arm))
		f := c.config.Family
		row := Row{Arm: arm, Reward: math.Max(f.MinReward(), math.Min(r.Reward, f.MaxReward()))}
		if r.Tag == learn.Explored {
			explored = true
			addOuter(leafV, 1, arm)
			if c.config.Variant != Literal || c.state.ExploreCalls < c.config.ExploreCalls {
				c.first = append(c.first, row)
			}
			continue
		}
		weight := f.Variance(convex.Dot(arm, c.state.First)) / math.E
		addOuter(leafH, math.Max(0, math.Min(weight, c.config.MaxWeight)), arm)
		c.second = append(c.second, row)
	}
	return c.v.push(leafV), c.h.push(leafH), explored, nil
}

// estimate is a call of the optimiser, for the state just before its result.
func (c *Curator) estimate(s State, which string, rows []Row) ([]int64, error) {
	descent, err := c.config.descent(s, which == "second", len(rows))
	if err != nil {
		return nil, err
	}
	inner := descent.Noise
	descent.Noise = func(theta []float64) (mechanism.Noise, error) {
		noise, err := inner(theta)
		c.tell(draw{what: which, leaf: c.v.leaves, noise: noise, theta: slices.Clone(theta)})
		return noise, err
	}
	theta, err := descent.Run(rows, c.noise)
	if err != nil {
		return nil, err
	}
	return onEstimateGrid(theta), nil
}

// descent is the optimiser of a call. Only Literal reads the number of rows.
func (c Config) descent(s State, second bool, rows int) (Descent, error) {
	ball := convex.Ball{Radius: c.Radius}
	d := Descent{Family: c.Family, Start: s.First, Set: ball, Iterations: c.Iterations, Skip: c.Skip, Ridge: c.Ridge}
	rho := c.RhoExplore
	if second {
		d.Start, rho = s.Second, c.RhoSwitch
	}
	if c.Variant == Literal {
		return c.literalDescent(d, s, rho, rows), nil
	}
	d.Noise = c.gradientNoise(rho)
	curvature, err := c.curvature(s, second)
	if err != nil {
		return d, err
	}
	d.Step = func(int) float64 { return 1 / (curvature + c.Ridge) }
	if c.StepSize > 0 {
		d.Step = func(int) float64 { return c.StepSize }
	}
	if second && c.Ellipsoid {
		d.Set = convex.Both{ball, convex.Ellipsoid{Centre: s.First, Matrix: s.V.Dense(c.Dimension),
			Radius: c.Gamma * math.Sqrt(c.Kappa)}}
	}
	return d, nil
}

// curvature is about the largest eigenvalue of the rows' Hessian, by the released matrices: V counts explorers' arms
// with weight 1, H the others' with mu'/e.
func (c Config) curvature(s State, second bool) (float64, error) {
	m, lambda, factor := s.V, c.LambdaV, c.MaxWeight*math.E
	if second {
		m, lambda, factor = s.H, c.LambdaH, stepMargin*math.E
	}
	top, err := largest(m, c.Dimension)
	return factor * math.Max(1, top-lambda), err
}

// literalDescent is that of the public experiments: on the mean of clipped gradients, without projection, from the
// middle of the two estimates.
func (c Config) literalDescent(d Descent, s State, rho float64, rows int) Descent {
	n := math.Max(1, float64(rows))
	start := make([]float64, c.Dimension)
	for j := range start {
		start[j] = (s.First[j] + s.Second[j]) / 2
	}
	d.Start, d.Set, d.Clip, d.Ridge = start, nil, c.Clip, c.Ridge*n
	d.Step = func(k int) float64 { return literalRate / math.Sqrt(float64(k)) / n }
	sigma := 2 * c.Clip * math.Sqrt(float64(c.Iterations)/(2*rho))
	d.Noise = func([]float64) (mechanism.Noise, error) { return mechanism.Gaussian{Sigma: sigma}, nil }
	return d
}

func (c *Curator) tell(d draw) {
	if c.drawn != nil {
		c.drawn(d)
	}
}

// addOuter adds weight x x' as a vector: the upper triangle, row by row, entries off the diagonal times sqrt 2, so that
// the vector's norm is the matrix's Frobenius norm.
func addOuter(leaf []float64, weight float64, x []float64) {
	k := 0
	for i, u := range x {
		leaf[k] += weight * u * u
		k++
		for _, v := range x[i+1:] {
			leaf[k] += weight * u * v * math.Sqrt2
			k++
		}
	}
}

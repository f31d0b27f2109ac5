package plan

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Curator is all that a trusted analyzer releases of records in the profile joint ("Shuffle and Joint Differential
// Privacy for Generalized Linear Contextual Bandits", Algorithm 2), over the whole run: a record stays in the trees and
// in the fits after its epoch. It is the same in all epochs of a deployment.
//
// A record enters one leaf of one of two trees of sums of outer products: that of people who explored, with weight 1,
// or that of the others, with weights of at most mu'/e. Every complete node gets noise once. And it enters the fits of
// its kind, of which there are at most so many.
type Curator struct {
	Leaves uint32 // of each tree: cohorts of the run, at most; positive
	// Standard deviation of the noise of a node's coordinates, which are Frobenius-orthonormal (statistic.Hessian);
	// positive.
	ExplorerNoise, OtherNoise float64
	ExplorerFits, OtherFits   uint32  // fits of each kind over the run, at most; positive
	ExplorerRho, OtherRho     float64 // zCDP of one fit for a record that is replaced by one of the same kind; positive
}

// Levels is how many nodes of a tree hold one leaf at most.
func (c Curator) Levels() int { return bits.Len32(c.Leaves) }

// Equal reports whether two plans have the same curator, or neither has one.
func (c *Curator) Equal(d *Curator) bool {
	if c == nil || d == nil {
		return c == d
	}
	return *c == *d
}

// nodeSteps is the deviation of a node's noise in steps of the grid that its values are rounded to.
const nodeSteps = 1 << 20

// movedSlack bounds what rounding to a grid adds for a record that leaves one fit for another (package learn/joint).
const movedSlack = 1e-4

// Guarantee is what everything that leaves the analyzer during the whole run reveals of one record, the record's own
// decision excepted: joint differential privacy. maxWeight bounds the weights in the tree of the others.
//
// Proof sketch. The outer products of two arms of the unit ball are at most sqrt 2 apart, those with weights of at most
// w at most w sqrt 2; a record that comes or goes moves a sum by 1, or by w. With the rounding to the grid, of half a
// step at either end, each of the Levels nodes costs moved^2/2 in deviations. A record that is replaced by one of its
// kind costs what the nodes of one tree and the fits of one kind do. One that changes its kind comes or goes in both
// trees, and in the fits of both kinds, whose noise is made so that this costs half as much as being replaced. When a
// fit happens follows from released matrices. zCDP adds, adaptively (Bun and Steinke, "Concentrated Differential
// Privacy", 2016, Lemma 2.3).
func (c Curator) Guarantee(dimension int, maxWeight float64) (privacy.Guarantee, error) {
	for _, n := range []struct {
		name string
		v    float64
	}{
		{"the noise of explorers' nodes", c.ExplorerNoise}, {"the noise of others' nodes", c.OtherNoise},
		{"rho of explorers' fits", c.ExplorerRho}, {"rho of others' fits", c.OtherRho},
		{"the largest weight", maxWeight},
	} {
		if !(n.v > 0) || math.IsInf(n.v, 0) {
			return privacy.NoGuarantee(), fmt.Errorf("%w: %s is %v, must be positive and finite", ErrPlan, n.name, n.v)
		}
	}
	if c.Leaves == 0 || c.ExplorerFits == 0 || c.OtherFits == 0 || dimension < 1 || dimension > glm.MaxDimension {
		return privacy.NoGuarantee(), fmt.Errorf("%w: %d leaves, %d and %d fits in %d dimensions", ErrPlan, c.Leaves,
			c.ExplorerFits, c.OtherFits, dimension)
	}
	nodes := func(distance, sigma float64) float64 {
		moved := distance*(1+shiftSlack)/sigma + math.Sqrt(float64(symmetric.Dim(dimension)))/nodeSteps
		return float64(c.Levels()) * moved * moved / 2
	}
	explorers, others := float64(c.ExplorerFits)*c.ExplorerRho, float64(c.OtherFits)*c.OtherRho
	rho := max(
		nodes(math.Sqrt2, c.ExplorerNoise)+explorers,
		nodes(math.Sqrt2*maxWeight, c.OtherNoise)+others,
		nodes(1, c.ExplorerNoise)+nodes(maxWeight, c.OtherNoise)+(explorers+others)/2*(1+movedSlack),
	)
	return privacy.Guarantee{Rho: rho * (1 + shiftSlack)}, nil
}

// curated is what the announced curator reveals. It refuses a plan that holds anything else, a curator in a channel in
// which nobody is trusted to be one, and an epoch after the last leaf: every epoch takes a leaf or is destroyed.
func (a *Announcement) curated() (privacy.Guarantee, error) {
	if err := a.Plan.CheckCurator(); err != nil {
		return privacy.NoGuarantee(), err
	}
	if leaves := a.Plan.Curator.Leaves; a.Epoch > uint64(leaves) {
		return privacy.NoGuarantee(), fmt.Errorf("%w: epoch %d of a run that was announced with %d cohorts", ErrPlan,
			a.Epoch, leaves)
	}
	name, err := family.New(a.Policy.Family, a.Policy.MaxReward)
	if err != nil {
		return privacy.NoGuarantee(), fmt.Errorf("%w: %w", ErrPlan, err)
	}
	return a.Plan.Curator.Guarantee(a.Policy.Dimension, name.MaxVariance(a.Policy.Radius)/math.E)
}

// CheckCurator refuses a plan with records and without a curator, or with a curator and anything but one release of
// records, without noise of its own, in the channel Central. Errors wrap ErrPlan.
func (p *Plan) CheckCurator() error {
	records := 0
	for _, round := range p.Rounds {
		for _, r := range round.Releases {
			if r.Statistic == statistic.Row {
				records++
			}
		}
	}
	switch {
	case p.Curator == nil && records > 0:
		return fmt.Errorf("%w: records are not released: a plan of records needs a curator", ErrPlan)
	case p.Curator == nil:
		return nil
	case p.Channel != Central:
		return fmt.Errorf("%w: a curator reads records, which is for the channel %s, not for %s", ErrPlan, Central,
			p.Channel)
	case len(p.Rounds) != 1 || len(p.Rounds[0].Releases) != 1 || records != 1:
		return fmt.Errorf("%w: a plan with a curator has one release, of records", ErrPlan)
	case p.Rounds[0].Releases[0] != Release{Statistic: statistic.Row}:
		return fmt.Errorf("%w: records have no noise of their own and no shift: the curator adds noise to what it "+
			"releases", ErrPlan)
	}
	return nil
}

// RecordEncoding is how a device writes its record: the arm's coordinates from -1 to 1, the reward in the family's
// range (family.RewardRange), and whether the person explored, in as many levels as an entry of Central has room for, a
// power of two for each unit of data. Zero is a level, so that the null record is exact.
func RecordEncoding(dimension int, name string, maxReward float64) protocol.Encoding {
	least, largest := family.RewardRange(name, maxReward)
	most := math.Exp2(float64(MaxEntryBits(Central))) - 1
	scale := math.Exp2(math.Floor(math.Log2(most / math.Max(2, largest-least))))
	e := protocol.Encoding{Scale: scale}
	for range dimension {
		e.Coordinates = append(e.Coordinates, protocol.Coordinate{Offset: -1, Levels: uint32(2 * scale)})
	}
	return protocol.Encoding{Scale: scale, Coordinates: append(e.Coordinates,
		protocol.Coordinate{Offset: least, Levels: uint32(math.Ceil((largest - least) * scale))},
		protocol.Coordinate{Levels: uint32(scale)})}
}

// DecodeRecord is the record that entries of RecordEncoding say: an arm in the unit ball, a reward in the family's
// range, and whether the person explored. There is one for every entries in range, whoever made them.
func DecodeRecord(e protocol.Encoding, entries []uint32, maxReward float64) (arm []float64, reward float64,
	explored bool) {
	d := len(entries) - 2
	arm = make([]float64, d)
	for j := range arm {
		arm[j] = float64(entries[j])/e.Scale + e.Coordinates[j].Offset
	}
	arm, _ = convex.ToUnitBall(arm)
	return arm, min(float64(entries[d])/e.Scale+e.Coordinates[d].Offset, maxReward), float64(entries[d+1]) >= e.Scale/2
}

// ProposeCurated plans the epoch that the step begins, in which people's records go to a curator. It refuses a curator
// whose guarantee is weaker than the terms.
func ProposeCurated(step learner.Step, t Terms, c Curator) (*Proposal, error) {
	if t.Registered != 0 || t.Decisions != 0 || t.Records != 0 || t.Period != 0 || t.Tail != 0 {
		return nil, fmt.Errorf("%w: panels, and what only they have, are not for records that go to a curator", ErrPlan)
	}
	request, err := cohort(step, t)
	if err != nil {
		return nil, err
	}
	p := &step.Policy
	out := &Proposal{
		Plan: Plan{Epsilon: t.Epsilon, Delta: t.Delta, Channel: t.Channel, Curator: &c,
			Rounds: []Round{{Releases: []Release{{Statistic: statistic.Row}}}}},
		Cohort: Cohort{Size: uint32(request.Cohort), Minimum: uint32(request.MinCohort),
			MaxDishonest: uint32(request.MaxDishonest)},
		Encodings: []protocol.Encoding{RecordEncoding(p.Dimension, p.Family, p.MaxReward)},
	}
	g, err := Guarantee(&Announcement{Policy: *p, Plan: out.Plan, Cohort: out.Cohort, Encodings: out.Encodings}, 0)
	if err != nil {
		return nil, err
	}
	if eps := g.Epsilon(t.Delta); !(eps <= t.Epsilon) {
		return nil, fmt.Errorf("%w: the curator's releases reveal epsilon %v of a record, the terms allow %v", ErrPlan,
			eps, t.Epsilon)
	}
	return out, nil
}

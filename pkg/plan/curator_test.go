package plan_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// curated is the announcement of an epoch of records.
func curated() *plan.Announcement {
	stage := glm.Stage{Theta: []float64{0, 0}, Covariance: symmetric.Packed{1, 0, 1}, Width: 1}
	return &plan.Announcement{
		Deployment: "curated", Epoch: 1,
		Policy: glm.Policy{Profile: glm.Joint, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 3,
			Theta: []float64{0, 0}, Play: glm.PlayOptimistic, Optimism: &stage,
			Criterion: &glm.Criterion{Covariance: symmetric.Packed{1, 0, 1}, Threshold: 1}},
		Reference: []float64{0, 0},
		Plan: plan.Plan{Epsilon: 4, Delta: 1e-6, Channel: plan.Central,
			Rounds: []plan.Round{{Releases: []plan.Release{{Statistic: statistic.Row}}}},
			Curator: &plan.Curator{Leaves: 50, ExplorerNoise: 20, OtherNoise: 2, ExplorerFits: 6, OtherFits: 10,
				ExplorerRho: 0.002, OtherRho: 0.001}},
		Encodings: []protocol.Encoding{plan.RecordEncoding(2, family.NameLogistic, 1)},
		Cohort:    plan.Cohort{Size: 100, Minimum: 90, MaxDishonest: 1},
	}
}

// The guarantee is what the releases cost that hold one record, counted one by one: the nodes of a binary tree over all
// leaves that hold the leaf, and all fits. Half of any noise costs more than is promised.
func TestTheCuratorsGuaranteeCountsEveryRelease(t *testing.T) {
	weight := 0.25 / math.E // mu' of logistic rewards is at most 1/4
	cost := func(c plan.Curator) float64 {
		most := 0
		for leaf := range int(c.Leaves) { // nodes [k 2^j, (k+1) 2^j) that are complete, by the leaf that they hold
			nodes := 0
			for size := 1; size <= int(c.Leaves); size *= 2 {
				if (leaf/size+1)*size <= int(c.Leaves) {
					nodes++
				}
			}
			most = max(most, nodes)
		}
		node := func(distance, sigma float64) float64 {
			return float64(most) * distance * distance / (2 * sigma * sigma)
		}
		return max(node(math.Sqrt2, c.ExplorerNoise)+float64(c.ExplorerFits)*c.ExplorerRho,
			node(math.Sqrt2*weight, c.OtherNoise)+float64(c.OtherFits)*c.OtherRho)
	}
	for _, leaves := range []uint32{1, 2, 3, 7, 8, 50, 1000} {
		a := curated()
		a.Plan.Curator.Leaves = leaves
		for _, f := range []func(*plan.Announcement) (privacy.Guarantee, error){
			plan.Alone, func(a *plan.Announcement) (privacy.Guarantee, error) { return plan.Guarantee(a, 50) },
			func(a *plan.Announcement) (privacy.Guarantee, error) { return plan.GuaranteeWith(a, 1) },
		} {
			g, err := f(a)
			if want := cost(*a.Plan.Curator); err != nil || !(g.Rho >= want && g.Rho < want*1.001) || g.Mu != 0 {
				t.Errorf("%d leaves: %+v, %v; the releases cost rho %v", leaves, g, err, want)
			}
		}
	}
	whole, err := plan.Guarantee(curated(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, halve := range map[string]func(*plan.Curator){ // to the noise at which each kind alone costs more
		"explorers' nodes": func(c *plan.Curator) { c.ExplorerNoise, c.OtherNoise = 10, 20 },
		"others' nodes":    func(c *plan.Curator) { c.OtherNoise /= 4 },
		"explorers' fits":  func(c *plan.Curator) { c.ExplorerRho *= 4 },
		"others' fits":     func(c *plan.Curator) { c.OtherRho *= 4 },
		"more fits":        func(c *plan.Curator) { c.OtherFits *= 4 },
		"more leaves":      func(c *plan.Curator) { c.Leaves *= 2 },
	} {
		a := curated()
		halve(a.Plan.Curator)
		if g, err := plan.Guarantee(a, 0); err != nil || !(g.Rho > whole.Rho) {
			t.Errorf("%s: rho %v, %v is not above %v", name, g.Rho, err, whole.Rho)
		}
	}
	// A record that changes its kind: with equal costs of both kinds it costs as much as one that is replaced, and the
	// rounding of both kinds.
	c := plan.Curator{Leaves: 7, ExplorerNoise: 10, OtherNoise: 10 * weight, ExplorerFits: 2, OtherFits: 4,
		ExplorerRho: 0.02, OtherRho: 0.01}
	g, err := c.Guarantee(2, weight)
	if want := 3*(1.0/200+1.0/200) + 0.04; err != nil || !(g.Rho >= want*(1+4e-5) && g.Rho < want*1.001) {
		t.Errorf("%+v, %v, want %v", g, err, want)
	}
}

// No two records are further apart in a leaf than the guarantee counts.
func TestLeavesMoveByNoMoreThanIsCounted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	arm := func() []float64 {
		x := []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
		scale := math.Sqrt(rng.Float64()) / convex.Norm(x)
		for j := range x {
			x[j] *= scale
		}
		return x
	}
	outer, err := statistic.NewCovariance(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	furthest, longest := 0.0, 0.0
	for range 20000 {
		u, _ := outer.Vector(nil, statistic.Record{Arm: arm(), Weight: 1})
		v, _ := outer.Vector(nil, statistic.Record{Arm: arm(), Weight: rng.Float64()})
		for j := range u {
			v[j] -= u[j]
		}
		furthest, longest = max(furthest, convex.Norm(v)), max(longest, convex.Norm(u))
	}
	if furthest > math.Sqrt2 || longest > 1+1e-12 || furthest < 1.3 || longest < 0.99 {
		t.Errorf("leaves move by %v when a record is replaced, by %v when it goes", furthest, longest)
	}
}

// Whatever does not hold together is refused by everyone who recomputes the guarantee, and by who encodes.
func TestCuratedPlansThatDoNotHoldTogetherAreRefused(t *testing.T) {
	if _, err := plan.CheckRound(curated()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil  func(*plan.Announcement)
		encode bool // CheckRound refuses it, too
	}{
		"no curator": {func(a *plan.Announcement) { a.Plan.Curator = nil }, true},
		"channel":    {func(a *plan.Announcement) { a.Plan.Channel = plan.Shuffle }, true},
		"local":      {func(a *plan.Announcement) { a.Plan.Channel = plan.Local }, true},
		"two rounds": {func(a *plan.Announcement) { a.Plan.Rounds = append(a.Plan.Rounds, a.Plan.Rounds[0]) }, true},
		"a gradient beside": {func(a *plan.Announcement) {
			a.Plan.Rounds[0].Releases = append(a.Plan.Rounds[0].Releases, plan.Release{Statistic: statistic.Gradient})
		}, true},
		"a gradient": {func(a *plan.Announcement) { a.Plan.Rounds[0].Releases[0].Statistic = statistic.Gradient },
			true},
		"other noise":  {func(a *plan.Announcement) { a.Plan.Rounds[0].Releases[0].AnalyzerNoise = 9 }, true},
		"no leaves":    {func(a *plan.Announcement) { a.Plan.Curator.Leaves = 0 }, false},
		"no fits":      {func(a *plan.Announcement) { a.Plan.Curator.OtherFits = 0 }, false},
		"no noise":     {func(a *plan.Announcement) { a.Plan.Curator.OtherNoise = 0 }, false},
		"negative rho": {func(a *plan.Announcement) { a.Plan.Curator.ExplorerRho = -1 }, false},
		"NaN":          {func(a *plan.Announcement) { a.Plan.Curator.ExplorerNoise = math.NaN() }, false},
		"family":       {func(a *plan.Announcement) { a.Policy.Family = "cauchy" }, true},
	} {
		a := curated()
		c.spoil(a)
		for _, g := range []func() (privacy.Guarantee, error){
			func() (privacy.Guarantee, error) { return plan.Guarantee(a, 0) },
			func() (privacy.Guarantee, error) { return plan.Alone(a) },
		} {
			if g, err := g(); !errors.Is(err, plan.ErrPlan) || !math.IsInf(g.Epsilon(1e-6), 1) {
				t.Errorf("%s: %+v, %v", name, g, err)
			}
		}
		if _, err := plan.CheckRound(a); c.encode && err == nil {
			t.Errorf("%s: records are encoded", name)
		}
	}
	all, err := plan.Observers(curated(), 0)
	if err != nil || len(all) != 2 || !all[0].Together.Promises() || all[0].Honest != "analyzer" ||
		all[1].Together.Promises() || all[1].Sees != "analyzer" {
		t.Errorf("%+v, %v", all, err)
	}
	a, b := curated(), curated()
	if !a.Plan.Equal(b.Plan.Clone()) {
		t.Error("a plan is not equal to a copy of it")
	}
	b.Plan = a.Plan.Clone()
	if b.Plan.Curator.Leaves++; a.Plan.Equal(b.Plan) || a.Plan.Curator.Leaves != 50 {
		t.Error("a plan shares its curator with a copy, or is equal to one with another")
	}
}

// A record comes back as it was to half of a level, the null record exactly; entries that no device would send give a
// record in range.
func TestRecordsAreEncodedFinely(t *testing.T) {
	for _, c := range []struct {
		family      string
		least, most float64
	}{
		{family.NameGaussian, 0, 0.5}, {family.NameLogistic, 0, 1}, {family.NamePoisson, 0, 5},
		{family.NamePoisson, 0, 300},
		{family.NameLinear, -1, 1},
	} {
		most := c.most
		e := plan.RecordEncoding(3, c.family, most)
		a := &plan.Announcement{Encodings: []protocol.Encoding{e}}
		if n := a.EntryBits(); n > plan.MaxEntryBits(plan.Central) || n < plan.MaxEntryBits(plan.Central)-1 {
			t.Errorf("%s, R = %v: entries of %d bits", c.family, most, n)
		}
		rng := rand.New(rand.NewPCG(1, uint64(most)))
		for range 200 {
			x := []float64{rng.Float64() - 0.5, rng.Float64() - 0.5, rng.Float64() - 0.5}
			reward, flag := c.least+(most-c.least)*rng.Float64(), float64(rng.IntN(2))
			entries, err := e.Encode(nil, append(append([]float64(nil), x...), reward, flag), rng)
			if err != nil {
				t.Fatal(err)
			}
			arm, r, explored := plan.DecodeRecord(e, entries, most)
			for j := range x {
				if math.Abs(arm[j]-x[j]) > 1/e.Scale {
					t.Errorf("%v comes back as %v", x, arm)
				}
			}
			if math.Abs(r-reward) > 1/e.Scale || r > most || explored != (flag == 1) {
				t.Errorf("reward %v, explored %v come back as %v, %v", reward, flag, r, explored)
			}
		}
		null, err := e.Encode(nil, make([]float64, 5), rng)
		if err != nil {
			t.Fatal(err)
		}
		if arm, r, explored := plan.DecodeRecord(e, null, most); convex.Norm(arm) != 0 || r != 0 || explored {
			t.Errorf("the null record comes back as %v, %v, %v", arm, r, explored)
		}
		var largest []uint32
		for _, c := range e.Coordinates {
			largest = append(largest, c.Levels)
		}
		if arm, r, _ := plan.DecodeRecord(e, largest, most); convex.Norm(arm) > 1+1e-12 || r != most {
			t.Errorf("the largest entries are the record %v, %v", arm, r)
		}
		if _, r, _ := plan.DecodeRecord(e, make([]uint32, 5), most); r != c.least {
			t.Errorf("%s: the smallest entries are the reward %v", c.family, r)
		}
	}
}

// A proposal keeps the terms or is refused, and its cohort is that of every other plan.
func TestProposeCurated(t *testing.T) {
	a := curated()
	terms := plan.DefaultTermsFor(plan.Central)
	terms.Epsilon = 4
	row, err := statistic.NewRow(family.Logistic{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	step := learner.Step{Policy: a.Policy, Cohort: 100, Statistics: [][]statistic.Statistic{{row}},
		Shares: [][]float64{{1}}}
	p, err := plan.ProposeCurated(step, terms, *a.Plan.Curator)
	if err != nil {
		t.Fatal(err)
	}
	if p.Cohort != (plan.Cohort{Size: 100, Minimum: 95, MaxDishonest: 1}) || p.Plan.TailDelta != 0 ||
		!p.Plan.Curator.Equal(a.Plan.Curator) || len(p.Encodings) != 1 || len(p.Encodings[0].Coordinates) != 4 {
		t.Errorf("%+v", p)
	}
	terms.Epsilon = 0.5
	if _, err := plan.ProposeCurated(step, terms, *a.Plan.Curator); !errors.Is(err, plan.ErrPlan) {
		t.Errorf("a weaker guarantee than the terms: %v", err)
	}
	terms.Epsilon, terms.Channel = 4, plan.Shuffle
	if _, err := plan.ProposeCurated(step, terms, *a.Plan.Curator); !errors.Is(err, plan.ErrPlan) {
		t.Errorf("in the channel shuffle: %v", err)
	}
}

// Each of the three ways in which a record can be replaced counts whole, and with the grid that nodes are rounded to: a
// curator of whom one of them is the costliest promises what it costs, computed here from the distances alone. In 30
// dimensions at a deviation of 1000 the grid is 1.5 % of the distance.
func TestEachPartOfACuratorsGuaranteeCounts(t *testing.T) {
	const dimension, leaves, fits, weight = 30, 7, 2, 0.5
	node := func(distance, sigma float64) float64 {
		const levels, entries, grid = 3, dimension * (dimension + 1) / 2, 0x1p-20 // deviations
		moved := distance/sigma + math.Sqrt(entries)*grid
		return levels * moved * moved / 2
	}
	for name, of := range map[string]struct {
		explorer, other, explorerRho, otherRho, want float64
	}{
		"replaced by an explorer": {1000, 5000, 1e-5, 1e-7, node(math.Sqrt2, 1000) + fits*1e-5},
		"replaced by another":     {9000, 1000, 1e-8, 1e-6, node(math.Sqrt2*weight, 1000) + fits*1e-6},
		"of another kind": {1000, 500, 1e-9, 1e-9,
			node(1, 1000) + node(weight, 500) + fits*1e-9},
	} {
		c := plan.Curator{Leaves: leaves, ExplorerNoise: of.explorer, OtherNoise: of.other, ExplorerFits: fits,
			OtherFits:   fits,
			ExplorerRho: of.explorerRho, OtherRho: of.otherRho}
		g, err := c.Guarantee(dimension, weight)
		if err != nil || g.Rho < of.want || g.Rho > of.want*1.0002 {
			t.Errorf("%s: rho %v, %v, the parts cost %v", name, g.Rho, err, of.want)
		}
	}
}

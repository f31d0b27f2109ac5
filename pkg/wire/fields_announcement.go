package wire

import (
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

func announcementFields(c *coder, a *plan.Announcement) {
	c.named(&a.Deployment)
	c.uint64(2, &a.Epoch)
	c.uint32(3, &a.Round)
	c.bytes(4, &a.Previous)
	c.inside(5, true, func(c *coder) { policyFields(c, &a.Policy) })
	c.floats(6, &a.Reference)
	c.inside(7, !a.Final, func(c *coder) { planFields(c, &a.Plan) })
	list(c, 8, &a.Encodings, MaxReleases+1, encodingFields)
	c.inside(9, !a.Final, func(c *coder) { cohortFields(c, &a.Cohort) })
	c.inside(10, !a.Final, func(c *coder) { timingFields(c, &a.Timing) })
	c.bytes(11, &a.AnalyzerKey)
	c.bool(12, &a.Final)
	c.bytes(13, &a.Commitment)
	c.bytes(14, &a.Schema)
	c.floats(15, (*[]float64)(&a.Normalization))
	optional(c, 16, &a.Tree, func(c *coder, t *layered.Tree) { treeFields(c, t, a.Policy.Dimension) })
	optional(c, 17, &a.Question, questionFields)
	if releases := announcedReleases(a); c.reads { // noise bits and bias are those of the planned release
		for i := range min(len(a.Encodings), len(releases)) {
			a.Encodings[i].NoiseBits, a.Encodings[i].Bias = releases[i].NoiseBits, releases[i].Bias
		}
	}
}

// announcedReleases returns the planned releases of the announced round, none where the plan has no such round.
func announcedReleases(a *plan.Announcement) []plan.Release {
	if uint64(a.Round) >= uint64(len(a.Plan.Rounds)) {
		return nil
	}
	return a.Plan.Rounds[a.Round].Releases
}

func questionFields(c *coder, q *statistic.Question) {
	c.text(1, &q.Name)
	list(c, 2, &q.Of, statistic.MaxCells+1, func(c *coder, of *statistic.Quantity) {
		var entries []uint32
		for _, e := range of.Entries {
			entries = append(entries, uint32(e))
		}
		if numbers(c, 1, &entries); c.reads {
			for _, e := range entries {
				of.Entries = append(of.Entries, int(e))
			}
		}
		c.float(2, &of.Low)
		c.float(3, &of.High)
	})
	c.floats(3, &q.Edges)
}

func encodingFields(c *coder, e *protocol.Encoding) {
	c.float(1, &e.Scale)
	list(c, 2, &e.Coordinates, MaxCoordinates+1, func(c *coder, e *protocol.Coordinate) {
		c.float(1, &e.Offset)
		c.uint32(2, &e.Levels)
	})
}

func planFields(c *coder, p *plan.Plan) {
	list(c, 1, &p.Rounds, MaxRounds+1, func(c *coder, r *plan.Round) {
		list(c, 1, &r.Releases, MaxReleases+1, releaseFields)
	})
	c.float(2, &p.Epsilon)
	c.float(3, &p.Delta)
	c.float(4, &p.TailDelta)
	name(c, 5, channels, &p.Channel)
	optional(c, 6, &p.Curator, curatorFields)
	optional(c, 7, &p.Panel, func(c *coder, q *plan.Panel) {
		c.uint32(1, &q.Registered)
		c.float(2, &q.Dishonest)
		c.float(3, &q.Tail)
	})
	c.uint32(8, &p.Decisions)
	c.uint32(9, &p.Records)
	c.uint32(10, &p.Period)
}

func releaseFields(c *coder, r *plan.Release) {
	name(c, 1, statistics, &r.Statistic)
	c.float(2, &r.Shift)
	c.uint32(3, &r.NoiseBits)
	c.uint32(4, (*uint32)(&r.Bias))
	c.uint64(5, &r.ShufflerNoise)
	c.uint64(6, &r.AnalyzerNoise)
}

func curatorFields(c *coder, q *plan.Curator) {
	c.uint32(1, &q.Leaves)
	c.float(2, &q.ExplorerNoise)
	c.float(3, &q.OtherNoise)
	c.uint32(4, &q.ExplorerFits)
	c.uint32(5, &q.OtherFits)
	c.float(6, &q.ExplorerRho)
	c.float(7, &q.OtherRho)
}

func cohortFields(c *coder, s *plan.Cohort) {
	c.uint32(1, &s.Size)
	c.uint32(2, &s.Minimum)
	c.uint32(3, &s.MaxDishonest)
}

func policyFields(c *coder, p *glm.Policy) {
	name(c, 1, profiles, &p.Profile)
	c.count(2, &p.Epoch)
	c.inside(3, true, func(c *coder) {
		c.text(1, &p.Family)
		c.float(2, &p.MaxReward)
	})
	c.count(4, &p.Dimension)
	c.float(5, &p.Radius)
	c.floats(6, &p.Theta)
	list(c, 7, &p.Stages, MaxStages+1, stageFields)
	optional(c, 8, &p.Scaling, func(c *coder, s *glm.Scaling) {
		c.inside(1, true, func(c *coder) { stageFields(c, &s.Stage) })
		c.float(2, &s.SelfConcordance)
		c.float(3, &s.MaxWeight)
		if c.reads {
			s.Diameter = 2 * p.Radius
		}
	})
	name(c, 9, plays, &p.Play)
	c.float(10, &p.DesignTolerance)
	drawsField(c, p)
	c.float(12, &p.Explore)
	optional(c, 13, &p.Criterion, func(c *coder, q *glm.Criterion) {
		c.floats(1, (*[]float64)(&q.Covariance))
		c.float(2, &q.Threshold)
	})
	optional(c, 14, &p.Optimism, stageFields)
	c.float(15, &p.Control)
	c.float(16, &p.Caution)
	list(c, 17, (*[]structure.Group)(&p.Structure), structure.MaxGroups+1, groupFields)
	c.float(18, &p.Gamma)
	list(c, 19, &p.Trees, glm.MaxTrees+1, func(c *coder, t *layered.Tree) { treeFields(c, t, p.Dimension) })
}

// drawsField has the draws' numbers one after the other. Numbers left over are one more vector, which the check of the
// policy refuses for its length, as it refuses a dimension below 1.
func drawsField(c *coder, p *glm.Policy) {
	all, d := slices.Concat(p.Draws...), p.Dimension
	if c.floats(11, &all); c.reads {
		if d < 1 {
			d = max(1, len(all))
		}
		p.Draws = slices.Collect(slices.Chunk(all, d))
	}
}

func stageFields(c *coder, s *glm.Stage) {
	c.floats(1, &s.Theta)
	c.floats(2, (*[]float64)(&s.Covariance))
	c.float(3, &s.Width)
	c.bool(4, &s.Means)
}

func groupFields(c *coder, g *structure.Group) {
	c.count(1, &g.From)
	c.count(2, &g.Count)
	c.count(3, &g.Size)
	c.count(4, &g.Choice)
}

// treeFields has the bins' numbers in lists of their own, which take little more memory than bytes. Of a message with
// more bins than are allowed it reads one too many, for the check of the tree to refuse. Lists of unequal lengths do
// not come back as they were, which Open refuses.
func treeFields(c *coder, t *layered.Tree, dimension int) {
	var parents, levels []uint32
	var directions, values, flats, slopes []float64
	for _, b := range t.Bins {
		parents, levels = append(parents, uint32(b.Parent)), append(levels, uint32(b.Level))
		directions = append(directions, b.Direction...)
		values, flats, slopes = append(values, b.Value), append(flats, b.Flat), append(slopes, b.Slope)
	}
	c.count(1, &t.Levels)
	c.float(2, &t.Gamma)
	c.float(3, &t.Cap)
	c.float(4, &t.Clip)
	numbers(c, 5, &parents)
	numbers(c, 6, &levels)
	c.floats(7, &directions)
	c.floats(8, &values)
	c.floats(9, &flats)
	c.floats(10, &slopes)
	if !c.reads {
		return
	}
	n := min(len(parents), 2*layered.MaxBins+1)
	t.Bins = slices.Grow(t.Bins, n)
	for i := range n {
		b := layered.Bin{Parent: int(parents[i]), Level: int(at(levels, i)), Value: at(values, i), Flat: at(flats, i),
			Slope: at(slopes, i)}
		if from := i * dimension; dimension > 0 && from+dimension <= len(directions) {
			b.Direction = directions[from : from+dimension]
		}
		t.Bins = append(t.Bins, b)
	}
}

// at is a list's entry, 0 beyond its end.
func at[T uint32 | float64](list []T, i int) (v T) {
	if i < len(list) {
		v = list[i]
	}
	return v
}

package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// shape is what a report of the default plan looks like.
type shape struct {
	channel  plan.Channel
	dim      int
	messages int // of one report
	payload  int // bytes
	entries  int // numbers of one report
	width    int // bits of a number, in shares
}

// planCohort plans one cohort with the default terms, as the analyzer does.
func planCohort(c plan.Channel, dim, users int) (*plan.Proposal, *plan.Announcement, error) {
	learner, err := learner.New(learner.Config{
		Profile: glm.Practical, Dimension: dim, Horizon: users, MinCohort: plan.DefaultMinCohort,
		Practical: learner.PracticalConfig{FirstCohort: users},
	})
	if err != nil {
		return nil, nil, err
	}
	step := learner.Next()
	proposal, err := plan.Propose(step, plan.DefaultTermsFor(c))
	if err != nil {
		return nil, nil, fmt.Errorf("%d people in %d dimensions, channel %s: %w", users, dim, c, err)
	}
	return proposal, proposal.Announced(step), nil
}

// shapeOf is what a report of such a cohort looks like.
func shapeOf(c plan.Channel, dim, users int) (shape, *plan.Announcement, error) {
	_, a, err := planCohort(c, dim, users)
	if err != nil {
		return shape{}, nil, err
	}
	s := shape{channel: c, dim: dim, messages: a.ReportMessages(), width: int(a.EntryBits())}
	for _, e := range a.Encodings {
		s.entries += len(e.Coordinates)
	}
	if s.payload = s.messages * seal.BitSize; c != plan.Shuffle {
		s.payload = registry.PayloadSize(c, a.Encodings)
	}
	return s, a, nil
}

// envelope is how many bytes of a report travel.
func (s shape) envelope() int { return wire.EnvelopeSize(s.payload) }

// bound is the least processor time of one report, in seconds, and what it is made of.
type bound struct {
	seconds float64
	what    string
}

// chunkBytes is about how large a message from the shuffler to the analyzer is: 16,384 bit messages.
const chunkBytes = 16384 * seal.BitSize

// prio3 names a bound of the vector sum for the numbers of one dimension.
func prio3(name string, dim int) string { return fmt.Sprintf("%s_d%d", name, dim) }

// bounds are the least that each role can take for one report. They count multiplications on the curve, the vector
// sum's own steps, signatures, and bytes through the cipher, and nothing around them.
func (r *Result) bounds(s shape) map[string]bound {
	b := r.Bounds
	x, pair := b.Of(boundX25519), b.Of(boundX25519)+b.Of(boundBase)
	sign, verify, bytes := b.Of(boundSign), b.Of(boundVerify), b.Of(boundAEAD)*float64(s.envelope())
	shard, prepare := b.Of(prio3(boundShard, s.dim)), b.Of(prio3(boundPrepare, s.dim))
	m := float64(s.messages)
	const around = "1 envelope, 2 signatures, 1 verification"
	envelope := pair + bytes + 2*sign + verify // report sealed, request and report signed, reply verified
	taken := x + bytes + 2*verify + sign       // request and report verified, reply signed, envelope opened
	out := map[string]bound{
		RoleShuffler: {taken, "1 X25519 multiplication, 2 verifications, 1 signature, cipher"},
		RoleBroker: {
			r.brokerTime(s.envelope()), fmt.Sprintf("JetStream publish and consume of %d bytes", s.envelope()),
		},
	}
	switch s.channel {
	case plan.Shuffle:
		out[RoleDevice] = bound{envelope + m*pair,
			fmt.Sprintf("a pair of X25519 multiplications for each of %d messages, %s", s.messages, around)}
		out[RoleAnalyzer] = bound{m * x, fmt.Sprintf("1 X25519 multiplication for each of %d messages", s.messages)}
		chunk := r.brokerTime(chunkBytes) * m * seal.BitSize / chunkBytes
		carried := out[RoleBroker]
		out[RoleBroker] = bound{carried.seconds + chunk, carried.what + ", and of the messages in chunks"}
	case plan.Shares:
		out[RoleDevice] = bound{envelope + shard + pair + sign,
			"Prio3SumVec shard, 1 inner envelope with a proof of participation, " + around}
		out[RoleAnalyzer] = bound{prepare + x + verify, "Prio3SumVec preparation, 1 X25519 multiplication, 1 " +
			"verification"}
		out[RoleShuffler] = bound{taken + prepare, out[RoleShuffler].what + ", Prio3SumVec preparation"}
	default:
		out[RoleDevice] = bound{envelope + pair + sign, "1 inner envelope with a proof of participation, " + around}
		out[RoleAnalyzer] = bound{x + verify, "1 X25519 multiplication, 1 verification"}
	}
	all := out[RoleDevice].seconds + out[RoleShuffler].seconds + out[RoleAnalyzer].seconds
	out[RoleAll] = bound{all / float64(r.Machine.Cores), "all roles' bounds but the broker's, on all cores"}
	if s.channel == plan.Shuffle {
		out[RoleAll] = bound{m * b.Of(boundBothCores),
			fmt.Sprintf("sealing and opening %d messages by pkg/seal on all cores, as if they were idle", s.messages)}
	}
	return out
}

// brokerTime is the broker's processor time for one message of about this size, of those that were measured.
func (r *Result) brokerTime(size int) float64 {
	if len(r.streams) == 0 {
		return 0
	}
	return slices.MinFunc(r.streams, func(a, b streamed) int { return abs(a.size-size) - abs(b.size-size) }).both()
}

func abs(n int) int { return max(n, -n) }

// measureAll measures every bound.
func measureAll(ctx context.Context, o Options, r *Result) error {
	sizes := []int{chunkBytes}
	users := slices.Max(append(slices.Clone(o.Users), leastUsers))
	if len(o.Users) > 0 {
		users = o.Users[0]
	}
	for i, dim := range o.Dimensions {
		var entries, width int
		for _, c := range append([]plan.Channel{plan.Shares}, o.Channels...) {
			s, _, err := shapeOf(c, dim, users)
			if err != nil {
				return err
			}
			if sizes = append(sizes, s.envelope()); c == plan.Shares {
				entries, width = s.entries, s.width
			}
		}
		if i == 0 {
			all, err := measureBounds(o.Measure)
			if err != nil {
				return err
			}
			r.Bounds = all
		}
		some, err := measurePrio3(o.Measure, dim, uint(entries), uint(width))
		if err != nil {
			return err
		}
		r.Bounds = append(r.Bounds, some...)
	}
	slices.Sort(sizes)
	all, err := o.measureStreams(ctx, slices.Compact(sizes), int(float64(streamBytes)*min(1, o.Measure.Seconds())))
	if err != nil {
		return err
	}
	r.streams = all
	for _, s := range all {
		for _, one := range []struct {
			name, what string
			seconds    float64
			wall       bool
		}{
			{boundPublish, "publish, the broker's processor time", s.publish, false},
			{boundPublishWall, "publish, 64 at a time", s.publishWall, true},
			{boundConsume, "consume and acknowledge, the broker's processor time", s.consume, false},
			{boundConsumeWall, "consume and acknowledge", s.consumeWall, true},
		} {
			r.Bounds = append(r.Bounds, Bound{Name: fmt.Sprintf("%s_%d", one.name, s.size), Seconds: one.seconds,
				Wall: one.wall, What: fmt.Sprintf("JetStream, %d bytes: %s", s.size, one.what)})
		}
	}
	return nil
}

package wire

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// checkAnnouncement checks everything of an announcement that can be checked without state.
func checkAnnouncement(a *plan.Announcement) error {
	if err := checkPlace(a.Deployment, a.Epoch, a.Round); err != nil {
		return err
	}
	if first := a.Epoch == 1 && a.Round == 0; first {
		if len(a.Previous) != 0 {
			return field("previous", "must be empty in the first announcement")
		}
	} else if err := checkLength("previous", a.Previous, digestSize); err != nil {
		return err
	}
	if err := checkPolicy(&a.Policy); err != nil {
		return err
	}
	if n := len(a.Schema); n > MaxSchema {
		return field("schema", "has %d bytes, at most %d", n, MaxSchema)
	}
	if a.Final {
		return checkFinal(a)
	}
	if err := checkReference(a); err != nil {
		return err
	}
	if err := checkPlan(&a.Plan); err != nil {
		return inside("plan.", err)
	}
	if err := checkNormalization(a); err != nil {
		return err
	}
	if err := checkTree(a); err != nil {
		return err
	}
	if err := a.CheckQuestion(); err != nil {
		return field("question", "is refused: %v", err)
	}
	if err := checkEncodings(a); err != nil {
		return err
	}
	if err := checkCohort(a.Cohort); err != nil {
		return inside("cohort.", err)
	}
	if err := a.CheckPairs(); err != nil {
		return field("plan", "is refused: %v", err)
	}
	if err := checkTiming(a.Timing); err != nil {
		return inside("timing.", err)
	}
	if len(a.Plan.Rounds) > 1 && a.Timing.RoundWindow == 0 {
		return field("timing.round_window_ms", "is 0, but the plan has %d rounds", len(a.Plan.Rounds))
	}
	if err := seal.CheckHPKEPublic(a.AnalyzerKey); err != nil {
		return field("analyzer_key", "%v", err)
	}
	return checkDrawn(a)
}

// checkNormalization refuses a normalization that no statistic of the round needs, and one that is no symmetric matrix
// of finite numbers. Nothing more is asked of it: the statistics are bounded for every such matrix.
func checkNormalization(a *plan.Announcement) error {
	needed := slices.ContainsFunc(announcedReleases(a), func(r plan.Release) bool { return r.Statistic.Normalized() })
	if !needed {
		if len(a.Normalization) > 0 {
			return field("normalization", "must be absent where no statistic of the round is reweighted")
		}
		return nil
	}
	if err := a.Normalization.CheckSize(a.Policy.Dimension); err != nil {
		return field("normalization", "%v", err)
	}
	return nil
}

// checkTree refuses a tree that no statistic of the round needs, and one that is not well formed. What is too large a
// layer is for checkEncodings.
func checkTree(a *plan.Announcement) error {
	needed := slices.ContainsFunc(announcedReleases(a), func(r plan.Release) bool { return r.Statistic.Binned() })
	if needed != (a.Tree != nil) {
		return field("tree", "must be there where a statistic of the round is over its bins, and nowhere else")
	}
	if !needed {
		return nil
	}
	if err := a.Tree.Validate(a.Policy.Dimension); err != nil {
		return field("tree", "%v", err)
	}
	return nil
}

// checkDrawn checks what an announcement says of its panel.
func checkDrawn(a *plan.Announcement) error {
	if a.Plan.Panel != nil {
		return checkLength("commitment", a.Commitment, digestSize)
	}
	if len(a.Commitment) != 0 {
		return field("commitment", "must be absent where there is no panel")
	}
	return nil
}

// checkPanel refuses a panel that means nothing, and what only panels have in a plan without one.
func checkPanel(p *plan.Plan) error {
	q := p.Panel
	if q == nil {
		if p.Decisions != 0 || p.Records != 0 || p.Period != 0 {
			return field("panel", "is missing, but decisions, records or period are there")
		}
		return nil
	}
	if len(p.Rounds) != 1 || p.Curator != nil {
		return field("panel", "needs a plan of one round, without a curator")
	}
	if q.Registered == 0 {
		return field("panel.registered", "is 0")
	}
	if !(q.Dishonest >= 0 && q.Dishonest < 1) || math.Signbit(q.Dishonest) {
		return field("panel.dishonest", "is %v, must be in [0, 1)", q.Dishonest)
	}
	if !(q.Tail >= 0 && q.Tail < p.Delta) || math.Signbit(q.Tail) {
		return field("panel.tail", "is %v, must be at least 0 and below delta, %v", q.Tail, p.Delta)
	}
	if p.Decisions == 0 || p.Decisions > MaxDecisions {
		return field("decisions", "is %d, must be 1 to %d", p.Decisions, MaxDecisions)
	}
	if p.Records == 0 {
		return field("records", "is 0")
	}
	if p.Period != 0 && p.Period < p.Records {
		return field("period", "is %d epochs, fewer than the %d records in them", p.Period, p.Records)
	}
	return nil
}

// checkFinal refuses a final announcement with something to report on: its message carries nothing of that.
func checkFinal(a *plan.Announcement) error {
	for _, f := range []struct {
		name    string
		present bool
	}{
		{"reference", len(a.Reference) > 0},
		{"normalization", len(a.Normalization) > 0},
		{"tree", a.Tree != nil},
		{"question", a.Question != nil},
		{"plan", !a.Plan.Equal(plan.Plan{})},
		{"encodings", len(a.Encodings) > 0},
		{"cohort", a.Cohort != plan.Cohort{}},
		{"timing", a.Timing != plan.Timing{}},
		{"analyzer_key", len(a.AnalyzerKey) > 0},
		{"commitment", len(a.Commitment) > 0},
	} {
		if f.present {
			return field(f.name, "must be absent from a final announcement")
		}
	}
	return nil
}

func checkPlan(p *plan.Plan) error {
	if n := len(p.Rounds); n == 0 || n > MaxRounds {
		return field("rounds", "has %d entries, must have 1 to %d", n, MaxRounds)
	}
	if !slices.Contains(plan.Channels(), p.Channel) {
		return field("channel", "is %q, which is not known", p.Channel)
	}
	if p.Curator != nil {
		if err := checkCurator(p.Curator); err != nil {
			return inside("curator.", err)
		}
	}
	for i, r := range p.Rounds {
		if n := len(r.Releases); n == 0 || n > MaxReleases {
			return field(fmt.Sprintf("rounds[%d].releases", i), "has %d entries, must have 1 to %d", n, MaxReleases)
		}
		for j, release := range r.Releases {
			if p.Curator != nil {
				continue // CheckCurator looks at it
			}
			if err := checkRelease(release, p.Channel); err != nil {
				return inside(fmt.Sprintf("rounds[%d].releases[%d].", i, j), err)
			}
		}
	}
	if err := checkPanel(p); err != nil {
		return err
	}
	if err := p.CheckCurator(); err != nil {
		return field("curator", "is refused: %v", err)
	}
	if privacy.CheckEpsilon(p.Epsilon) != nil {
		return field("epsilon", "is %v, must be from %g to %d", p.Epsilon, privacy.MinEpsilon, privacy.MaxEpsilon)
	}
	if privacy.CheckDelta(p.Delta) != nil {
		return field("delta", "is %v, must be from %g to %g", p.Delta, privacy.MinDelta, privacy.MaxDelta)
	}
	if p.Curator != nil {
		if p.TailDelta != 0 {
			return field("tail_delta", "is %v, must be 0 with a curator", p.TailDelta)
		}
		return nil
	}
	if !(p.TailDelta > 0 && p.TailDelta <= p.Delta) {
		return field("tail_delta", "is %v, must be above 0 and at most delta, %v", p.TailDelta, p.Delta)
	}
	return nil
}

// checkCurator refuses noise and numbers of releases that mean nothing.
func checkCurator(c *plan.Curator) error {
	for _, n := range []struct {
		name string
		v    uint32
	}{{"leaves", c.Leaves}, {"explorer_fits", c.ExplorerFits}, {"other_fits", c.OtherFits}} {
		if n.v == 0 {
			return field(n.name, "is 0, must be positive")
		}
	}
	for _, n := range []struct {
		name string
		v    float64
	}{
		{"explorer_noise", c.ExplorerNoise}, {"other_noise", c.OtherNoise}, {"explorer_rho", c.ExplorerRho},
		{"other_rho", c.OtherRho},
	} {
		if err := checkPositive(n.name, n.v); err != nil {
			return err
		}
	}
	return nil
}

// checkRelease refuses noise that does not exist in the channel, and a release without any. What a noise is worth is
// for plan.Guarantee to say.
func checkRelease(r plan.Release, c plan.Channel) error {
	if !slices.Contains(statistics[1:], r.Statistic) {
		return field("statistic", "is %s, which is not known", r.Statistic)
	}
	if err := checkPositive("shift", r.Shift); err != nil {
		return err
	}
	if r.NoiseBits == 0 && r.ServerNoise() == 0 {
		return field("noise_bits", "is 0: no noise, no privacy")
	}
	for _, f := range []struct {
		name string
		n    uint64
		in   []plan.Channel // that have this noise
	}{
		{"noise_bits", uint64(r.NoiseBits), []plan.Channel{plan.Shuffle, plan.Shares, plan.Local}},
		{"shuffler_noise", r.ShufflerNoise, []plan.Channel{plan.Shuffle, plan.Shares}},
		{"analyzer_noise", r.AnalyzerNoise, []plan.Channel{plan.Shares, plan.Central}},
	} {
		if f.n > plan.MaxServerNoise {
			return field(f.name, "is %d, at most %d", f.n, uint64(plan.MaxServerNoise))
		}
		if f.n > 0 && !slices.Contains(f.in, c) {
			return field(f.name, "is %d, the channel %s has no such noise", f.n, c)
		}
	}
	if r.Bias == 0 {
		return field("bias", "is 0: no noise, no privacy")
	}
	return nil
}

// checkEncodings checks the announced round's encodings against its planned releases and the dimension, and bounds the
// size of a report.
func checkEncodings(a *plan.Announcement) error {
	if int(a.Round) >= len(a.Plan.Rounds) {
		return field("round", "is %d, the plan has %d", a.Round, len(a.Plan.Rounds))
	}
	releases := announcedReleases(a)
	if len(a.Encodings) != len(releases) {
		return field("encodings", "has %d entries, round %d of the plan has %d releases",
			len(a.Encodings), a.Round, len(releases))
	}
	total := 0
	for i, e := range a.Encodings {
		path, r := fmt.Sprintf("encodings[%d]", i), releases[i]
		if e.NoiseBits != r.NoiseBits || e.Bias != r.Bias { // the message carries the release's only
			return field(path, "has other noise than the release of the plan")
		}
		want := statistic.Statistic{
			Kind: r.Statistic, ArmDim: a.Policy.Dimension, Structure: a.Policy.Structure, Tree: a.Tree,
			Question: a.Question,
		}.Dim()
		if n := len(e.Coordinates); n != want || n > MaxCoordinates {
			return field(path+".coordinates",
				"has %d entries, the %s of dimension %d has %d, and at most %d are allowed",
				n, r.Statistic, a.Policy.Dimension, want, MaxCoordinates)
		}
		if err := e.Validate(); err != nil {
			return field(path, "is refused: %v", err)
		}
		if total += e.Messages(); total > plan.MaxReportMessages && a.Plan.Channel == plan.Shuffle {
			return field("encodings", "make reports of more than %d bit messages", plan.MaxReportMessages)
		}
		for j := range e.Coordinates {
			if n := e.MessagesAt(j); n > plan.MaxReportMessages {
				return field(path+".coordinates", "has entry %d with values up to %d, at most %d are allowed",
					j, n, plan.MaxReportMessages)
			}
		}
	}
	return nil
}

func checkCohort(c plan.Cohort) error {
	if c.Size == 0 {
		return field("size", "is 0")
	}
	if c.Minimum == 0 || c.Minimum > c.Size {
		return field("minimum", "is %d, must be 1 to cohort.size, %d", c.Minimum, c.Size)
	}
	if c.MaxDishonest >= c.Minimum {
		return field("max_dishonest", "is %d, must be below cohort.minimum, %d: no noise is counted",
			c.MaxDishonest, c.Minimum)
	}
	return nil
}

// checkTiming keeps the sum of two times within 32 bits of milliseconds.
func checkTiming(t plan.Timing) error {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"reward_window_ms", t.RewardWindow}, {"jitter_ms", t.Jitter}, {"grace_ms", t.Grace},
		{"round_window_ms", t.RoundWindow}, {"enrolment_ms", t.Enrolment}, {"every_ms", t.Every},
	} {
		if err := checkTime(f.name, f.d, MaxTiming); err != nil {
			return err
		}
	}
	return nil
}

package wire

import (
	"fmt"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// checkAnnouncement checks everything of an announcement that can be checked without state. A final announcement carries a policy and nothing to
// report on: reference, plan, encodings, cohort, timing and analyzer key are absent.
func checkAnnouncement(a *rifflev1.Announcement) error {
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
	if err := checkPolicy(a.Policy); err != nil {
		return inside("policy.", err)
	}
	if a.Final {
		return checkFinal(a)
	}
	if err := checkTheta("reference", a.Reference, a.Policy.Dim, a.Policy.NormBound); err != nil {
		return err
	}
	if err := checkPlan(a.Plan); err != nil {
		return inside("plan.", err)
	}
	if int(a.Round) >= len(a.Plan.Rounds) {
		return field("round", "is %d, the plan has %d", a.Round, len(a.Plan.Rounds))
	}
	if err := checkEncodings(a); err != nil {
		return err
	}
	if err := checkCohort(a.Cohort); err != nil {
		return inside("cohort.", err)
	}
	if a.Timing == nil {
		return field("timing", "is missing")
	}
	if err := checkTiming(a.Timing); err != nil {
		return inside("timing.", err)
	}
	if len(a.Plan.Rounds) > 1 && a.Timing.RoundWindowMs == 0 {
		return field("timing.round_window_ms", "is 0, but the plan has %d rounds", len(a.Plan.Rounds))
	}
	if err := seal.CheckHPKEPublic(a.AnalyzerKey); err != nil {
		return field("analyzer_key", "%v", err)
	}
	return nil
}

// checkTiming keeps sums of two times within 32 bits.
func checkTiming(t *rifflev1.Timing) error {
	for _, f := range []struct {
		name string
		ms   uint32
	}{
		{"reward_window_ms", t.RewardWindowMs}, {"jitter_ms", t.JitterMs}, {"grace_ms", t.GraceMs}, {"round_window_ms", t.RoundWindowMs},
		{"enrolment_ms", t.EnrolmentMs},
	} {
		if f.ms > MaxTiming {
			return field(f.name, "is %d, at most %d", f.ms, MaxTiming)
		}
	}
	return nil
}

func checkFinal(a *rifflev1.Announcement) error {
	for _, f := range []struct {
		name    string
		present bool
	}{
		{"reference", len(a.Reference) > 0},
		{"plan", a.Plan != nil},
		{"encodings", len(a.Encodings) > 0},
		{"cohort", a.Cohort != nil},
		{"timing", a.Timing != nil},
		{"analyzer_key", len(a.AnalyzerKey) > 0},
	} {
		if f.present {
			return field(f.name, "must be absent from a final announcement")
		}
	}
	return nil
}

func checkPlan(p *rifflev1.Plan) error {
	if n := len(p.GetRounds()); n == 0 || n > MaxRounds {
		return field("rounds", "has %d entries, must have 1 to %d", n, MaxRounds)
	}
	for i, r := range p.Rounds {
		if n := len(r.GetReleases()); n == 0 || n > MaxReleases {
			return field(fmt.Sprintf("rounds[%d].releases", i), "has %d entries, must have 1 to %d", n, MaxReleases)
		}
		for j, release := range r.Releases {
			if err := checkRelease(release); err != nil {
				return inside(fmt.Sprintf("rounds[%d].releases[%d].", i, j), err)
			}
		}
	}
	if err := checkPositive("epsilon", p.Epsilon); err != nil {
		return err
	}
	if !(p.Delta > 0 && p.Delta < 1) {
		return field("delta", "is %v, must be above 0 and below 1", p.Delta)
	}
	if !(p.TailDelta > 0 && p.TailDelta <= p.Delta) {
		return field("tail_delta", "is %v, must be above 0 and at most delta, %v", p.TailDelta, p.Delta)
	}
	return nil
}

func checkRelease(r *rifflev1.PlannedRelease) error {
	if statistics[r.GetStatistic()] == "" {
		return field("statistic", "is %d, which is not known", r.GetStatistic())
	}
	if err := checkPositive("shift", r.Shift); err != nil {
		return err
	}
	if r.NoiseBits == 0 {
		return field("noise_bits", "is 0: no noise, no privacy")
	}
	if r.Bias == 0 {
		return field("bias", "is 0: no noise, no privacy")
	}
	return nil
}

// checkEncodings checks the announced round's encodings against its planned releases and the dimension, and bounds the size of a report.
func checkEncodings(a *rifflev1.Announcement) error {
	releases := a.Plan.Rounds[a.Round].Releases
	if len(a.Encodings) != len(releases) {
		return field("encodings", "has %d entries, round %d of the plan has %d releases", len(a.Encodings), a.Round, len(releases))
	}
	total := 0
	for i, e := range a.Encodings {
		path := fmt.Sprintf("encodings[%d].", i)
		encoding, err := encodingOf(e, releases[i])
		if err != nil {
			return inside(path, err)
		}
		want := int(a.Policy.Dim)
		if s := releases[i].Statistic; s != rifflev1.Statistic_STATISTIC_GRADIENT {
			want = glm.TriangleDim(want)
		}
		if len(encoding.Coordinates) != want {
			return field(path+"coordinates", "has %d entries, %v of dimension %d has %d", len(encoding.Coordinates), releases[i].Statistic, a.Policy.Dim, want)
		}
		if total += encoding.Messages(); total > plan.MaxReportMessages {
			return field("encodings", "make reports of more than %d bit messages", plan.MaxReportMessages)
		}
	}
	return nil
}

func checkCohort(c *rifflev1.Cohort) error {
	size, minimum, dishonest := c.GetSize(), c.GetMinimum(), c.GetMaxDishonest()
	if size == 0 {
		return field("size", "is 0")
	}
	if minimum == 0 || minimum > size {
		return field("minimum", "is %d, must be 1 to cohort.size, %d", minimum, size)
	}
	if dishonest >= minimum {
		return field("max_dishonest", "is %d, must be below cohort.minimum, %d: no noise is counted", dishonest, minimum)
	}
	return nil
}

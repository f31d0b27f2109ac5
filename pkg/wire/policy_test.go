package wire_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestPolicyIsCarriedExactly(t *testing.T) {
	m := announcement(t).Policy
	p := &opened(t).Policy
	want := &glm.Policy{
		Profile: glm.Practical, Epoch: 1, Family: "logistic", MaxReward: 1, Dimension: 2, Radius: 3,
		Theta: []float64{0.5, math.Copysign(0, -1)},
		Stages: []glm.Stage{
			{Theta: []float64{0.5, -0.25}, Covariance: symmetric.Packed{0.5, 0.1, 0.25}, Width: 1},
			{Theta: []float64{1, -0.5}, Covariance: symmetric.Packed{0.5, 0.1, 0.25}, Width: 1},
		},
		Scaling: &glm.Scaling{
			Stage:    glm.Stage{Theta: []float64{0.25, -0.125}, Covariance: symmetric.Packed{0.5, 0.1, 0.25}, Width: 1},
			Diameter: 6, SelfConcordance: 1, MaxWeight: 0.25,
		},
		Play: glm.PlayDesign, DesignTolerance: 0.1, Explore: 0.75,
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v\nwant %+v", p, want)
	}
	if back := wire.Message(opened(t)).(*rifflev1.Announcement).Policy; !proto.Equal(back, m) {
		t.Errorf("%v", back)
	}
}

// A curator and an optimistic policy come back as they were.
func TestCuratedPlanIsCarriedExactly(t *testing.T) {
	by := signer(t, 1)
	m := curatedAnnouncement(t)
	signed, _, err := wire.SignMessage(m, by)
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := wire.Open[plan.Announcement](signed, party(by))
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Plan{
		Epsilon: 1, Delta: 1e-6, Channel: plan.Central,
		Rounds: []plan.Round{{Releases: []plan.Release{{Statistic: statistic.Row}}}},
		Curator: &plan.Curator{Leaves: 50, ExplorerNoise: 25, OtherNoise: 2.5, ExplorerFits: 6, OtherFits: 10,
			ExplorerRho: 0.001, OtherRho: 0.0005},
	}
	if !a.Plan.Equal(want) || a.Policy.Profile != glm.Joint || a.Policy.Play != glm.PlayOptimistic ||
		!reflect.DeepEqual(a.Policy.Criterion, &glm.Criterion{Covariance: symmetric.Packed{0.5, 0.1, 0.25},
			Threshold: 0.125}) ||
		!reflect.DeepEqual(a.Policy.Optimism, &glm.Stage{Theta: []float64{1, -0.5},
			Covariance: symmetric.Packed{0.5, 0.1, 0.25}, Width: 1}) {
		t.Errorf("%+v", a)
	}
	if back := wire.Message(a).(*rifflev1.Announcement); !proto.Equal(back, m) {
		t.Errorf("%v", back)
	}
}

// Sign refuses what the wire cannot carry and what Open would refuse, and names the field.
func TestSignRefusesAnnouncementsOutOfRange(t *testing.T) {
	for name, c := range map[string]struct {
		field  string
		change func(*plan.Announcement)
	}{
		"profile":         {"policy", func(a *plan.Announcement) { a.Policy.Profile = "x" }},
		"play":            {"policy", func(a *plan.Announcement) { a.Policy.Play = "x" }},
		"epoch":           {"policy", func(a *plan.Announcement) { a.Policy.Epoch = -1 }},
		"dim":             {"policy", func(a *plan.Announcement) { a.Policy.Dimension = -1 }},
		"too many epochs": {"policy.cohorts", func(a *plan.Announcement) { a.Policy.Epoch = math.MaxUint32 + 1 }},
		"too many stages": {"policy.stages", func(a *plan.Announcement) {
			a.Policy.Stages = slices.Repeat(a.Policy.Stages[:1], wire.MaxStages+1)
		}},
		"claims of a final plan": {"plan", func(a *plan.Announcement) {
			*a = plan.Announcement{
				Deployment: deployment, Epoch: 3, Previous: digestOf(4), Policy: a.Policy, Final: true,
				Plan: plan.Plan{Epsilon: 1},
			}
		}},
		"diameter": {"policy.scaling", func(a *plan.Announcement) { a.Policy.Scaling.Diameter = 5 }},
		"theta":    {"policy.theta", func(a *plan.Announcement) { a.Policy.Theta[0] = math.NaN() }},
		"psd":      {"policy", func(a *plan.Announcement) { a.Policy.Stages[0].Covariance[0] = -1 }},
		"statistic": {"plan.rounds[0].releases[0].statistic",
			func(a *plan.Announcement) { a.Plan.Rounds[0].Releases[0].Statistic = "x" }},
		"noise bits": {"encodings[1]", func(a *plan.Announcement) { a.Encodings[1].NoiseBits-- }},
		"bias":       {"encodings[0]", func(a *plan.Announcement) { a.Encodings[0].Bias++ }},
		"half a millisecond": {"timing.jitter_ms",
			func(a *plan.Announcement) { a.Timing.Jitter += time.Millisecond / 2 }},
		"negative time": {"timing.grace_ms", func(a *plan.Announcement) { a.Timing.Grace = -time.Second }},
		"too long": {"timing.enrolment_ms",
			func(a *plan.Announcement) { a.Timing.Enrolment = (wire.MaxTiming + 1) * time.Millisecond }},
		"a final plan": {"reference", func(a *plan.Announcement) { a.Final = true }},
		"no plan":      {"plan.rounds", func(a *plan.Announcement) { a.Plan = plan.Plan{} }},
		"no cohort":    {"cohort.size", func(a *plan.Announcement) { a.Cohort = plan.Cohort{} }},
	} {
		a := opened(t)
		c.change(a)
		_, _, err := wire.Sign(a, signer(t, 1))
		var f *wire.FieldError
		if !errors.As(err, &f) || f.Field != c.field || f.Message != "announcement" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// opened is the announcement of the fixtures as Open returns it.
func opened(t testing.TB) *plan.Announcement { t.Helper(); return openedOf(t, announcement(t)) }

// openedOf is an announcement as Open returns it.
func openedOf(t testing.TB, m *rifflev1.Announcement) *plan.Announcement {
	t.Helper()
	by := signer(t, 1)
	signed, _, err := wire.SignMessage(m, by)
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := wire.Open[plan.Announcement](signed, party(by))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

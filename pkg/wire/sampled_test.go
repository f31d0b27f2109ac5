package wire_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// sampledAnnouncement is one of a policy with three draws.
func sampledAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	a.Policy.Play = rifflev1.Play_PLAY_SAMPLED
	a.Policy.Draws = []float64{0.5, -1, math.Copysign(0, -1), 2.5, 1e-300, 0.125}
	return a
}

func TestDrawsRoundTrip(t *testing.T) {
	roundTrip(t, seal.Announcement, sampledAnnouncement(t))
	if got := openedOf(t, sampledAnnouncement(t)).Policy; got.Play != glm.PlaySampled ||
		!reflect.DeepEqual(got.Draws, [][]float64{{0.5, -1}, {math.Copysign(0, -1), 2.5}, {1e-300, 0.125}}) {
		t.Errorf("%+v", got)
	}
	if got := opened(t).Policy.Draws; got != nil {
		t.Errorf("no draws became %+v", got)
	}
}

func TestDrawsOutOfRangeAreRefused(t *testing.T) {
	type a = rifflev1.Announcement
	cases := []bad[a]{
		{"policy", func(m *a) { m.Policy.Draws = nil }},
		{"policy", func(m *a) { m.Policy.Draws = m.Policy.Draws[:1] }},
		{"policy", func(m *a) { m.Policy.Draws = m.Policy.Draws[:5] }},
		{"policy", func(m *a) { m.Policy.Draws[2] = 2 }}, // norm above 3
		{"policy", func(m *a) { m.Policy.Draws = make([]float64, 2*glm.MaxDraws+1) }},
		{"policy", func(m *a) { m.Policy.Draws = make([]float64, 2*glm.MaxDraws+2) }},
		{"policy", func(m *a) { m.Policy.Draws = make([]float64, 20*glm.MaxDraws) }},
		{"policy", func(m *a) { m.Policy.Play = rifflev1.Play_PLAY_DESIGN }},
		{"policy", func(m *a) { m.Policy.Dim = 0 }},
		{"policy", func(m *a) { m.Policy.Dim = math.MaxUint32 }},
		{"policy", func(m *a) { m.Policy.Play = 99 }},
	}
	for _, x := range notFinite {
		cases = append(cases, bad[a]{"policy", func(m *a) { m.Policy.Draws[3] = x }})
	}
	refuses(t, seal.Announcement, func() *a { return sampledAnnouncement(t) }, cases)
	refuses(t, seal.Announcement, func() *a { return announcement(t) }, []bad[a]{
		{"policy", func(m *a) { m.Policy.Draws = []float64{0, 0} }},
	})
}

// Two policies that differ in one draw alone are told apart.
func TestPolicyDigestCoversTheDraws(t *testing.T) {
	p := openedOf(t, sampledAnnouncement(t)).Policy
	one, err := wire.PolicyDigest(&p)
	if err != nil {
		t.Fatal(err)
	}
	p.Draws[2][1] = math.Nextafter(p.Draws[2][1], 1)
	if other, err := wire.PolicyDigest(&p); err != nil || other == one {
		t.Errorf("%x, %x, %v", one, other, err)
	}
}

// The most draws of the largest dimension with a single-round plan of gradients and many stages stay below the limit of
// a statement: it is not the draws that make an announcement too large.
func TestTheMostDrawsFitAStatement(t *testing.T) {
	a := opened(t)
	const d = glm.MaxDimension
	identity := make(symmetric.Packed, symmetric.Dim(d))
	stage := glm.Stage{Theta: make([]float64, d), Covariance: identity}
	a.Policy = glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: d, Radius: 3,
		Theta: make([]float64, d), Stages: slices.Repeat([]glm.Stage{stage}, 3), Play: glm.PlaySampled,
		Draws: slices.Repeat([][]float64{make([]float64, d)}, glm.MaxDraws)}
	a.Reference = make([]float64, d)
	a.Round, a.Plan.Rounds = 1, a.Plan.Rounds[:2]
	a.Encodings = a.Encodings[1:]
	a.Encodings[0].Coordinates = slices.Repeat([]protocol.Coordinate{{Levels: 1}}, d)
	by := signer(t, goldenSigner)
	signed, _, err := wire.Sign(a, by)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := wire.Open[plan.Announcement](signed, party(by)); err != nil ||
		!reflect.DeepEqual(got.Policy.Draws, a.Policy.Draws) {
		t.Errorf("%v", err)
	}
}

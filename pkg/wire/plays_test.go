package wire_test

import (
	"math"
	"reflect"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// optimisticAnnouncement is one of a policy that plays by upper confidence bounds, without a criterion, of an estimate
// outside the ball.
func optimisticAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	a.Policy.Play = rifflev1.Play_PLAY_OPTIMISTIC
	a.Policy.Optimism = &rifflev1.Stage{Theta: []float64{4, -0.5}, Covariance: []float64{0.5, 0.1, 0.25}, Width: 2}
	return a
}

// spannerAnnouncement is one of a policy that eliminates by mean rewards and explores by a spanner.
func spannerAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	a.Policy.Play, a.Policy.Explore, a.Policy.DesignTolerance = rifflev1.Play_PLAY_SPANNER, 0.5, 1
	a.Policy.Stages[1].Means = true
	return a
}

// inverseGapAnnouncement is one of a policy that plays by inverse gaps.
func inverseGapAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	a.Policy.Play, a.Policy.Explore, a.Policy.Gamma = rifflev1.Play_PLAY_INVERSE_GAP, 0, 12.5
	return a
}

func TestPlaysRoundTrip(t *testing.T) {
	roundTrip(t, seal.Announcement, optimisticAnnouncement(t))
	roundTrip(t, seal.Announcement, spannerAnnouncement(t))
	roundTrip(t, seal.Announcement, inverseGapAnnouncement(t))
	if p := openedOf(t, optimisticAnnouncement(t)).Policy; p.Play != glm.PlayOptimistic || p.Criterion != nil ||
		!reflect.DeepEqual(p.Optimism, &glm.Stage{Theta: []float64{4, -0.5},
			Covariance: symmetric.Packed{0.5, 0.1, 0.25}, Width: 2}) {
		t.Errorf("%+v", p)
	}
	if p := openedOf(t, spannerAnnouncement(t)).Policy; p.Play != glm.PlaySpanner || p.Explore != 0.5 ||
		p.DesignTolerance != 1 || p.Stages[0].Means || !p.Stages[1].Means {
		t.Errorf("%+v", p)
	}
	if p := openedOf(t, inverseGapAnnouncement(t)).Policy; p.Play != glm.PlayInverseGap || p.Gamma != 12.5 {
		t.Errorf("%+v", p)
	}
}

func TestPlaysOutOfRangeAreRefused(t *testing.T) {
	type a = rifflev1.Announcement
	refuses(t, seal.Announcement, func() *a { return spannerAnnouncement(t) }, []bad[a]{
		{"policy", func(m *a) { m.Policy.DesignTolerance = 1.1 }},
		{"policy", func(m *a) { m.Policy.Explore = -0.1 }},
		{"policy", func(m *a) { m.Policy.Gamma = 1 }},
		{"policy", func(m *a) { m.Policy.Stages[1].Width = math.Inf(1) }},
	})
	cases := []bad[a]{
		{"policy", func(m *a) { m.Policy.Gamma = -1 }},
		{"policy", func(m *a) { m.Policy.Gamma = math.Copysign(0, -1) }},
		{"policy", func(m *a) { m.Policy.Gamma = 1e101 }},
		{"policy", func(m *a) { m.Policy.Play = rifflev1.Play_PLAY_SPANNER }},
		{"policy", func(m *a) { m.Policy.Play = 9 }},
	}
	for _, x := range notFinite {
		cases = append(cases, bad[a]{"policy", func(m *a) { m.Policy.Gamma = x }})
	}
	refuses(t, seal.Announcement, func() *a { return inverseGapAnnouncement(t) }, cases)
}

// Two policies that differ in how they play alone are told apart.
func TestPolicyDigestCoversThePlay(t *testing.T) {
	seen := map[[32]byte]string{}
	for name, change := range map[string]func(p *glm.Policy){
		"as it is":  func(*glm.Policy) {},
		"gamma":     func(p *glm.Policy) { p.Gamma = math.Nextafter(p.Gamma, 1) },
		"means":     func(p *glm.Policy) { p.Stages[0].Means = true },
		"tolerance": func(p *glm.Policy) { p.DesignTolerance = 1 },
	} {
		p := openedOf(t, inverseGapAnnouncement(t)).Policy
		change(&p)
		digest, err := wire.PolicyDigest(&p)
		if err != nil || seen[digest] != "" {
			t.Errorf("%s: %x is that of %q, %v", name, digest, seen[digest], err)
		}
		seen[digest] = name
	}
}

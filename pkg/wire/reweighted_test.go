package wire_test

import (
	"math"
	"slices"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// reweightedAnnouncement is one of a normalization (3 coordinates) and a reweighted gradient (2).
func reweightedAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	releases := a.Plan.Rounds[0].Releases
	releases[0].Statistic = rifflev1.Statistic_STATISTIC_NORMALIZATION
	releases[1].Statistic = rifflev1.Statistic_STATISTIC_REWEIGHTED_GRADIENT
	a.Normalization = []float64{2, -0.5, 0.125}
	return a
}

// clippedAnnouncement is one of a clipped gradient, whose reference is far outside the ball of the policy.
func clippedAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	a.Plan.Rounds[0].Releases[1].Statistic = rifflev1.Statistic_STATISTIC_CLIPPED_GRADIENT
	a.Plan.Rounds[0].Releases, a.Encodings = a.Plan.Rounds[0].Releases[1:], a.Encodings[1:]
	a.Reference = []float64{300, -40}
	return a
}

func TestReweightedAnnouncementsRoundTrip(t *testing.T) {
	roundTrip(t, seal.Announcement, reweightedAnnouncement(t))
	roundTrip(t, seal.Announcement, clippedAnnouncement(t))
	if got := openedOf(t, reweightedAnnouncement(t)).Normalization; !slices.Equal(got, []float64{2, -0.5, 0.125}) {
		t.Errorf("%v", got)
	}
}

func TestNormalizationOutOfRangeIsRefused(t *testing.T) {
	type a = rifflev1.Announcement
	cases := []bad[a]{
		{"normalization", func(m *a) { m.Normalization = nil }},
		{"normalization", func(m *a) { m.Normalization = m.Normalization[:2] }},
		{"normalization", func(m *a) { m.Normalization = append(m.Normalization, 1) }},
		{"normalization", func(m *a) { m.Normalization = make([]float64, 100_000) }},
		{"normalization", func(m *a) { m.Normalization[1] = 1.1e100 }},
		{"normalization", func(m *a) { m.Round = 1 }}, // the second round has a gradient only
		{"encodings[0].coordinates", func(m *a) {
			m.Plan.Rounds[0].Releases[0].Statistic = rifflev1.Statistic_STATISTIC_REWEIGHTED_LINEAR
		}},
		{"reference", func(m *a) { m.Reference = []float64{3, 3} }},
	}
	for _, x := range notFinite {
		cases = append(cases, bad[a]{"normalization", func(m *a) { m.Normalization[2] = x }})
	}
	refuses(t, seal.Announcement, func() *a { return reweightedAnnouncement(t) }, cases)
	refuses(t, seal.Announcement, func() *a { return announcement(t) }, []bad[a]{
		{"normalization", func(m *a) { m.Normalization = []float64{2, -0.5, 0.125} }},
		{"reference", func(m *a) { m.Reference = []float64{300, -40} }},
	})
	refuses(t, seal.Announcement, func() *a { return finalAnnouncement(t) }, []bad[a]{
		{"normalization", func(m *a) { m.Normalization = []float64{2, -0.5, 0.125} }},
	})
	refuses(t, seal.Announcement, func() *a { return clippedAnnouncement(t) }, []bad[a]{
		{"reference", func(m *a) { m.Reference[1] = math.Inf(1) }},
		{"reference", func(m *a) { m.Reference = m.Reference[:1] }},
	})
}

package wire_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// asksPanel is an announcement of a panel that asks a question, whose answer has so many coordinates.
func asksPanel(t testing.TB, kind rifflev1.Statistic, coordinates int, q *rifflev1.Question) *rifflev1.Announcement {
	a := panelAnnouncement(t)
	asks(a, kind, rifflev1.Statistic(coordinates))
	a.Question = q
	return a
}

// meanAnnouncement asks for the means of a sum of entries and of the reward.
func meanAnnouncement(t testing.TB) *rifflev1.Announcement {
	return asksPanel(t, rifflev1.Statistic_STATISTIC_MEAN, 5, &rifflev1.Question{Name: "age-2",
		Of: []*rifflev1.Quantity{{Entries: []uint32{0, 1}, Low: -0.5, High: 0.75}, {High: 1}}})
}

// histogramAnnouncement asks for a histogram of a number.
func histogramAnnouncement(t testing.TB) *rifflev1.Announcement {
	return asksPanel(t, rifflev1.Statistic_STATISTIC_HISTOGRAM, 4, &rifflev1.Question{Name: "ages",
		Of: []*rifflev1.Quantity{{Entries: []uint32{1}, Low: -1, High: 1}}, Edges: []float64{-0.25, 0.5}})
}

// fitAnnouncement asks for a regression of the reward on one number.
func fitAnnouncement(t testing.TB) *rifflev1.Announcement {
	return asksPanel(t, rifflev1.Statistic_STATISTIC_FIT, 6, &rifflev1.Question{Name: "fit",
		Of: []*rifflev1.Quantity{{Entries: []uint32{0}, Low: -1, High: 1}, {High: 1}}})
}

func TestQuestionsRoundTrip(t *testing.T) {
	for _, a := range []*rifflev1.Announcement{meanAnnouncement(t), histogramAnnouncement(t), fitAnnouncement(t)} {
		roundTrip(t, seal.Announcement, a)
	}
	want := &statistic.Question{Name: "age-2", Of: []statistic.Quantity{{Entries: []int{0, 1}, Low: -0.5, High: 0.75},
		{High: 1}}}
	if got := openedOf(t, meanAnnouncement(t)); !reflect.DeepEqual(got.Question, want) ||
		got.Plan.AskedKind() != statistic.Mean {
		t.Errorf("%+v", got.Question)
	}
	if got := openedOf(t, histogramAnnouncement(t)).Question.Edges; !slices.Equal(got, []float64{-0.25, 0.5}) {
		t.Errorf("edges %v", got)
	}
}

func TestQuestionsOutOfRangeAreRefused(t *testing.T) {
	type a = rifflev1.Announcement
	cases := []bad[a]{
		{"question", func(m *a) { m.Question = nil }},
		{"question", func(m *a) { m.Question.Name = "" }},
		{"question", func(m *a) { m.Question.Name = "Age" }},
		{"question", func(m *a) { m.Question.Of = nil }},
		{"question", func(m *a) { m.Question.Of[0].Entries = []uint32{1, 0} }},
		{"question", func(m *a) { m.Question.Of[0].Entries = []uint32{2} }},
		{"question", func(m *a) { m.Question.Of[0].Entries = []uint32{math.MaxUint32} }},
		{"question", func(m *a) { m.Question.Of[1].Low = 1 }},
		{"question", func(m *a) { m.Question.Edges = []float64{0} }},
		{"question", func(m *a) {
			m.Plan.Rounds[0].Releases = slices.Repeat(m.Plan.Rounds[0].Releases, 2)
			m.Encodings = slices.Repeat(m.Encodings, 2)
		}},
		{"question", func(m *a) {
			m.Plan.Panel, m.Plan.Decisions, m.Plan.Records, m.Plan.Period, m.Commitment = nil, 0, 0, 0, nil
		}},
		{"encodings[0].coordinates", func(m *a) { m.Question.Of = m.Question.Of[:1] }},
	}
	for _, x := range notFinite {
		cases = append(cases, bad[a]{"question", func(m *a) { m.Question.Of[0].High = x }})
	}
	refuses(t, seal.Announcement, func() *a { return meanAnnouncement(t) }, cases)
	refuses(t, seal.Announcement, func() *a { return histogramAnnouncement(t) }, []bad[a]{
		{"question", func(m *a) { m.Question.Edges[1] = -0.25 }},
		{"question", func(m *a) { m.Question.Edges = append(m.Question.Edges, 1) }},
	})
	refuses(t, seal.Announcement, func() *a { return announcement(t) }, []bad[a]{
		{"question", func(m *a) { m.Question = meanAnnouncement(t).Question }},
	})
	refuses(t, seal.Announcement, func() *a { return finalAnnouncement(t) }, []bad[a]{
		{"question", func(m *a) { m.Question = meanAnnouncement(t).Question }},
	})
}

// A question of very many quantities or entries is refused before it takes much memory.
func TestManyQuantitiesTakeLittleMemory(t *testing.T) {
	many, long := meanAnnouncement(t), meanAnnouncement(t)
	many.Question.Of = slices.Repeat(many.Question.Of[:1], 200_000)
	long.Question.Of[0].Entries = make([]uint32, 1<<20)
	id := signer(t, 1)
	for name, a := range map[string]*rifflev1.Announcement{"quantities": many, "entries": long} {
		signed := forge(t, seal.Announcement, a, id)
		allocated.ForInput(t, len(signed)/4, func() {
			if _, _, err := wire.Open[plan.Announcement](signed, party(id)); err == nil {
				t.Errorf("too many %s are accepted", name)
			}
		})
	}
}

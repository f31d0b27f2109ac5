package wire_test

import (
	"slices"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// pairsAnnouncement is one of arms and rewards in the channel local.
func pairsAnnouncement(t testing.TB) *rifflev1.Announcement {
	a := announcement(t)
	a.Plan.Channel = rifflev1.Channel_CHANNEL_LOCAL
	a.Plan.Rounds = []*rifflev1.PlannedRound{{Releases: []*rifflev1.PlannedRelease{
		{Statistic: rifflev1.Statistic_STATISTIC_PAIR, Shift: 7, NoiseBits: 500, Bias: 1 << 31}}}}
	a.Encodings = []*rifflev1.Encoding{{Scale: 3, Coordinates: []*rifflev1.Coordinate{
		{Offset: -1, Levels: 6}, {Offset: -1, Levels: 6}, {Levels: 3}}}}
	return a
}

// pairsCounts are of three reports of three numbers.
func pairsCounts() *rifflev1.Counts {
	c := counts()
	c.Releases = []*rifflev1.ReleaseCounts{{Entries: []uint32{0, 506, 3, 250, 0, 1<<16 - 1, 250, 1, 0}}}
	return c
}

func TestPairsRoundTrip(t *testing.T) {
	roundTrip(t, seal.Announcement, pairsAnnouncement(t))
	roundTrip(t, seal.Counts, pairsCounts())
	if p := openedOf(t, pairsAnnouncement(t)).Plan; p.Rounds[0].Releases[0].Statistic != statistic.Pair || !p.Pairs() {
		t.Errorf("%+v", p)
	}
	signed, _, err := wire.SignMessage(pairsCounts(), signer(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := wire.Open[wire.Counts](signed, party(signer(t, 1)))
	if err != nil || len(c.Releases) != 1 || !slices.Equal(c.Releases[0].Entries, pairsCounts().Releases[0].Entries) {
		t.Errorf("%+v, %v", c, err)
	}
}

// What a malicious analyzer can announce or sign of pairs is refused as it is read: in any channel but local, beside
// anything else, with servers' noise, several to a report, or of more people than counts can hold.
func TestPairsOutOfRangeAreRefused(t *testing.T) {
	type a = rifflev1.Announcement
	cases := []bad[a]{
		{"plan", func(m *a) { m.Cohort.Size = plan.MaxEntries/3 + 1 }},
		{"plan", func(m *a) { // several decisions in a report
			m.Plan.Panel = &rifflev1.Panel{Registered: 5000}
			m.Plan.Decisions, m.Plan.Records, m.Commitment = 2, 1, digestOf(11)
		}},
		{"plan", func(m *a) {
			m.Plan.Rounds = append(m.Plan.Rounds, announcement(t).Plan.Rounds[1])
		}},
		{"plan", func(m *a) {
			m.Plan.Rounds[0].Releases = append(m.Plan.Rounds[0].Releases, m.Plan.Rounds[0].Releases[0])
			m.Encodings = append(m.Encodings, m.Encodings[0])
		}},
		{"encodings[0].coordinates", func(m *a) { m.Encodings[0].Coordinates = m.Encodings[0].Coordinates[:2] }},
	}
	for _, c := range []rifflev1.Channel{rifflev1.Channel_CHANNEL_SHUFFLE, rifflev1.Channel_CHANNEL_SHARES} {
		cases = append(cases, bad[a]{"plan", func(m *a) { m.Plan.Channel = c }})
	}
	cases = append(cases, bad[a]{"plan", func(m *a) {
		m.Plan.Channel = rifflev1.Channel_CHANNEL_CENTRAL
		m.Plan.Rounds[0].Releases[0].NoiseBits, m.Plan.Rounds[0].Releases[0].AnalyzerNoise = 0, 500
	}})
	refuses(t, seal.Announcement, func() *a { return pairsAnnouncement(t) }, cases)
	type c = rifflev1.Counts
	refuses(t, seal.Counts, pairsCounts, []bad[c]{
		{"releases[0].entries", func(x *c) { x.Releases[0].Ones = []uint64{1} }},
		{"releases[0].curated", func(x *c) { x.Releases[0].Curated = []int64{1} }},
		{"releases[0].entries", func(x *c) { x.Releases = append(x.Releases, x.Releases[0]) }},
		{"releases[0].entries[1]", func(x *c) { x.Releases[0].Entries[1] = 1 << 16 }},
		{"releases[0].entries", func(x *c) { x.Releases[0].Entries = make([]uint32, wire.MaxEntries+1) }},
		{"releases[0].ones", func(x *c) { x.Releases[0].Entries = nil }},
	})
}

// The most that counts may hold still fits into a statement.
func TestTheMostEntriesFitIntoAStatement(t *testing.T) {
	m := pairsCounts()
	m.Releases[0].Entries = slices.Repeat([]uint32{1<<16 - 1}, wire.MaxEntries)
	signed, _, err := wire.SignMessage(m, signer(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := wire.Open[wire.Counts](signed, party(signer(t, 1))); err != nil {
		t.Errorf("%d bytes: %v", len(signed), err)
	}
}

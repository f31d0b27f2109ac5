package envelope

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// newPairs is a round of pairs in two dimensions, in the given channel.
func newPairs(t *testing.T, c plan.Channel) *table {
	t.Helper()
	x := newTable(t, c)
	release := x.round.Plan.Rounds[0].Releases[0]
	release.Statistic = statistic.Pair
	x.round.Plan.Rounds[0].Releases = []plan.Release{release}
	x.round.Encodings = []protocol.Encoding{{Scale: 4, NoiseBits: release.NoiseBits, Bias: release.Bias,
		Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 8}, {Offset: -1, Levels: 8}, {Offset: -1, Levels: 8}}}}
	return x
}

// pair is the envelope of a device that played this arm of two.
func (x *table) pair(number uint32, arm, reward float64) []byte {
	x.t.Helper()
	d, err := envelope.NewDevice(x.round.Announcement, x.round.Digest)
	x.must(err)
	by := x.sender(x.host, number, 1000, x.registrar)
	b, err := d.Append(nil, by, [][]float64{{arm, -arm, reward}}, rand.NewChaCha8([32]byte{byte(number)}))
	x.must(err)
	return b
}

// opened are the entries of envelopes, one list for each.
func (x *table) opened(envelopes [][]byte) (all [][]uint32) {
	x.t.Helper()
	opener, err := envelope.NewOpener(x.round.Announcement, x.round.Digest, x.round.Key, x.Verifier)
	x.must(err)
	for _, b := range envelopes {
		entries, _, err := opener.Open(nil, b)
		x.must(err)
		all = append(all, entries)
	}
	return all
}

// Counts of pairs are the entries of every device that is counted, once each, in an order that is the same in whatever
// order the envelopes came: it says nothing about who sent which. Every process comes to the same.
func TestPairsAreListedInAnOrderOfTheirOwn(t *testing.T) {
	t.Parallel()
	x := newPairs(t, plan.Local)
	var envelopes [][]byte
	for i := range people {
		envelopes = append(envelopes, x.pair(uint32(i), float64(i%3)/4, float64(i%2)))
	}
	want := x.opened(envelopes)
	slices.SortFunc(want, slices.Compare[[]uint32])
	for range 2 {
		counts, err := x.count(x.cut(envelopes))
		x.must(err)
		if len(counts) != 1 || counts[0].Ones != nil || !slices.Equal(counts[0].Entries, slices.Concat(want...)) {
			t.Fatalf("%+v, want %v", counts, want)
		}
		slices.Reverse(envelopes)
		x.Counting = x.process()
	}
	if x.Participants.Devices(1) != people {
		t.Errorf("%d devices are remembered", x.Participants.Devices(1))
	}
}

// An envelope that is refused is left out of pairs, where nothing is summed; with more than the plan counts as
// dishonest the round is rejected.
func TestRefusedPairsAreLeftOut(t *testing.T) {
	t.Parallel()
	for bad := 1; bad <= 2; bad++ {
		x := newPairs(t, plan.Local)
		var envelopes [][]byte
		for i := range people {
			envelopes = append(envelopes, x.pair(uint32(i), 0.5, 1))
		}
		want := envelope.Each(x.opened(envelopes))
		for i := range bad { // a device's second envelope
			envelopes = append(envelopes, x.pair(uint32(i), -0.5, -1))
		}
		counts, err := x.count(x.cut(envelopes))
		switch {
		case bad == 2:
			if !errors.Is(err, chunks.Rejected) || counts != nil {
				t.Errorf("two devices with two envelopes each: %v, %v", counts, err)
			}
		case err != nil || !slices.Equal(counts[0].Entries, want):
			t.Errorf("%v, %v, want %v", counts, err, want)
		case x.refused(Repeated) != 1:
			t.Errorf("account %+v", x.Messages.Balance())
		}
	}
}

// A round of central that says pairs, which no announcement can, gives out sums with noise and no entry of anybody.
func TestPairsDoNotLeaveCentral(t *testing.T) {
	t.Parallel()
	x := newPairs(t, plan.Central)
	var envelopes [][]byte
	for i := range people {
		envelopes = append(envelopes, x.pair(uint32(i), 0.5, 1))
	}
	counts, err := x.count(x.cut(envelopes))
	x.must(err)
	if len(counts) != 1 || counts[0].Entries != nil || len(counts[0].Ones) != 3 {
		t.Errorf("%+v", counts)
	}
	exact := make([]uint64, 3)
	for _, entries := range x.opened(envelopes) {
		for i, e := range entries {
			exact[i] += uint64(e)
		}
	}
	if slices.Equal(counts[0].Ones, exact) {
		t.Error("the sums are exact")
	}
}

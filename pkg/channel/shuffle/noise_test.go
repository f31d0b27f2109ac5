package shuffle

import (
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// noisy is an announcement whose shuffler adds so many fair bits to each coordinate, the opener of its messages, and
// its digest.
func noisy(t *testing.T, coordinates int, bits uint64) (*plan.Announcement, *seal.BitOpener, [32]byte) {
	t.Helper()
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	digest := [32]byte{1}
	release := plan.Release{ShufflerNoise: bits, Bias: protocol.BiasHalf}
	e := protocol.Encoding{Scale: 1, Coordinates: make([]protocol.Coordinate, coordinates), Bias: release.Bias}
	a := &plan.Announcement{
		AnalyzerKey: key.Public(), Encodings: []protocol.Encoding{e},
		Plan: plan.Plan{Channel: plan.Shuffle,
			Rounds: []plan.Round{{Releases: []plan.Release{release}}}},
	}
	return a, seal.NewBitOpener(key, digest), digest
}

// The ones among the shuffler's messages are the announced binomial, drawn for each coordinate by itself: the very ones
// that the source gives, with the binomial's mean and variance. Noise of the right mean and half the variance, or that
// is its mean everywhere, would pass every other check of the channel.
func TestTheShufflersNoiseIsTheWholeBinomial(t *testing.T) {
	t.Parallel()
	const coordinates, bits = 200, 16
	a, opener, digest := noisy(t, coordinates, bits)
	seed := [32]byte{7}
	messages, err := AppendNoise(t.Context(), nil, a, digest, rand.NewChaCha8(seed))
	if err != nil {
		t.Fatal(err)
	}
	ones := make([]float64, coordinates)
	for rest := messages; len(rest) > 0; rest = rest[seal.BitSize:] {
		_, coordinate, one, err := opener.Open(rest[:seal.BitSize])
		if err != nil {
			t.Fatal(err)
		}
		if one {
			ones[coordinate]++
		}
	}
	src := rand.NewChaCha8(seed)
	var sum, squares float64
	for j, n := range ones {
		if want := protocol.Binomial(bits, protocol.BiasHalf, src); n != float64(want) {
			t.Fatalf("coordinate %d has %v ones, the source gives %d", j, n, want)
		}
		sum += n
		squares += (n - bits/2) * (n - bits/2)
	}
	// 200 draws of variance 4: the mean is off by more than 0.7 (five deviations), or the mean square by a third (more
	// than three), for hardly any seed, and not for this one.
	if mean, square := sum/coordinates, squares/coordinates; mean < 7.3 || mean > 8.7 || square < 2.7 || square > 5.3 {
		t.Errorf("mean %v and mean square %v about 8, want 8 and 4", mean, square)
	}
	a.Plan.Channel = plan.Central
	if none, err := AppendNoise(t.Context(), nil, a, digest, src); err != nil || len(none) != 0 {
		t.Errorf("in another channel %d bytes of noise, %v", len(none), err)
	}
}

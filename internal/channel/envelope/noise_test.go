package envelope

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What the analyzer adds to the exact sums of central is the announced binomial, drawn for each coordinate by itself:
// the very number that the source gives, with the binomial's mean and variance. Noise of the right mean and half the
// variance is not noticed in any one count.
func TestTheAnalyzersNoiseIsTheWholeBinomial(t *testing.T) {
	t.Parallel()
	const coordinates, bits, exact = 400, 1600, 1000
	release := plan.Release{AnalyzerNoise: bits, Bias: protocol.BiasHalf}
	of := &channel.Round{Announcement: &plan.Announcement{
		Encodings: []protocol.Encoding{{Coordinates: make([]protocol.Coordinate, coordinates), Bias: release.Bias}},
		Plan: plan.Plan{
			Channel: plan.Central, Rounds: []plan.Round{{Releases: []plan.Release{release}}},
		},
	}}
	seed := [32]byte{3}
	c := &Counting{Disk: channel.Folder(t.TempDir()), Source: rand.NewChaCha8(seed)}
	sums := []wire.ReleaseCounts{{Ones: make([]uint64, coordinates)}}
	for j := range sums[0].Ones {
		sums[0].Ones[j] = exact
	}
	noised, err := c.addNoise(of, &wire.Manifest{Reports: 10, ChunksDigest: make([]byte, 32)}, sums)
	if err != nil {
		t.Fatal(err)
	}
	src := rand.NewChaCha8(seed)
	var sum, squares float64
	for j, n := range noised[0].Ones {
		if want := exact + protocol.Binomial(bits, release.Bias, src); n != want {
			t.Fatalf("coordinate %d is %d, the source gives %d", j, n, want)
		}
		d := float64(n) - exact - bits/2
		sum += d
		squares += d * d
	}
	// 400 draws of variance 400: the mean is off by more than five (five deviations), or the mean square by a third
	// (more than four), for hardly any seed, and not for this one.
	if mean, square := sum/coordinates, squares/coordinates; mean < -5 || mean > 5 || square < 267 || square > 533 {
		t.Errorf("noise of mean %v and mean square %v, want 0 and 400", mean, square)
	}
}

// A round of central whose plan names no noise of the analyzer for one of its releases has no counts, wherever such a
// plan came from: exact sums leave under no announcement, and nothing of them is stored.
func TestExactSumsNeverLeave(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	noised, none := plan.Release{AnalyzerNoise: 64, Bias: protocol.BiasHalf}, plan.Release{Bias: protocol.BiasHalf}
	of := &channel.Round{Announcement: &plan.Announcement{
		Encodings: make([]protocol.Encoding, 2),
		Plan: plan.Plan{
			Channel: plan.Central, Rounds: []plan.Round{{Releases: []plan.Release{noised, none}}},
		},
	}}
	c := &Counting{Disk: channel.Folder(folder), Source: rand.NewChaCha8([32]byte{3})}
	sums, err := c.addNoise(of, &wire.Manifest{Reports: 10, ChunksDigest: make([]byte, 32)},
		[]wire.ReleaseCounts{{Ones: make([]uint64, 3)}, {Ones: make([]uint64, 3)}})
	if !errors.Is(err, chunks.Rejected) || sums != nil {
		t.Errorf("sums %v, error %v", sums, err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("%d files were stored, %v", len(files), err)
	}
}

// A broker whose data was set back to before the counts gets the same sums again, and for other envelopes none: two
// noises over the same sums would hide less than one.
func TestNoisedSumsOutliveTheirRound(t *testing.T) {
	t.Parallel()
	x := newTable(t, plan.Central)
	envelopes := x.envelopes(people)
	m := x.cut(envelopes)
	stored := slices.Clone(x.stored)
	first, err := x.count(m)
	x.must(err)
	x.must(x.Forget(t.Context(), 1, 0))
	x.Counting, x.stored = x.process(), stored
	x.Source = rand.NewChaCha8([32]byte{77}) // another noise than the first, if it is drawn
	again, err := x.count(m)
	x.must(err)
	for i := range first {
		if !slices.Equal(again[i].Ones, first[i].Ones) {
			t.Errorf("release %d is %v after %v", i, again[i].Ones, first[i].Ones)
		}
	}
	x.Counting = x.process()
	if _, err := x.count(x.cut(envelopes[:people-1])); !errors.Is(err, chunks.Rejected) {
		t.Errorf("for other envelopes: %v", err)
	}
}

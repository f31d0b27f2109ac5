package panel_test

import (
	"encoding/hex"
	"math"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/panel"
)

func devices(n int) []panel.Device {
	all := make([]panel.Device, n)
	for i := range all {
		all[i] = panel.Device{Host: [32]byte{byte(i % 7)}, Number: uint32(i)}
	}
	return all
}

// The bytes that clients in other languages must come to.
func TestGolden(t *testing.T) {
	contribution := make([]byte, panel.ContributionSize)
	contribution[0] = 1
	commitment := panel.Commit(contribution)
	seed := panel.NewSeed([32]byte{2}, contribution)
	rank := seed.Rank(panel.Device{Host: [32]byte{3}, Number: 4})
	root := panel.Root(devices(3))
	for _, of := range []struct {
		name, want string
		got        []byte
	}{
		{"commitment", "bfd8d8f4", commitment[:]}, {"seed", "c36f14fb", seed[:]}, {"rank", "60f79972", rank[:]},
		{"root", "3836e20a", root[:]},
	} {
		if got := hex.EncodeToString(of.got[:4]); got != of.want {
			t.Errorf("%s: %s, want %s", of.name, got, of.want)
		}
	}
	if !panel.Opens(commitment[:], contribution) || panel.Opens(commitment[:], contribution[1:]) ||
		panel.Opens(commitment[:], make([]byte, panel.ContributionSize)) {
		t.Error("a commitment opens to another contribution, or not to its own")
	}
	for _, size := range []int{0, panel.ContributionSize - 1, panel.ContributionSize + 1} {
		if c := panel.Commit(make([]byte, size)); panel.Opens(c[:], make([]byte, size)) {
			t.Errorf("a commitment to %d bytes opens", size)
		}
	}
}

func TestPanelIsAFunctionOfTheSetAndTheSeed(t *testing.T) {
	all, seed := devices(50), panel.Seed{9}
	drawn := seed.Panel(all, 20)
	if len(drawn) != 20 {
		t.Fatalf("%d devices are drawn", len(drawn))
	}
	again := slices.Clone(all)
	slices.Reverse(again)
	again = append(again, all[:10]...) // which occur twice
	if !slices.Equal(seed.Panel(again, 20), drawn) {
		t.Error("the order or a copy changed the panel")
	}
	if slices.Equal((panel.Seed{8}).Panel(all, 20), drawn) {
		t.Error("another seed draws the same panel")
	}
	if got := seed.Panel(all, 100); len(got) != 50 {
		t.Errorf("%d devices are drawn of 50", len(got))
	}
	if panel.Root(all) != panel.Root(again[:50]) || panel.Root(all) == panel.Root(all[1:]) {
		t.Error("the root is not that of the set")
	}
}

// Every device is drawn equally often. 2000 seeds: chi-square with 49 degrees of freedom above 98.3 has probability
// 4e-5. A device that is favoured by a fifth would be noticed.
func TestEveryDeviceIsAsLikely(t *testing.T) {
	all := devices(50)
	counts := map[panel.Device]int{}
	const seeds, size = 2000, 10
	for i := range seeds {
		for _, d := range (panel.Seed{byte(i), byte(i >> 8)}).Panel(all, size) {
			counts[d]++
		}
	}
	chi, mean := 0.0, float64(seeds*size)/50
	for _, d := range all {
		chi += math.Pow(float64(counts[d])-mean, 2) / (mean * (1 - float64(size)/50))
	}
	if chi*49/50 > 98.3 {
		t.Errorf("chi-square %v", chi)
	}
}

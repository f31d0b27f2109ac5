package protocol_test

import (
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Rounding many equal vectors at once has the law of rounding one after another: the number that is rounded up is
// binomial with the fraction, by chi-square. A wrong fraction by a tenth would fail.
func TestRoundTimesHasTheLawOfRound(t *testing.T) {
	e := uniform(2, -1, 1, 2.5, 0, 0)
	const times, samples = 6, 40_000
	x, src := []float64{-0.28, 5}, seeded("round times", 0) // levels 1.8, and the highest
	seen := make([]int, times+1)
	for range samples {
		ones := []uint64{10, 0}
		if err := e.RoundTimes(ones, x, times, src); err != nil {
			t.Fatal(err)
		}
		if ones[1] != times*5 {
			t.Fatalf("%d levels of a coordinate that is clamped, want %d", ones[1], times*5)
		}
		seen[ones[0]-10-times]++
	}
	expected := binomialPMF(times, 0.8)
	for k := range expected {
		expected[k] *= samples
	}
	if p := chiSquare(seen, expected); p < falseAlarm {
		t.Errorf("rounded up %v, want %v", seen, expected)
	}
	if err := e.RoundTimes(make([]uint64, 1), x, 1, src); !errors.Is(err, protocol.ErrCounts) {
		t.Errorf("too few counts: %v", err)
	}
	if err := e.RoundTimes(make([]uint64, 2), x[:1], 1, src); !errors.Is(err, protocol.ErrVector) {
		t.Errorf("too short a vector: %v", err)
	}
}

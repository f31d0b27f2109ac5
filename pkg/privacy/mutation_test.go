package privacy

import (
	"math/rand/v2"
	"testing"
)

// TestBruteForceSeesEveryBrokenStep breaks the steps of the certificate one at a time. A test suite that accepts any of
// these would also accept a wrong proof or a wrong line of code at that step.
func TestBruteForceSeesEveryBrokenStep(t *testing.T) {
	for _, m := range []struct {
		name   string
		broken sabotage
		sweep  func(*tally, sabotage, *rand.Rand)
	}{
		{"integer thresholds only", sabotage{stepwise: true}, sweepLines},
		{"lines without their rise", sabotage{noRise: true}, sweepLines},
		{"lines without their rise, whole certificate", sabotage{noRise: true}, sweepSingles},
		{"lines reach half the shift", sabotage{reach: 0.5}, sweepSingles},
		{"half the shift", sabotage{move: 0.5}, sweepSingles},
		{"one per mille less shift", sabotage{move: 0.999}, sweepSingles},
		{"no thresholds below the median", sabotage{skipLower: true}, sweepLines},
		{"no thresholds above the median", sabotage{skipUpper: true}, sweepLines},
		{"upper tail taken for a mirrored lower tail", sabotage{mirror: true}, sweepLines},
		{"twice the tail probability given up within a coordinate", sabotage{doubleTail: true}, sweepLines},
		{"no neighbouring cells", sabotage{skipAdjacent: true}, sweepLines},
		{"no stationary points", sabotage{skipInterior: true}, sweepLines},
		{"no guard at the border of the support", sabotage{noGuard: true}, sweepSingles},
		{"one coordinate forgotten", sabotage{dropOne: true}, sweepProducts},
		{"tail probability given up once instead of per coordinate", sabotage{oneTail: true}, sweepBorder},
		{"tail probability not counted", sabotage{noTail: true}, sweepSingles},
	} {
		t.Run(m.name, func(t *testing.T) {
			y := tally{stopAtFirst: true}
			m.sweep(&y, m.broken, rand.New(rand.NewPCG(3, 4)))
			if y.violation == "" {
				t.Errorf("not noticed in %d settings, %d comparisons (tightest %v)",
					y.settings, y.comparisons, y.tightest)
			}
			t.Logf("after %d settings: %s", y.settings, y.violation)
		})
	}
}

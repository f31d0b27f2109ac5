package privacy_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Promises are stated within one range, and refused outside with what to take.
func TestTargetsOutOfRangeAreRefused(t *testing.T) {
	for _, good := range [][2]float64{{1, 1e-6}, {privacy.MinEpsilon, privacy.MinDelta},
		{privacy.MaxEpsilon, privacy.MaxDelta}} {
		if err := privacy.CheckTarget(good[0], good[1]); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range [][2]float64{
		{0, 1e-6}, {-1, 1e-6}, {math.NaN(), 1e-6}, {math.Inf(1), 1e-6}, {0.99e-6, 1e-6}, {100.1, 1e-6}, {1000, 1e-6},
		{1, 0}, {1, -1e-6}, {1, math.NaN()}, {1, 0.99e-20}, {1, 1e-310}, {1, 1.001e-3}, {1, 0.4}, {1, 1},
		{1, math.Inf(1)},
	} {
		if err := privacy.CheckTarget(bad[0], bad[1]); !errors.Is(err, privacy.ErrTarget) ||
			!strings.Contains(err.Error(), "take") {
			t.Errorf("%v: %v, want a refusal that says what to take", bad, err)
		}
	}
}

// A delta above 1/people is warned of, with one to take that is not warned of.
func TestLargeDeltaIsWarnedOf(t *testing.T) {
	for _, c := range []struct {
		people int
		take   float64
	}{{1, 1e-3}, {100, 1e-3}, {101, 1e-4}, {5000, 1e-5}, {10_000, 1e-5}, {1_000_000, 1e-7}, {100_000_000, 1e-9}} {
		if take := privacy.DeltaFor(c.people); math.Abs(take/c.take-1) > 1e-12 {
			t.Errorf("%d people: take %g, want %g", c.people, take, c.take)
		}
		if w := privacy.WarnDelta(c.take, c.people); w != "" {
			t.Errorf("%d people: the delta to take is warned of: %s", c.people, w)
		}
		if w := privacy.WarnDelta(1.1/float64(c.people), c.people); !strings.Contains(w, "take ") {
			t.Errorf("%d people: warning %q", c.people, w)
		}
	}
	if w := privacy.WarnDelta(1e-3, 0); w != "" {
		t.Errorf("without people: %s", w)
	}
}

// A delta that is too large is refused for what it allows.
func TestLargeDeltaIsRefusedForWhatItAllows(t *testing.T) {
	if err := privacy.CheckDelta(0.4); err == nil || !strings.Contains(err.Error(), "shown outright") {
		t.Error(err)
	}
}

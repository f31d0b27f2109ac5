package play_test

import (
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
)

// course is a regret by period: so many periods of each value.
func course(parts ...float64) (out []float64) {
	for i := 0; i < len(parts); i += 2 {
		out = append(out, slices.Repeat([]float64{parts[i+1]}, int(parts[i]))...)
	}
	return out
}

func TestReturnByHand(t *testing.T) {
	number := func(n int) *int { return &n }
	for name, of := range map[string]struct {
		regret            []float64
		change            int
		learned, returned *int
	}{
		"twice as long":     {course(4, 0.3, 16, 0.05, 8, 0.3, 12, 0.06), 20, number(4), number(8)},
		"never back":        {course(4, 0.3, 16, 0.05, 20, 0.3), 20, number(4), nil},
		"at once":           {course(4, 0.3, 36, 0.05), 20, number(4), number(0)},
		"a moment is not":   {course(4, 0.3, 16, 0.05, 2, 0.3, 1, 0.05, 5, 0.3, 12, 0.05), 20, number(4), number(8)},
		"within a quarter":  {course(4, 0.9, 16, 0.1, 6, 0.3, 14, 0.125), 20, number(4), number(6)},
		"within a hundreth": {course(4, 0.9, 16, 0.001, 6, 0.3, 14, 0.0109), 20, number(4), number(6)},
		"not yet":           {course(4, 0.9, 16, 0.1, 6, 0.3, 14, 0.127), 20, number(4), nil},
		"nothing learned":   {course(20, 0.3, 20, 0.2), 20, nil, nil},
		"no change":         {course(4, 0.3, 16, 0.05), 0, nil, nil},
		"too early":         {course(4, 0.3, 16, 0.05), 9, nil, nil},
		"too late":          {course(4, 0.3, 16, 0.05), 18, nil, nil},
	} {
		learned, returned := play.Return(of.regret, of.change)
		for what, pair := range map[string][2]*int{"learned": {learned, of.learned},
			"returned": {returned, of.returned}} {
			got, want := pair[0], pair[1]
			if (got == nil) != (want == nil) || got != nil && *got != *want {
				t.Errorf("%s: %s after %v periods, want %v", name, what, show(got), show(want))
			}
		}
	}
}

func show(n *int) any {
	if n == nil {
		return "no"
	}
	return *n
}

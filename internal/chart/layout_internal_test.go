package chart

import (
	"math"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

// Labels moved apart keep their order, are at least a gap apart, stay where they are if nothing touches, and keep their
// mean.
func TestLabelsAreSpreadApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 8).Draw(t, "y")
		sort.Float64s(y)
		got := spread(y, 10)
		sum, apart := 0.0, true
		for i := range y {
			sum += got[i] - y[i]
			if i > 0 {
				if got[i]-got[i-1] < 10-1e-9 {
					t.Fatalf("%v -> %v: closer than 10", y, got)
				}
				apart = apart && y[i]-y[i-1] >= 10
			}
		}
		if math.Abs(sum) > 1e-9 {
			t.Fatalf("%v -> %v: the mean moved", y, got)
		}
		for i := range y {
			if apart && math.Abs(got[i]-y[i]) > 1e-9 {
				t.Fatalf("%v -> %v: moved without need", y, got)
			}
		}
	})
}

// A rounded range covers the range, both of its ends are ticks, and there are three to seven ticks with different
// labels.
func TestRoundRangesHaveRoundTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e5, 1e5).Draw(t, "low")
		width := math.Pow(10, rapid.Float64Range(-2, 12).Draw(t, "log width"))
		a, b := roundRange(low, low+width)
		slack := 1e-5 * (b - a)
		if a > low+slack || b < low+width-slack || b-a > 2.5*width {
			t.Fatalf("[%v, %v] -> [%v, %v]", low, low+width, a, b)
		}
		ticks := linearTicks(a, b)
		n := len(ticks)
		if n < 3 || n > 7 || math.Abs(ticks[0].Value-a) > slack || math.Abs(ticks[n-1].Value-b) > slack {
			t.Fatalf("[%v, %v]: ticks %+v", a, b, ticks)
		}
		seen := map[string]bool{}
		for _, k := range ticks {
			if seen[k.Label] {
				t.Fatalf("label %q twice: %+v", k.Label, ticks)
			}
			seen[k.Label] = true
		}
	})
}

// Epochs have no halves, however few there are.
func TestWholeNumbersHaveNoTicksBetween(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{{1, 3, "1 2 3"}, {2, 2, "2"}, {0.5, 2.5, "1 2"}, {1, 13, "2 4 6 8 10 12"}, {0, 15, "0 3 6 9 12 15"}} {
		var got []string
		for _, k := range wholeTicks(c.low, c.high) {
			got = append(got, k.Label)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v to %v: %v, want %s", c.low, c.high, got, c.want)
		}
	}
}

package protocol_test

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

func TestA16Theory(t *testing.T) {
	theory := protocol.Theory{Reports: 1000, Dimension: 3, Bound: 1, Epsilon: 1, Delta: 1e-6}
	e, err := theory.Encoding(6)
	if err != nil {
		t.Fatal(err)
	}
	if theory.Levels() != 64 || e.Coordinates[5] != (protocol.Coordinate{Offset: -1, Levels: 64}) || e.Scale != 32 || e.Bias != protocol.BiasQuarter {
		t.Errorf("g = %v, encoding %+v", theory.Levels(), e)
	}
	if b := float64(e.NoiseBits); math.Abs(b/3.012e8-1) > 5e-4 || b != theory.NoiseBits() {
		t.Errorf("b = %v, want 3.012e8", b)
	}
	if std := math.Sqrt(e.Variance(1000)[0]); math.Abs(std-7426.48) > 0.01 {
		t.Errorf("standard deviation of a sum %v, want 7426.48", std)
	}
	// 212 W ln(4(d^2+1)/delta)/epsilon, whatever the cohort.
	for _, n := range []int{100, 10_000, 1_000_000} {
		theory.Reports = n
		e, err := theory.Encoding(1)
		if err != nil {
			t.Fatal(err)
		}
		want := math.Sqrt(24e4*3.0/16) * 2 * math.Log(4e7)
		if std := math.Sqrt(e.Variance(uint64(n))[0]); math.Abs(std/want-1) > 1e-6 {
			t.Errorf("n = %d: standard deviation %v, want %v", n, std, want)
		}
	}
	for _, c := range []struct {
		n, d int
		want float64
	}{{1, 1, 4}, {4, 9, 9}, {100, 5, 20}, {101, 5, 21}} {
		if got := (protocol.Theory{Reports: c.n, Dimension: c.d}).Levels(); got != c.want {
			t.Errorf("n = %d, d = %d: g = %v, want %v", c.n, c.d, got, c.want)
		}
	}
}

func TestTheoryRefuses(t *testing.T) {
	good := protocol.Theory{Reports: 1000, Dimension: 3, Bound: 1, Epsilon: 1, Delta: 1e-6}
	for name, change := range map[string]func(*protocol.Theory){
		"no reports":       func(t *protocol.Theory) { t.Reports = 0 },
		"no dimension":     func(t *protocol.Theory) { t.Dimension = 0 },
		"no bound":         func(t *protocol.Theory) { t.Bound = 0 },
		"bound NaN":        func(t *protocol.Theory) { t.Bound = math.NaN() },
		"bound tiny":       func(t *protocol.Theory) { t.Bound = 1e-200 },
		"epsilon 0":        func(t *protocol.Theory) { t.Epsilon = 0 },
		"epsilon 16":       func(t *protocol.Theory) { t.Epsilon = 16 },
		"epsilon NaN":      func(t *protocol.Theory) { t.Epsilon = math.NaN() },
		"delta 0":          func(t *protocol.Theory) { t.Delta = 0 },
		"delta 1/2":        func(t *protocol.Theory) { t.Delta = 0.5 },
		"uncountable bits": func(t *protocol.Theory) { t.Epsilon = 0.1 },
		"huge dimension":   func(t *protocol.Theory) { t.Dimension = math.MaxInt64 },
	} {
		theory := good
		change(&theory)
		if e, err := theory.Encoding(3); !errors.Is(err, protocol.ErrEncoding) {
			t.Errorf("%s: %+v, %v; want ErrEncoding", name, e, err)
		}
	}
	if _, err := good.Encoding(0); !errors.Is(err, protocol.ErrEncoding) {
		t.Errorf("no coordinates: %v", err)
	}
}

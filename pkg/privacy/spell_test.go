package privacy_test

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// What people read is never below the guarantee, by however little, and less than one unit of its last digit above it.
func TestSpellRoundsUp(t *testing.T) {
	for eps, want := range map[float64]string{
		0: "0.0000", 1: "1.0000", 0.5: "0.5000", 0.07: "0.0700", 0.29: "0.2900", 1.0000000001: "1.0001",
		0.97340000005: "0.9735", 0.9733985: "0.9734", 1e-9: "1.00e-09",
		1e-6: "1.00e-06", 9.999e-7: "1.00e-06", 1.0001e-6: "1.01e-06", 9.991e-4: "1.00e-03", 1e-3: "0.0010",
		12.34561: "12.3457", math.Inf(1): "without bound", math.MaxFloat64: "without bound",
		math.NaN(): "without bound",
	} {
		if got := privacy.Spell(eps); got != want {
			t.Errorf("%v is shown as %q, want %q", eps, got, want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		eps := rapid.Float64Range(0, 1000).Draw(rt, "epsilon")
		if rapid.Bool().Draw(rt, "next to a shown number") {
			eps = math.Nextafter(math.Round(eps*1e4)/1e4,
				rapid.SampledFrom([]float64{math.Inf(-1), math.Inf(1)}).Draw(rt, "side"))
			eps = max(0, eps)
		}
		if rapid.Bool().Draw(rt, "small") {
			eps *= 1e-6
		}
		unit := 1.0001e-4
		if eps < 1e-3 {
			unit = max(eps/99, 1e-310)
		}
		shown, err := strconv.ParseFloat(privacy.Spell(eps), 64)
		if err != nil || shown < eps || shown > eps+unit {
			rt.Errorf("%v is shown as %v (%v)", eps, privacy.Spell(eps), err)
		}
	})
}

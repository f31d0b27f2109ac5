package audit_test

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/internal/audit"
	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

// The lift is written as the difference of the means as they are written, to the last digit, in any range of rewards.
func TestALiftIsShownAsTheDifferenceOfItsMeans(t *testing.T) {
	for _, of := range []struct {
		lift audit.Lift
		want [3]string
	}{
		{audit.Lift{Treated: .32349, Control: .11162, Lift: .21187}, [3]string{"0.3235", "0.1116", "+0.2119"}},
		{audit.Lift{Treated: .234, Lift: .234}, [3]string{"0.2340", "0.0000", "+0.2340"}},
		{audit.Lift{Treated: 412.26, Control: 500.04, Lift: -87.78}, [3]string{"412.3", "500.0", "-87.7"}},
		{audit.Lift{Treated: 1234567, Control: 1, Lift: 1234566}, [3]string{"1234567", "1", "+1234566"}},
		{audit.Lift{}, [3]string{"0.0000", "0.0000", "+0.0000"}},
	} {
		if treated, control, lift := of.lift.Shown(); [3]string{treated, control, lift} != of.want {
			t.Errorf("%+v is shown as %s, %s, %s", of.lift, treated, control, lift)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		scale := rapid.SampledFrom([]float64{1e-9, 1e-3, 1, 50, 1e6}).Draw(rt, "scale")
		l := audit.Lift{
			Treated: scale * rapid.Float64Range(-1, 1).Draw(rt, "policy"),
			Control: scale * rapid.Float64Range(-1, 1).Draw(rt, "control"),
		}
		l.Lift = l.Treated - l.Control
		var shown [3]float64
		a, b, c := l.Shown()
		for i, text := range []string{a, b, c} {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				rt.Fatal(err)
			}
			shown[i] = v
		}
		if off := shown[0] - shown[1] - shown[2]; off > 1e-9*scale || off < -1e-9*scale {
			rt.Fatalf("%s less %s is shown as %s", a, b, c)
		}
	})
}

package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/registry"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// The record of panels says what is protected and for how long, and its epsilon is of all epochs of a person.
func TestPanelsAreDescribed(t *testing.T) {
	for _, x := range []struct {
		period             int
		want, unit, within string
	}{
		{0, "for all of the deployment, in which a device reports at most 2 times",
			"Person-level, for people with one device",
			"the guarantee is over all epochs that one device may report in, 2 at most"},
		{5, "a budget for each period of 5 epochs, in which a device reports at most 2 times: who stays longer " +
			"spends it again, and nothing bounds all periods together",
			"Person-level within any 5 epochs in a row, and not over the deployment",
			"the guarantee is over the 2 epochs, of any 5 in a row, that one device may report in"},
	} {
		c := ledger.Living(plan.Central, 1)
		c.Terms.Period = x.period
		l, err := ledger.Make(ledger.Options{Configuration: c, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		report, err := audit.Check(t.Context(), l, audit.Options{Trust: l.Bundle})
		if err != nil || !report.OK {
			t.Fatalf("%+v, %v", report, err)
		}
		f, err := registry.Gather(t.Context(), l, l.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		d := registry.Describe(f)
		if f.Epsilon != float64(report.Epsilon) || !(f.Epsilon > float64(report.EpsilonSoFar)) ||
			d.Guarantee.Records != 2 || int(d.Guarantee.Period) != x.period ||
			!strings.Contains(d.Guarantee.Protected, "up to 3 decisions") ||
			d.Guarantee.Neighbouring != "replace all that one person did" {
			t.Errorf("%+v, the audit says %v", d.Guarantee, report.Epsilon)
		}
		loss := d.Record.Deployment.Loss
		if !strings.Contains(loss.Details, x.want) ||
			!strings.Contains(loss.UnitDetails, "everything that one person did") ||
			!strings.Contains(d.Record.Deployment.Model.ReleaseDetails, "at least 60") {
			t.Errorf("%+v", loss)
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		whole := strings.Contains(string(text), "over all of them") || strings.Contains(string(text), "over all epochs")
		if loss.Unit != x.unit || d.Guarantee.Unit != x.unit || whole != (x.period == 0) ||
			!strings.Contains(d.Record.Deployment.Model.ReleaseDetails, x.within) {
			t.Errorf("period %d: %s", x.period, text)
		}
		losses, err := registry.Distribution(f)
		if err != nil || losses.Protected != d.Guarantee.Protected {
			t.Errorf("the distribution is of %q, the guarantee of %q, %v", losses.Protected, d.Guarantee.Protected, err)
		}
	}
}

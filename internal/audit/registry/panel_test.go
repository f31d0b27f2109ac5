package registry_test

import (
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
		period int
		want   string
	}{{0, "for all of the deployment, in which a device reports at most 2 times"},
		{5, "a budget for each period of 5 epochs, in which a device reports at most 2 times"}} {
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
		if f.Epsilon != float64(report.Epsilon) || !(f.Epsilon > float64(report.EpsilonSoFar)) || d.Guarantee.Records != 2 ||
			int(d.Guarantee.Period) != x.period || !strings.Contains(d.Guarantee.Protected, "up to 3 decisions") ||
			d.Guarantee.Neighbouring != "replace all that one person did" {
			t.Errorf("%+v, the audit says %v", d.Guarantee, report.Epsilon)
		}
		loss := d.Record.Deployment.Loss
		if !strings.Contains(loss.Details, x.want) || !strings.Contains(loss.UnitDetails, "everything that one person did") ||
			!strings.Contains(d.Record.Deployment.Model.ReleaseDetails, "at least 60") {
			t.Errorf("%+v", loss)
		}
	}
}

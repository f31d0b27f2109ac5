package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/registry"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

func gather(t *testing.T, profile glm.Profile, channel plan.Channel) (*registry.Facts, *ledger.Ledger) {
	t.Helper()
	l, err := ledger.Make(ledger.Options{Configuration: ledger.Small(profile, channel, 2), Seed: 5,
		Destroyed: func(epoch uint64, _ uint32) bool { return epoch == 2 }})
	if err != nil {
		t.Fatal(err)
	}
	f, err := registry.Gather(context.Background(), l, l.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	return f, l
}

// deltaOf is what dp_accounting's PLDPmf.get_delta_for_epsilon computes: the infinite mass, and of each larger loss its
// probability times 1 - e^(epsilon-loss).
func deltaOf(d registry.Dense, epsilon float64) float64 {
	delta := d.InfinityMass
	for i, p := range d.Probs {
		if loss := float64(d.LowerLoss+i) * d.Discretization; loss > epsilon {
			delta -= p * math.Expm1(epsilon-loss)
		}
	}
	return delta
}

// In every channel the record says what the statements say, in the registry's words, and the exported distribution
// gives at least the delta of every certificate, and at most 1 % more.
func TestEveryChannelIsDescribed(t *testing.T) {
	for _, x := range []struct {
		profile glm.Profile
		channel plan.Channel
		model   string
	}{
		{glm.Practical, plan.Shuffle, "Shuffle"}, {glm.Practical, plan.Shares, "Federated"},
		{glm.Practical, plan.Local, "Local"}, {glm.Practical, plan.Central, "Central"},
		{glm.Joint, plan.Central, "Central"}, {glm.LinUCB, plan.Local, "Local"},
	} {
		t.Run(string(x.profile)+" "+string(x.channel), func(t *testing.T) {
			f, l := gather(t, x.profile, x.channel)
			report, err := audit.Check(context.Background(), l, audit.Options{Trust: l.Bundle})
			if err != nil || !report.OK {
				t.Fatalf("%+v, %v", report, err)
			}
			if f.Releases != report.Releases || f.Epsilon != float64(report.Epsilon) ||
				f.Alone != float64(report.EpsilonAlone) || !f.Finished ||
				!slices.Equal(f.Versions, []string{ledger.Version}) {
				t.Errorf("%+v, the audit says %+v", f, report)
			}
			d := registry.Describe(f)
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			r := d.Record.Deployment
			if r.Model.Name != x.model || *r.Loss.Parameters.Epsilon != f.Epsilon || r.Loss.Parameters.Delta != 1e-3 ||
				r.Variant.Name != "Approximate DP" || !strings.Contains(r.Model.Details, x.channel.RestsOn()) ||
				(d.Guarantee.Mu == nil) != (x.profile == glm.Joint) ||
				(d.Guarantee.Rho > 0) != (d.Guarantee.Epsilon > 0) {
				t.Errorf("%s", text)
			}
			fields(t, text)
			distribution, err := registry.Distribution(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range f.Guarantees {
				least := math.Sqrt(g.Mu*g.Mu + 2*g.Rho) // below, the certificate of zCDP is above any mechanism
				for epsilon := least; epsilon < 8; epsilon += 0.25 {
					got, want := deltaOf(distribution.Dense, epsilon), g.Delta(epsilon)
					if got < want || len(f.Guarantees) == 1 && got > 1.01*want {
						t.Errorf("at epsilon %v delta is %v, the certificate has %v", epsilon, got, want)
					}
				}
			}
			if !distribution.Dense.Pessimistic {
				t.Error("dp_accounting would round the other way")
			}
		})
	}
}

// openFields are the fields that no statement gives.
var openFields = []string{"basic.data_curators", "basic.intended_use", "basic.data_product_region",
	"basic.publication_date", "implementation.justification", "administrative.registry_authors"}

// fields compares the record's keys with the registry's schema, which allows no others.
func fields(t *testing.T, text []byte) {
	t.Helper()
	schema := map[string]string{
		"basic": "name data_curators description intended_use data_product_type data_product_region publication_date " +
			"data_product_sector",
		"dp_variant":   "variant_name data_domain unprotected_quantities",
		"privacy_loss": "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
		"deployment_model": "model_name model_name_details release_type release_type_details data_source_type " +
			"data_source_type_details access_type access_type_details",
		"accounting":     "post_processing composition",
		"implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
		"administrative": "sources notes registry_authors",
	}
	var d struct {
		Record struct {
			Slug       string `json:"url_slug"`
			Status     string
			Tier       int
			Deployment map[string]map[string]any
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Record.Slug != "riffle-ledger" || d.Record.Status != "Draft" || d.Record.Tier != 3 {
		t.Errorf("%+v", d.Record)
	}
	for part, of := range d.Record.Deployment {
		for field, value := range of {
			if !slices.Contains(strings.Fields(schema[part]), field) {
				t.Errorf("the registry has no %s.%s", part, field)
			}
			byOperator := "To be given by the operator: no statement of the deployment says it"
			if list, ok := value.([]any); ok && len(list) == 1 {
				value = list[0]
			}
			if (value == byOperator) != slices.Contains(openFields, part+"."+field) {
				t.Errorf("%s.%s is %v", part, field, value)
			}
			if value == "" || value == nil {
				t.Errorf("%s.%s is empty", part, field)
			}
		}
	}
	if len(d.Record.Deployment) != len(schema) {
		t.Errorf("%d of %d parts", len(d.Record.Deployment), len(schema))
	}
}

// Nothing is described that the analyzer did not sign.
func TestForgedStatementsDescribeNothing(t *testing.T) {
	_, l := gather(t, glm.Practical, plan.Local)
	other := l.Bundle
	other.Analyzer, other.Shuffler = l.Bundle.Shuffler, l.Bundle.Registrar
	if _, err := registry.Gather(context.Background(), l, other); !errors.Is(err, registry.ErrNothing) {
		t.Errorf("the keys of others: %v", err)
	}
	other = l.Bundle
	other.Shuffler = l.Bundle.Registrar
	if f, err := registry.Gather(context.Background(), l, other); err != nil || f.Releases != 0 {
		t.Errorf("releases that the shuffler did not sign: %+v, %v", f, err)
	}
	l.Logs[bus.Analyzer] = l.Logs[bus.Analyzer][1:]
	if _, err := registry.Gather(context.Background(), l, l.Bundle); !errors.Is(err, registry.ErrNothing) {
		t.Errorf("without a configuration: %v", err)
	}
}

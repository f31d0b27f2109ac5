package registry

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// ByOperator is a text of a record that follows from no statement of the deployment, so that only its operator can give
// it. In the JSON it says so.
type ByOperator struct{}

// MarshalText writes what the operator replaces.
func (ByOperator) MarshalText() ([]byte, error) {
	return []byte("To be given by the operator: no statement of the deployment says it"), nil
}

// Description is what riffle audit export --registry writes.
type Description struct {
	// Record is an entry of the Differential Privacy Deployments Registry, as its schema has it
	// (opendp/deployments-registry-data, schemas/deployments-schema.yaml, of July 2026). YAML reads JSON.
	Record Record `json:"record"`
	// Guarantee is the same guarantee in numbers that programs read.
	Guarantee Guarantee `json:"guarantee"`
}

// Guarantee is the largest of a deployment's guarantees, in several currencies, each by itself an upper bound.
type Guarantee struct {
	Unit string `json:"unit_of_privacy"`
	// Of panels: what is protected, and in how many epochs, out of so many that follow each other; 0: of the
	// deployment.
	Protected    string          `json:"protected,omitempty"`
	Records      uint32          `json:"records,omitempty"`
	Period       uint32          `json:"period,omitempty"`
	Neighbouring string          `json:"neighbouring_relation"`
	Model        plan.Channel    `json:"channel"`
	Trust        string          `json:"trust"`
	Epsilon      privacy.Epsilon `json:"epsilon"`
	Delta        float64         `json:"delta"`
	EpsilonAlone privacy.Epsilon `json:"epsilon_alone"` // if no other device is honest
	// Mu is of a Gaussian mechanism (mu-GDP) that holds after an event of probability TailDelta; null where the bound
	// is one of zCDP alone.
	Mu        *float64 `json:"mu"`
	TailDelta float64  `json:"tail_delta"`
	Rho       float64  `json:"rho_zcdp"` // mu^2/2 and what discrete Gaussian noise adds, after the same event
}

// Record is an entry of the registry.
type Record struct {
	Slug       string     `json:"url_slug"`
	Status     string     `json:"status"`
	Tier       int        `json:"tier"`
	Deployment Deployment `json:"deployment"`
}

// Deployment is the registry's description, field by field. The fields of type ByOperator are for the operator to fill
// in.
type Deployment struct {
	Basic struct {
		Name            string        `json:"name"`
		Curators        [1]ByOperator `json:"data_curators"`
		IntendedUse     ByOperator    `json:"intended_use"`
		ProductType     string        `json:"data_product_type"`
		Region          ByOperator    `json:"data_product_region"`
		Description     string        `json:"description"`
		PublicationDate ByOperator    `json:"publication_date"`
	} `json:"basic"`
	Variant struct {
		Name        string `json:"variant_name"`
		Domain      string `json:"data_domain"`
		Unprotected string `json:"unprotected_quantities"`
	} `json:"dp_variant"`
	Loss struct {
		Unit        string `json:"privacy_unit"`
		UnitDetails string `json:"privacy_unit_details"`
		Parameters  struct {
			Epsilon *float64 `json:"epsilon,omitempty"`
			Delta   float64  `json:"delta"`
			Rho     float64  `json:"rho,omitempty"`
		} `json:"privacy_parameters"`
		Details string `json:"privacy_parameters_details"`
	} `json:"privacy_loss"`
	Model struct {
		Name           string `json:"model_name"`
		Details        string `json:"model_name_details"`
		ReleaseType    string `json:"release_type"`
		ReleaseDetails string `json:"release_type_details"`
		SourceType     string `json:"data_source_type"`
		AccessType     string `json:"access_type"`
	} `json:"deployment_model"`
	Accounting struct {
		PostProcessing string `json:"post_processing"`
		Composition    string `json:"composition"`
	} `json:"accounting"`
	Implementation struct {
		Preprocessing string     `json:"preprocessing_and_hyperparameter_tuning"`
		Mechanisms    string     `json:"mechanisms"`
		Justification ByOperator `json:"justification"`
	} `json:"implementation"`
	Administrative struct {
		Sources string        `json:"sources"`
		Notes   string        `json:"notes"`
		Authors [1]ByOperator `json:"registry_authors"`
	} `json:"administrative"`
}

const (
	// unitDetails is what adjacency means here. See docs/privacy.md, section 1.
	unitDetails = "Two worlds are adjacent if one person's record is replaced by any other: the arms that the person " +
		"could be offered, the reward of each, when it comes and whether it comes. The number of people is the same " +
		"in both (replace-one adjacency). A device takes part once in a deployment, unless its owner lets it more " +
		"often. A person who takes part with k devices has the guarantee of k records: mu grows by the square root " +
		"of k, and zCDP by the factor k."
)

// unit is the registry's privacy unit, with what it leaves out.
func (f *Facts) unit() string {
	switch {
	case f.Panel == nil:
		return "Person-level, for people whose one device takes part once"
	case f.Panel.Period > 0:
		return fmt.Sprintf("Person-level within any %d epochs in a row, and not over the deployment", f.Panel.Period)
	}
	return "Person-level, for people with one device"
}

// unitDetails is what is protected in words.
func (f *Facts) unitDetails() string {
	if f.Panel == nil {
		return unitDetails
	}
	return "Two worlds are adjacent if everything that one person did is replaced by anything else: " +
		certificate.Unit(*f.Panel) + ", the arms that the person could be offered, the rewards, when they come and " +
		"whether they come. The number of people is the same in both (replace-one adjacency). A person who takes " +
		"part with k devices has the guarantee of k records: mu grows by the square root of k, and zCDP by the " +
		"factor k."
}

// period says for how long the guarantee is.
func (f *Facts) period() string {
	switch {
	case f.Panel == nil:
		return ""
	case f.Panel.Period > 0:
		return fmt.Sprintf(" It is a budget for each period of %d epochs, in which a device reports at most %d "+
			"times: who stays longer spends it again, and nothing bounds all periods together.", f.Panel.Period,
			f.Panel.PerPerson())
	}
	return fmt.Sprintf(" It is for all of the deployment, in which a device reports at most %d times.",
		f.Panel.PerPerson())
}

// span is over which epochs of panels the guarantee is.
func (f *Facts) span() string {
	if p := f.Panel; p.Period > 0 {
		return fmt.Sprintf("the %d epochs, of any %d in a row, that one device may report in", p.PerPerson(), p.Period)
	}
	return fmt.Sprintf("all epochs that one device may report in, %d at most", f.Panel.PerPerson())
}

// Describe makes the description.
func Describe(f *Facts) Description {
	return Description{Record: f.record(), Guarantee: f.guarantee()}
}

// unitProtected is what can be replaced by anything else.
func (f *Facts) unitProtected() string {
	if f.Panel == nil {
		return certificate.Unit(plan.Plan{})
	}
	return certificate.Unit(*f.Panel)
}

// guarantee is the largest of all, part by part, which is above each.
func (f *Facts) guarantee() Guarantee {
	out := Guarantee{Unit: f.unit(), Neighbouring: "replace one record", Model: f.Terms.Channel,
		Trust: "The guarantee " + f.Terms.Channel.RestsOn() + ".", Epsilon: privacy.Epsilon(f.Epsilon),
		Delta:        f.Terms.Delta,
		EpsilonAlone: privacy.Epsilon(f.Alone)}
	var worst privacy.Guarantee
	for _, g := range f.Guarantees {
		worst.Mu, worst.Rho = math.Max(worst.Mu, g.Mu), math.Max(worst.Rho, g.Rho)
		worst.TailDelta = math.Max(worst.TailDelta, g.TailDelta)
	}
	if p := f.Panel; p != nil {
		out.Neighbouring, out.Protected = "replace all that one person did", f.unitProtected()
		out.Records, out.Period = p.Records, p.Period
	}
	out.TailDelta, out.Rho = worst.TailDelta, worst.Mu*worst.Mu/2+worst.Rho
	if worst.Rho == 0 {
		out.Mu = &worst.Mu
	}
	return out
}

// model is the registry's name of a channel's model, and what it means.
func model(c plan.Channel) (name, details string) {
	switch c {
	case plan.Shuffle:
		return "Shuffle", "Devices add noise and seal each bit to the analyzer; the shuffler mixes the bits of a " +
			"whole cohort and can open none."
	case plan.Shares:
		return "Federated", "Secure aggregation: devices add noise and split their vectors into two secret shares " +
			"with a proof, one for each of two servers, which add them up and join only the sums."
	case plan.Local:
		return "Local", "Each device's own noise protects its record from everybody."
	}
	return "Central", "Devices seal their vectors, or records, to the analyzer, which adds noise to what it releases."
}

// mechanism is how noise is made, in the registry's place for it.
func (f *Facts) mechanism() string {
	if f.Learner.Profile == glm.Joint {
		return "Discrete Gaussian noise (exact sampling) on a tree of sums of outer products and on fits of the " +
			"model (Algorithm 2 of arXiv 2602.00417)."
	}
	of := "sums of Hessians, gradients or covariances (arXiv 2602.00417, Algorithms 4 to 6)"
	if f.Learner.Profile.Program() {
		of = "the statistics that each announcement names, of every person of a cohort together"
	}
	return "Binomial noise on vectors that are rounded at random to a grid: " + of +
		". Noise bits are sampled exactly, from the system's random " +
		"bits, without floating point; the certificate covers the rounding of the encoding."
}

func (f *Facts) record() Record {
	r := Record{Slug: "riffle-" + f.Deployment, Status: "Draft", Tier: 3}
	d := &r.Deployment
	d.Basic.Name, d.Basic.ProductType = f.Deployment, "Machine learning model"
	d.Basic.Description = fmt.Sprintf("A policy that says which of several options works for whom: a contextual "+
		"bandit with a %s reward model in %d dimensions, learned with Riffle (profile %s) in %d releases from sums "+
		"over cohorts of people.", cmp.Or(f.Learner.Family, family.NameLogistic), f.Learner.Dimension,
		cmp.Or(f.Learner.Profile, glm.Practical), f.Releases)
	d.Variant.Name = "Approximate DP"
	d.Variant.Domain = "One record of each person: a vector of norm at most 1 (the option that was chosen) and a " +
		"reward in a bounded range."
	d.Variant.Unprotected = "The number of reports of each cohort, and how many were refused and why."
	d.Loss.Unit, d.Loss.UnitDetails = f.unit(), f.unitDetails()
	if !math.IsInf(f.Epsilon, 0) {
		d.Loss.Parameters.Epsilon = &f.Epsilon
	}
	d.Loss.Parameters.Delta = f.Terms.Delta
	g := f.guarantee()
	if f.Learner.Profile == glm.Joint {
		d.Loss.Parameters.Rho = g.Rho
	}
	d.Loss.Details = f.details(g)
	d.Model.Name, d.Model.Details = model(f.Terms.Channel)
	d.Model.Details += " The guarantee " + f.Terms.Channel.RestsOn() + "."
	d.Model.ReleaseType, d.Model.ReleaseDetails = "Many releases", fmt.Sprintf("%d cohorts so far, with %d reports "+
		"together, as the shuffler states. A device reports in one cohort, unless its owner lets it in more: for who "+
		"is in one, what is released of others does not add up.", f.Releases, f.Reports)
	if f.Panel != nil {
		d.Variant.Domain = fmt.Sprintf("All that a person did in an epoch: up to %d decisions, each a vector of norm "+
			"at most 1 (the option that was chosen) and a reward in a bounded range.", f.Panel.PerReport())
		d.Model.ReleaseDetails = fmt.Sprintf("%d cohorts so far, with %d reports together, as the shuffler states. "+
			"Each cohort is a panel that both servers draw from a pool of at least %d registered devices, which the "+
			"shuffler names. A person can be in several: the guarantee is over "+
			"%s.", f.Releases, f.Reports, f.Panel.Panel.Registered, f.span())
	}
	if f.Learner.Profile == glm.Joint {
		d.Model.ReleaseDetails = fmt.Sprintf("%d cohorts so far, with %d reports together, as the shuffler states. A "+
			"record is used by releases after its own cohort, too; the guarantee covers all releases of the whole "+
			"run.",
			f.Releases, f.Reports)
	}
	d.Model.SourceType, d.Model.AccessType = "Dynamic", "Non-interactive"
	d.Accounting.PostProcessing = "Expected noise is taken off the counts; estimates, confidence sets and policies " +
		"are computed from the sums alone, and can be recomputed by anybody (riffle audit)."
	d.Accounting.Composition = "All releases that use one record are composed in Gaussian differential privacy: " +
		"squares of mu add, probabilities of events that are given up add. Cohorts are disjoint for people whose one " +
		"device takes part once: for these, parallel composition."
	if f.Panel != nil {
		d.Accounting.Composition = "All releases of an epoch, and " + f.span() + ", are composed in Gaussian " +
			"differential privacy, adaptively: squares of mu add, probabilities of events that are given up add, " +
			"that of a panel with more dishonest devices than are counted among them."
	}
	if f.Learner.Profile == glm.Joint {
		d.Accounting.Composition = "Zero-concentrated differential privacy: the rho of all tree nodes and fits that " +
			"use one record add."
	}
	d.Implementation.Preprocessing = "The protocol has none that reads records: noise and cohorts are planned from " +
		"the terms, before anybody reports. From what data the operator chose the terms, and a prior if there is " +
		"one, no statement says."
	d.Implementation.Mechanisms = f.mechanism()
	d.Administrative.Sources = "Signed statements in the deployment's transparency logs; arXiv 2602.00417."
	d.Administrative.Notes = "Written by riffle audit export from signed statements. Version of the analyzer's " +
		"program: " +
		strings.Join(f.Versions, ", ") + "."
	return r
}

// details says the guarantee in words.
func (f *Facts) details(g Guarantee) string {
	var b strings.Builder
	b.WriteString(f.Terms.Channel.Promise(f.Epsilon, f.Alone, f.Terms.Delta))
	if g.Mu != nil {
		fmt.Fprintf(&b, " It is a bound in Gaussian differential privacy, mu = %.6g, after an event of probability "+
			"%.3g; as zCDP, rho = %.6g after the same event.", *g.Mu, g.TailDelta, g.Rho)
		b.WriteString(f.period())
	} else {
		fmt.Fprintf(&b, " It is a bound in zCDP, rho = %.6g, after an event of probability %.3g.", g.Rho, g.TailDelta)
	}
	return b.String()
}

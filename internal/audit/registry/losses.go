package registry

import "github.com/riffle-dp/riffle/pkg/privacy"

// LossesFormat names the form of the file of Losses.
const LossesFormat = "riffle-losses-1"

// Losses is the deployment's privacy-loss distribution, in the arguments with which google/differential-privacy's
// dp_accounting makes one. It has no file format of its own:
//
//	import json, numpy
//	from dp_accounting.pld import pld_pmf, privacy_loss_distribution
//	p = json.load(open(FILE))["dense_pld_pmf"]
//	pmf = pld_pmf.DensePLDPmf(p["discretization"], p["lower_loss"], numpy.array(p["probs"]),
//	                          p["infinity_mass"], p["pessimistic_estimate"])
//	pld = privacy_loss_distribution.PrivacyLossDistribution(pmf)
//	pld.get_epsilon_for_delta(1e-6)
//
// It dominates the guarantee of what Protected says, of any person, in both orders of two records, and composes with
// other distributions of the same discretization.
type Losses struct {
	Format       string `json:"format"`
	Deployment   string `json:"deployment"`
	Protected    string `json:"protected"`
	Neighbouring string `json:"neighbouring_relation"` // dp_accounting's REPLACE_ONE
	Dense        Dense  `json:"dense_pld_pmf"`
}

// Dense is the arguments of pld_pmf.DensePLDPmf.
type Dense struct {
	Discretization float64   `json:"discretization"`
	LowerLoss      int       `json:"lower_loss"`
	Probs          []float64 `json:"probs"`
	InfinityMass   float64   `json:"infinity_mass"`
	Pessimistic    bool      `json:"pessimistic_estimate"`
}

// Distribution is the distribution of a deployment's losses. Errors: privacy.ErrLosses.
func Distribution(f *Facts) (*Losses, error) {
	l, err := privacy.DominatingLosses(f.Guarantees...)
	if err != nil {
		return nil, err
	}
	return &Losses{LossesFormat, f.Deployment, f.unitProtected(), "REPLACE_ONE",
		Dense{l.Step, l.First, l.Mass, l.Infinite, true}}, nil
}

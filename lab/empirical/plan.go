package empirical

import (
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// deployment is the name in the announcement that is played. It leaves the process nowhere.
const deployment = "empirical"

// The timing of the announcement. Nothing waits for it.
const (
	rewardWindow = time.Minute
	grace        = time.Second
)

// controlGroup is the share of decisions of the control group in the game Rewards. No release depends on it.
const controlGroup = 0.1

// announce draws up the first announcement of a deployment of the practical profile, as an analyzer with the default
// terms of the channel does, but for epsilon, delta and the size of the cohort. analyzer is the key that devices seal
// to. Errors wrap ErrOptions: the terms ask for what no plan keeps.
func announce(o Options, analyzer *seal.HPKEKey) (*plan.Announcement, error) {
	config := learner.Config{
		Dimension: o.Dimension, Horizon: o.Cohort, MinCohort: o.Cohort, Epsilon: o.Epsilon, Delta: o.Delta,
		Practical: learner.PracticalConfig{FirstCohort: o.Cohort},
	}
	if o.Game == Rewards {
		config.Practical.Control = controlGroup
	}
	learner, err := learner.New(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	terms := plan.DefaultTermsFor(o.Channel)
	terms.Epsilon, terms.Delta = o.Epsilon, o.Delta
	terms.MinCohort = min(terms.MinCohort, o.Cohort)
	step := learner.Next()
	p, err := plan.Propose(step, terms)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	a := p.Announced(step)
	a.Deployment, a.Epoch, a.AnalyzerKey = deployment, 1, analyzer.Public()
	a.Timing = plan.Timing{RewardWindow: rewardWindow, Grace: grace}
	return a, nil
}

// view is what the attacker sees of a round.
type view struct {
	// reports is how many reports are in it. The plan's drop-outs are not there, and dishonest devices are the
	// attacker's own, so that their parts in the counts can be taken off. In Local each report is seen by itself.
	reports int
	server  []uint64 // noise bits that servers add to each coordinate of a release
}

// viewOf is the view of the worst placed observer that the channel protects from (plan.Observers). The announcement is
// of announce: only the analyzer of Central adds noise, and there it is not the observer.
func viewOf(a *plan.Announcement) view {
	v := view{reports: max(1, int(a.Cohort.Minimum)-int(a.Cohort.MaxDishonest))}
	if a.Plan.Channel == plan.Local {
		v.reports = 1
	}
	for _, r := range a.Releases() {
		v.server = append(v.server, r.ServerNoise())
	}
	return v
}

// noise is the variance of the noise in each coordinate of a release, in squared levels, without rounding.
func (v view) noise(a *plan.Announcement, release int) float64 {
	e := a.Encodings[release]
	p := e.Bias.Float()
	return (float64(v.reports)*float64(e.NoiseBits) + float64(v.server[release])) * p * (1 - p)
}

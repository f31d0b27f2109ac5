package device

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Limits are what the people behind a device agree to, whatever is announced. They belong to the device, never to the
// analyzer.
type Limits struct {
	Epsilon     float64 `json:"epsilon"`      // weakest guarantee for one person, over the whole deployment
	Delta       float64 `json:"delta"`        // the delta of that guarantee
	MinCohort   int     `json:"min_cohort"`   // smallest cohort among which to hide
	Dishonest   float64 `json:"dishonest"`    // share of a cohort whose noise is not counted, whatever the plan says
	MaxReleases int     `json:"max_releases"` // releases that one record may take part in
	// largest bound on the parameter's norm; a larger one only wastes precision
	MaxNorm float64 `json:"max_norm"`
	// bit messages of one report: what the device is ready to encrypt and send
	MaxMessages int `json:"max_messages"`
	Records     int `json:"records"` // records of one person over the deployment; the ledger adds them up
}

// DefaultLimits are the limits of a device whose people chose none.
func DefaultLimits() Limits {
	return Limits{Epsilon: 1, Delta: 1e-6, MinCohort: 50, MaxReleases: 64, MaxNorm: 10, MaxMessages: 5000, Records: 1}
}

// A WeakPlan is an announced plan that the device's limits rule out. Its text is for an app's developer.
type WeakPlan struct {
	Limit  string // the limit that rules it out, by its name in JSON; "channels" for the list of channels
	Reason string
}

func (e *WeakPlan) Error() string {
	return fmt.Sprintf("the announced plan is refused (%s): %s", e.Limit, e.Reason)
}

// A Fault is a limit that no device can have.
type Fault struct {
	Limit   string // its name in JSON
	Value   any
	Problem string
}

func (f Fault) Error() string { return fmt.Sprintf("%s: %v %s", f.Limit, f.Value, f.Problem) }

// Faults lists what is wrong with the limits themselves.
func (l Limits) Faults() (all []Fault) {
	need := func(ok bool, limit string, value any, problem string) {
		if !ok {
			all = append(all, Fault{limit, value, problem})
		}
	}
	need(l.Epsilon > 0 && !math.IsInf(l.Epsilon, 0), "epsilon", l.Epsilon, "must be a finite number above 0")
	need(l.Delta > 0 && l.Delta < 1, "delta", l.Delta, "must be a number between 0 and 1")
	need(l.MinCohort >= 1, "min_cohort", l.MinCohort, "must be at least 1")
	need(l.Dishonest >= 0 && l.Dishonest < 1, "dishonest", l.Dishonest, "must be a share in [0, 1)")
	need(l.MaxReleases >= 1, "max_releases", l.MaxReleases, "must be at least 1")
	need(l.MaxNorm > 0 && !math.IsInf(l.MaxNorm, 0), "max_norm", l.MaxNorm, "must be a finite number above 0")
	need(l.MaxMessages >= 1, "max_messages", l.MaxMessages, "must be at least 1")
	need(l.Records >= 1, "records", l.Records, "must be at least 1")
	return all
}

// check computes the guarantee of an epoch's plan from first principles and compares it, and all that the guarantee
// rests on, with the limits. The announcement is in range and signed; nothing in it is believed.
func (l Limits) check(a *plan.Announcement) (privacy.Guarantee, error) {
	weak := func(limit, format string, v ...any) (privacy.Guarantee, error) {
		return privacy.NoGuarantee(), &WeakPlan{limit, fmt.Sprintf(format, v...)}
	}
	releases := 0
	for _, r := range a.Plan.Rounds {
		releases += len(r.Releases)
	}
	if n := int(a.Cohort.Minimum); n < l.MinCohort {
		return weak("min_cohort", "it releases a cohort of %d people, this device hides among no fewer than %d", n,
			l.MinCohort)
	}
	if releases > l.MaxReleases {
		return weak("max_releases", "it would use one record in %d releases, this device allows %d", releases,
			l.MaxReleases)
	}
	if s := a.Policy.Radius; !(s <= l.MaxNorm) {
		return weak("max_norm", "it bounds the parameter's norm by %g, this device by %g", s, l.MaxNorm)
	}
	dishonest := int(math.Ceil(l.Dishonest * float64(a.Cohort.Size)))
	g, err := plan.Guarantee(a, dishonest)
	if err != nil {
		return weak("epsilon", "it bounds nothing of what it reveals about one person: %v", err)
	}
	switch eps := g.Epsilon(l.Delta); {
	case math.IsInf(eps, 1):
		return weak("epsilon", "nothing bounds what it reveals about one person at delta %g, "+
			"this device's limit is epsilon %g (the plan claims %g at delta %g)",
			l.Delta, l.Epsilon, a.Plan.Epsilon, a.Plan.Delta)
	case !(eps <= l.Epsilon):
		return weak("epsilon", "what it reveals about one person is bounded only by epsilon %s at delta %g, "+
			"this device's limit is %g (the plan claims %g at delta %g)",
			privacy.Spell(eps), l.Delta, l.Epsilon, a.Plan.Epsilon, a.Plan.Delta)
	}
	return g, nil
}

// round prepares one round's statistics and encodings and refuses what the plan did not announce.
func (l Limits) round(a *plan.Announcement) (*plan.Encoder, error) {
	r, err := plan.CheckRound(a)
	if err != nil {
		return nil, &WeakPlan{"epsilon", err.Error()}
	}
	if r.Messages > l.MaxMessages {
		return nil, &WeakPlan{
			"max_messages", fmt.Sprintf("a report has %d bit messages, this device sends at most %d", r.Messages,
				l.MaxMessages),
		}
	}
	return r, nil
}

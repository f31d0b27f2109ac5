package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

type guarantee = privacy.Guarantee

// epsilonOf is a guarantee's epsilon; +Inf where there is none.
func epsilonOf(delta float64, of func() (guarantee, error)) privacy.Epsilon {
	g, err := of()
	if err != nil {
		return privacy.Epsilon(math.Inf(1))
	}
	return privacy.Epsilon(g.Epsilon(delta))
}

// delta is that of the terms; of the plan where no terms are logged.
func (r *reader) delta() float64 {
	if r.configuration != nil {
		return r.configuration.Terms.Delta
	}
	return r.first.Plan.Delta
}

// facts are what was read, for the question.
func (r *reader) facts(deployment string) (*Facts, error) {
	if r.first == nil {
		return nil, fmt.Errorf("%s: %w: there are %s", r.q, ErrNone, r.epochs())
	}
	a := r.first
	f := &Facts{
		Deployment: deployment, Channel: a.Plan.Channel, RestsOn: a.Plan.Channel.RestsOn(), Promise: a.Plan.Epsilon,
		Delta: r.delta(), Rounds: []Round{},
	}
	if r.configuration != nil {
		f.Promise, f.Terms = r.configuration.Terms.Epsilon, true
	}
	f.Plan = r.plan(f.Delta)
	r.end(f.Delta)
	if r.q.Subject == Release && r.q.Round == nil {
		if n := len(a.Plan.Rounds); n > 1 {
			return nil, fmt.Errorf("%s: %w: epoch %d has %d rounds, release %d.0 to %d.%d", r.q, ErrNone, r.q.Epoch, n,
				r.q.Epoch,
				r.q.Epoch, n-1)
		}
		r.q.Round = new(uint32)
	}
	for _, x := range r.rounds {
		if r.q.Subject == Epoch || r.q.Subject == Release && *r.q.Round == x.Round {
			f.Rounds = append(f.Rounds, *x)
		}
	}
	slices.SortFunc(f.Rounds, func(x, y Round) int { return cmp.Compare(x.Round, y.Round) })
	if r.q.Subject == Release && len(f.Rounds) == 0 {
		return nil, fmt.Errorf("%s: %w: of epoch %d there are the rounds 0 to %d", r.q, ErrNone, r.q.Epoch,
			len(r.rounds)-1)
	}
	return f, nil
}

// epochs lists what was announced.
func (r *reader) epochs() string {
	if r.last == 0 {
		return "no epochs in the analyzer's log that its key signed"
	}
	return fmt.Sprintf("the epochs 1 to %d", r.last)
}

// plan are the numbers of the epoch's plan.
func (r *reader) plan(delta float64) Planned {
	a := r.first
	p := Planned{
		Epoch: a.Epoch, Rounds: len(a.Plan.Rounds), Size: a.Cohort.Size, Minimum: a.Cohort.Minimum,
		Dishonest: a.Cohort.MaxDishonest, Messages: a.ReportMessages(), Curator: a.Plan.Curator != nil,
		Epsilon: epsilonOf(delta, func() (guarantee, error) { return plan.Guarantee(a, 0) }),
		AtSize:  epsilonOf(delta, func() (guarantee, error) { return plan.GuaranteeWith(a, a.Cohort.Size) }),
		Alone:   epsilonOf(delta, func() (guarantee, error) { return plan.Alone(a) }),
		Who:     []Observer{},
	}
	for i, round := range a.Plan.Rounds {
		at := r.encodings[uint32(i)]
		for j, one := range round.Releases {
			v := Vector{Round: i, Statistic: one.Statistic, NoiseBits: one.NoiseBits, Bias: one.Bias.Float(),
				Shuffler: one.ShufflerNoise, Analyzer: one.AnalyzerNoise}
			if at != nil && j < len(at.Encodings) {
				v.Coordinates = len(at.Encodings[j].Coordinates)
				for _, c := range at.Encodings[j].Coordinates {
					v.Levels = max(v.Levels, c.Levels)
				}
			}
			p.Releases = append(p.Releases, v)
		}
	}
	if a.Plan.Panel != nil {
		p.Panel = panelOf(a, delta)
	}
	who, _ := plan.Observers(a, 0) // nobody is listed for a plan that bounds nothing, which is a breach
	for _, o := range who {
		p.Who = append(p.Who, Observer{o.Sees, o.Honest, privacy.Epsilon(o.Together.Epsilon(delta)),
			privacy.Epsilon(o.Alone.Epsilon(delta))})
	}
	return p
}

// panelOf is how an epoch's cohort is drawn.
func panelOf(a *plan.Announcement, delta float64) *Panel {
	together, alone, err := plan.Lifetime(a)
	p := a.Plan
	return &Panel{
		Registered: p.Panel.Registered, Dishonest: p.Panel.Dishonest, Tail: p.Panel.Tail, Decisions: p.Decisions,
		Records: p.Records, Period: p.Period, Unit: certificate.Unit(p),
		Lifetime:      epsilonOf(delta, func() (guarantee, error) { return together, err }),
		LifetimeAlone: epsilonOf(delta, func() (guarantee, error) { return alone, err }),
	}
}

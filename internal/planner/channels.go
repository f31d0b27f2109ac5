package planner

import (
	"errors"
	"math"
	"strings"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Channel is what one channel would cost and give the same deployment. Its numbers are those of the cohort in which
// they are worst. Its JSON form is a stable interface: keys are added, never renamed or removed.
type Channel struct {
	Trust plan.Channel `json:"trust"`
	Whom  string       `json:"whom"`   // on whom the guarantee rests
	OptIn bool         `json:"opt_in"` // devices refuse the channel unless they are told otherwise
	// Recommended is set for the channel that the planner recommends (recommend).
	Recommended bool `json:"recommended"`
	// Epsilon is the guarantee while honest devices' noise is there, EpsilonAlone if no other device is honest; null
	// where there is none.
	Epsilon       *float64 `json:"epsilon"`
	EpsilonAlone  *float64 `json:"epsilon_alone"`
	VarianceRatio *float64 `json:"variance_ratio"` // of noise, over the central Gaussian's with the same budget
	// IdealRatio is the same over Gaussian noise in the same place with the same certificate: a curator's, each
	// server's where only servers add noise, a device's own in local. Null where bits are sent.
	IdealRatio *float64 `json:"ideal_ratio"`
	// Poison is how far one lying report can move a released sum, in standard deviations of its noise.
	Poison *float64 `json:"poison"`
	// Influence is, number by number and in the statistics' units, what a dishonest device and as many as the plan
	// expects can do in the cohort in which Poison is largest.
	Influence []plan.StatedInfluence `json:"influence,omitempty"`
	// of one person: bit messages in shuffle, reports in the others
	Messages    int    `json:"messages"`
	Bytes       int    `json:"bytes"` // of one person's sealed reports
	NoiseBits   uint32 `json:"noise_bits"`
	ServerNoise uint64 `json:"server_noise_bits"` // of all servers, once per coordinate
	// CPU time of one person's part, estimated from measurements of this machine; servers without the broker.
	DeviceCPU   float64 `json:"device_cpu_seconds_per_user"`
	ShufflerCPU float64 `json:"shuffler_cpu_seconds_per_user"`
	AnalyzerCPU float64 `json:"analyzer_cpu_seconds_per_user"`
	ServerCPU   float64 `json:"server_cpu_seconds_per_user"`

	Infeasible string `json:"infeasible,omitempty"` // why there is no plan
}

// termsFor are the terms of one channel: those asked for, where they say anything about it.
func (o Options) termsFor(c plan.Channel) plan.Terms {
	t := plan.DefaultTermsFor(c)
	t.Epsilon, t.Delta, t.DropOut, t.MinCohort = o.Epsilon, o.Delta, o.DropOut, o.MinCohort
	t.Dishonest, t.DishonestReports = o.Dishonest, o.DishonestReports
	t.Registered, t.Tail, t.Decisions, t.Records, t.Period = o.Registered, o.Tail, o.Decisions, o.Records, o.Period
	if c == o.Channel {
		t.VarianceRatio = o.VarianceRatio
	}
	if c == plan.Shuffle {
		t = o.Terms
		t.Channel = c
	}
	if c == plan.Shuffle || c == plan.Shares {
		t.ServerNoise, t.NoDeviceNoise = o.ServerNoise, o.NoDeviceNoise
	}
	return t
}

// proposed is a cohort's plan in a channel, as the analyzer would announce it.
type proposed struct {
	*plan.Proposal
	announcement *plan.Announcement
}

// propose plans a cohort in a channel. limit bounds the bit messages of one person; 0: none.
func (o Options) propose(p *plan.Proposer, step learner.Step, c plan.Channel, limit int) (*proposed, error) {
	terms := o.termsFor(c)
	if c == plan.Shuffle {
		terms.MaxMessages = limit
	}
	proposal, err := p.Propose(step, terms)
	if err != nil {
		return nil, err
	}
	return &proposed{proposal, proposal.Announced(step)}, nil
}

// channels plans all cohorts in every channel.
func (o Options) channels(proposer *plan.Proposer, tasks []task, limits []int) ([]Channel, error) {
	var all []Channel
	for _, c := range plan.Channels() {
		one := Channel{Trust: c, Whom: strings.TrimPrefix(c.RestsOn(), "rests on "), OptIn: c == plan.Central}
		for i, t := range tasks {
			o.tell("planning the channel "+string(c), i, len(tasks))
			p, err := o.propose(proposer, t.step, c, limits[i])
			if err == nil {
				err = one.worst(p, o)
			}
			if err != nil {
				one = Channel{Trust: c, Whom: one.Whom, OptIn: one.OptIn}
				explained := o.explain(err, i, t.size, 1)
				var infeasible *Infeasible
				if !errors.As(explained, &infeasible) && !errors.Is(err, privacy.ErrUncertified) &&
					!errors.Is(err, plan.ErrPairs) {
					return nil, explained
				}
				one.Infeasible = explained.Error()
				break
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// worst takes a cohort's plan into the channel's numbers.
func (c *Channel) worst(p *proposed, o Options) error {
	cost := play.CostOf(p.Proposal)
	c.Messages, c.Bytes = max(c.Messages, cost.Messages), max(c.Bytes, cost.Bytes)
	g, err := plan.Guarantee(p.announcement, 0)
	if err != nil {
		return err
	}
	first := c.Epsilon == nil
	c.Epsilon = larger(c.Epsilon, g.Epsilon(o.Delta))
	// Where a plan bounds nothing if nobody else is honest, no cohort's bound is the deployment's.
	if alone, err := plan.Alone(p.announcement); err != nil || math.IsInf(alone.Epsilon(o.Delta), 1) {
		c.EpsilonAlone = nil
	} else if first || c.EpsilonAlone != nil {
		c.EpsilonAlone = larger(c.EpsilonAlone, alone.Epsilon(o.Delta))
	}
	c.VarianceRatio = larger(c.VarianceRatio, cost.VarianceRatio)
	if poison := p.announcement.Poison(); c.Poison == nil || poison > *c.Poison {
		c.Poison = &poison
		c.Influence, _ = p.announcement.StateInfluence(p.announcement.Cohort.Size)
	}
	for i, r := range p.Plan.Rounds[0].Releases {
		c.NoiseBits, c.ServerNoise = max(c.NoiseBits, r.NoiseBits), max(c.ServerNoise, r.ServerNoise())
		if ideal := p.Details.Releases[i].IdealRatio; ideal > 0 {
			c.IdealRatio = larger(c.IdealRatio, ideal)
		}
	}
	if o.Machine == nil {
		return nil
	}
	cpu, err := o.Machine.CPU(cost.Work)
	if err != nil {
		return err
	}
	c.DeviceCPU, c.ServerCPU = math.Max(c.DeviceCPU, cpu.Device), math.Max(c.ServerCPU, cpu.Servers())
	c.ShufflerCPU, c.AnalyzerCPU = math.Max(c.ShufflerCPU, cpu.Shuffler), math.Max(c.AnalyzerCPU, cpu.Analyzer)
	return nil
}

func larger(a *float64, b float64) *float64 {
	if a != nil && *a >= b {
		return a
	}
	return &b
}

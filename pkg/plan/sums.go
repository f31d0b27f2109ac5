package plan

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Where devices send numbers, a proposal's noise variance is at most these multiples of ideal noise (IdealRatio of
// calibrate.SolvedRelease) unless Terms.VarianceRatio says otherwise: in Shares of the Gaussian noise that would be
// there if the noise that the plan counts on had to be certified, and reports that may drop out or be dishonest added
// theirs beside it; in Central of a trusted curator's Gaussian noise, in Shares without devices' noise of each
// server's, and in Local of the device's own. Noise and levels cost hardly anything there, but in Shares entries get
// wider, and one dishonest report can do more (Poison).
const (
	SharesRatio  = 1.18 // 1.25 of a trusted curator's with the default terms, where 5 % may drop out
	ServersRatio = 1.02
	DummiesRatio = 1.2 // in Shuffle without devices' noise, where the shuffler seals every bit of its own
	CentralRatio = 1.02
	LocalRatio   = 1.05
)

// In Shares without servers' noise entries get wider than SharesRatio needs, until the ratio is FineRatio, as long as a
// dishonest report moves a sum by at most FinePoison deviations of its error, and all entries of a report together have
// at most FineBits bits. An honest report can move a sum by up to 0.2 deviations at the default epsilon whatever the
// plan. A large cohort can thus afford FineRatio, and a small one stays at what SharesRatio needs: there noise bits of
// one device are many beside those of the others. FineBits are 60 bits an entry in 5 dimensions, where they do not
// matter, and 5 in 20: more dimensions are held to what SharesRatio needs, as bits are what a report costs a device.
const (
	FineRatio  = 1.02
	FinePoison = 0.5
	FineBits   = 1200
)

// MaxEntryBits is the largest width of an entry where devices send numbers: 12 bits in Shares, where each bit is shared
// and proved (a report of 50 dimensions stays below 256 kB) and proposals need 4 to 9; elsewhere 16, since numbers in a
// envelope cost nothing but their bytes.
func MaxEntryBits(c Channel) int {
	if c == Shares {
		return 12
	}
	return 16
}

// EntryBits is the width of an entry of the round's reports where devices send numbers: the bits of the largest encoded
// value of any coordinate of any release.
func (a *Announcement) EntryBits() int {
	most := 0
	for _, e := range a.Encodings {
		for j := range e.Coordinates {
			most = max(most, e.MessagesAt(j))
		}
	}
	return bits.Len(uint(most))
}

// Poison is by how many standard deviations of its error one dishonest report can move a released sum at most, over all
// coordinates of the round, with a cohort of the planned size: what a report can say beyond an honest one of the lowest
// value, at what the channel enforces (Influence).
func (a *Announcement) Poison() float64 {
	worst := 0.0
	of := a.limits()
	for i, e := range a.Encodings {
		for _, p := range poison(of, e, a.Releases()[i].ServerNoise(), a.Cohort.Size) {
			worst = max(worst, p)
		}
	}
	return worst
}

func poison(of limits, e protocol.Encoding, serverNoise uint64, reports uint32) []float64 {
	variance := e.Variance(uint64(reports), serverNoise)
	mean := float64(e.NoiseBits) * e.Bias.Float()
	out := make([]float64, len(e.Coordinates))
	for j := range out {
		out[j] = (of.entries(e, j, 1) - mean) / (math.Sqrt(variance[j]) * e.Scale)
	}
	return out
}

// sumRequest is what the solver is asked for where a step's devices send numbers, or add no noise.
func (p *Proposer) sumRequest(step learner.Step, t Terms, r calibrate.Request) (calibrate.SumRequest, error) {
	s := calibrate.SumRequest{Epsilon: r.Epsilon, Delta: r.Delta, Cohort: r.Cohort, Releases: r.Releases,
		Shares: r.Shares, ShiftOnly: true, MaxEntryBits: MaxEntryBits(t.Channel)}
	honest := r.MinCohort - r.MaxDishonest
	switch {
	case t.Channel == Central:
		s.Servers, s.Ratio = 1, CentralRatio
	case t.Channel == Local:
		s.Counted, s.Own, s.Ratio = 1, true, LocalRatio
	case t.Channel == Shares && t.NoDeviceNoise:
		s.Servers, s.Ratio = 2, ServersRatio
	case t.NoDeviceNoise: // Shuffle: levels are messages
		s.Servers, s.Ratio, s.MaxMessages, s.MaxShift = 1, DummiesRatio, r.MaxMessages, r.MaxShift
	case honest < 1:
		return s, &calibrate.Infeasible{Constraint: "MinCohort",
			Reason: fmt.Sprintf("a minimum cohort of %d with up to %d dishonest reports leaves no noise to count on",
				r.MinCohort, r.MaxDishonest),
			Remedy: "raise the minimum cohort above the dishonest reports"}
	default:
		added := float64(r.Cohort) / float64(honest)
		s.Counted, s.Fill, s.Ratio = honest, true, SharesRatio*added
		s.Finer, s.FineBits, s.MaxPoison = FineRatio*added, FineBits, FinePoison
	}
	if t.VarianceRatio > 0 {
		s.Ratio, s.Finer = t.VarianceRatio, 0
	}
	var err error
	s.Joint, err = p.spreadOf(step)
	return s, err
}

// proposeSums is Propose where devices send numbers, or add no noise.
func (p *Proposer) proposeSums(step learner.Step, t Terms, request calibrate.Request) (*Proposal, error) {
	sums, err := p.sumRequest(step, t, request)
	if err != nil {
		return nil, err
	}
	details, err := calibrate.Sums(sums)
	if err != nil {
		return nil, err
	}
	return p.proposal(step, t, request, details)
}

// addServerNoise enters the noise of servers into a proposal's plan: in Central and without devices' noise what the
// solver found, otherwise Terms.ServerNoise times the noise that the plan counts on from devices. A share of 1 thus
// leaves as much noise without the devices, and at least the person's own beside it.
func (t Terms) addServerNoise(p *Proposal) {
	honest := uint64(max(0, int(p.Cohort.Minimum)-int(p.Cohort.MaxDishonest)))
	k := 0
	for _, round := range p.Plan.Rounds {
		for i := range round.Releases {
			r := &round.Releases[i]
			n := p.Details.Releases[k].ServerNoise
			if n == 0 && t.ServerNoise > 0 {
				n = uint64(math.Ceil(t.ServerNoise * float64(honest*uint64(r.NoiseBits))))
			}
			k++
			switch p.Plan.Channel {
			case Shuffle:
				r.ShufflerNoise = n
			case Shares:
				r.ShufflerNoise, r.AnalyzerNoise = n, n
			case Central:
				r.AnalyzerNoise = n
			}
		}
	}
}

// check refuses terms that the channel cannot keep.
func (t Terms) check() error {
	if err := privacy.CheckTarget(t.Epsilon, t.Delta); err != nil {
		return fmt.Errorf("%w: %w", ErrPlan, err)
	}
	switch {
	case !slices.Contains(Channels(), t.Channel):
		return fmt.Errorf("%w: the channel %q is not known", ErrPlan, t.Channel)
	case !(t.ServerNoise >= 0 && t.ServerNoise <= 1):
		return fmt.Errorf("%w: server noise %v, want a share in [0, 1]", ErrPlan, t.ServerNoise)
	case t.Channel == Local && (t.ServerNoise > 0 || t.NoDeviceNoise):
		return fmt.Errorf("%w: in the channel local a device's own noise is all there is; leave out server noise and "+
			"keep device noise", ErrPlan)
	case t.NoDeviceNoise && t.ServerNoise != 1 && t.Channel != Central:
		return fmt.Errorf("%w: without device noise the servers' must be whole: set server noise to 1, not %v", ErrPlan,
			t.ServerNoise)
	}
	return t.checkPanel()
}

// Announced is as much of the epoch's first announcement as its guarantees depend on, for Guarantee, Alone, Observers
// and Poison before there is one.
func (p *Proposal) Announced(step learner.Step) *Announcement {
	a := &Announcement{Policy: step.Policy, Plan: p.Plan, Cohort: p.Cohort, Encodings: p.Encodings,
		Round: uint32(step.Round)}
	a.Evaluate(step)
	return a
}

// Evaluate enters what the statistics of the step's round are computed with: Reference, which is zero where none has a
// point, Normalization, Tree and Question.
func (a *Announcement) Evaluate(step learner.Step) {
	a.Reference = make([]float64, step.Policy.Dimension)
	for _, s := range step.Statistics[step.Round] {
		if s.Kind.Pointed() {
			a.Reference = s.Theta
		}
		if s.Kind.Normalized() {
			a.Normalization = s.Normalization
		}
		if s.Kind.Binned() {
			a.Tree = s.Tree
		}
		if s.Kind.Asked() {
			a.Question = s.Question
		}
	}
}

// keep holds a proposal with noise of servers, of numbers or for panels to what its terms promise, as devices will, and
// completes its details: the guarantee of the whole plan over all epochs that one device may report in, and errors with
// the servers' noise.
func (p *Proposal) keep(step learner.Step, t Terms) error {
	a := p.Announced(step)
	g, err := Guarantee(a, 0)
	if err != nil {
		return err
	}
	g = privacy.Repeat(g, a.Plan.PerPerson())
	most := t.Epsilon * (1 - privacy.Agreement)
	if eps := g.Epsilon(t.Delta); !(eps <= most) {
		return fmt.Errorf("%w: the plan gives epsilon %v instead of %v: this is a defect of the planner", ErrPlan, eps,
			t.Epsilon)
	}
	if t.ServerNoise == 1 && t.Channel != Local {
		alone, err := Alone(a)
		if err != nil {
			return err
		}
		if eps := privacy.Repeat(alone, a.Plan.PerPerson()).Epsilon(t.Delta); !(eps <= most) {
			return fmt.Errorf("%w: with the servers' noise alone the plan gives epsilon %v instead of %v: this is a "+
				"defect of the planner", ErrPlan, eps, t.Epsilon)
		}
	}
	p.Details.Guarantee, p.Details.Epsilon, p.Details.Delta = g, g.Epsilon(t.Delta), t.Delta
	k := 0
	for i, round := range p.Plan.Rounds {
		for j, r := range round.Releases {
			rel := &p.Details.Releases[k]
			k++
			variance := rel.Encoding.Variance(uint64(p.Cohort.Size), r.ServerNoise())[0]
			rel.Deviation, rel.VarianceRatio = math.Sqrt(variance), variance/(rel.Central*rel.Central)
			rel.ServerNoise = max(r.ShufflerNoise, r.AnalyzerNoise)
			of := limits{t.Channel, p.Details.EntryBits}
			if i == step.Round {
				of.entryBits = a.EntryBits()
				rel.Encoding = p.Encodings[j]
			}
			rel.Poison = slices.Max(poison(of, rel.Encoding, r.ServerNoise(), p.Cohort.Size))
		}
	}
	return nil
}

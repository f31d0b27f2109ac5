package plan

import (
	"cmp"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Terms are the analyzer's choices for every plan of a deployment. They are public.
type Terms struct {
	Channel Channel `json:"channel"` // empty: Shuffle
	Epsilon float64 `json:"epsilon"` // bound of the guarantee for all rounds of an epoch together; positive
	Delta   float64 `json:"delta"`   // of that guarantee; in (0, 1)
	// share of a cohort that may drop out without its release being destroyed, in [0, 1)
	DropOut   float64 `json:"drop_out"`
	Dishonest float64 `json:"dishonest"` // share of a cohort whose noise is not counted, in [0, 1)
	// DishonestReports is the smallest number of reports whose noise is not counted, for any size of the cohort. A
	// release survives as many malformed bit messages as these reports hold. If it is 0, one such message destroys a
	// cohort.
	DishonestReports int `json:"dishonest_reports"`
	MinCohort        int `json:"min_cohort"` // smallest minimum of a plan, in reports; 0: none
	// bit messages of one person over all releases; 0: no limit; ByCoordinates: MessagesFor
	MaxMessages int `json:"max_messages"`
	// noise variance over the central Gaussian's; 0: the least that MaxMessages allows
	VarianceRatio float64 `json:"variance_ratio"`
	// cap on a release's shift in levels: beyond it sampling error dominates; 0: none
	MaxShift  float64 `json:"max_shift"`
	NoiseBits uint32  `json:"noise_bits"` // per device and coordinate; 0: searched
	// Biases of noise bits to search; nil: DefaultBiases.
	Biases []protocol.Bias `json:"biases"`
	// ServerNoise is how much noise the servers add to each release, in [0, 1], as a share of what alone gives the
	// plan's epsilon: in Shuffle the shuffler adds it, in Shares both servers do, each of them all of it. In Central
	// the analyzer always adds all, and in Local there is none.
	ServerNoise float64 `json:"server_noise"`
	// NoDeviceNoise leaves out the devices' own noise, so that the guarantee rests on the servers' alone. It needs a
	// ServerNoise of 1, in Shuffle or Shares.
	NoDeviceNoise bool `json:"no_device_noise"`
	// Of panels; all zero where devices enrol as they arrive. Registered is the fewest registered devices that a panel
	// is drawn from, and makes the plan one of panels: then Dishonest is the share of the registered devices that may
	// be dishonest, and Tail the part of Delta, of all Records epochs together, that pays for panels with more of them
	// than are counted.
	Registered int     `json:"registered,omitempty"`
	Tail       float64 `json:"tail,omitempty"` // 0: DefaultTail
	// Decisions, Records and Period are those of Plan; 0 stands for 1 decision and 1 record.
	Decisions int `json:"decisions,omitempty"`
	Records   int `json:"records,omitempty"`
	Period    int `json:"period,omitempty"`
}

// ByCoordinates as Terms.MaxMessages makes the limit follow the number of coordinates that are released.
const ByCoordinates = -1

// The limit of ByCoordinates is LeastMessages up to 4 dimensions and MessagesPerCoordinate from 5 dimensions on.
// LeastMessages cost a person 8 kB and about 10 ms, so fewer would save nothing that matters. MessagesPerCoordinate
// keeps the noise at 0.9 to 1.4 times a trusted curator's variance up to 36 dimensions, near that of 5 dimensions, for
// the cohorts that 5000 people are divided into (riffle plan --dim D). A coordinate costs the same number of messages
// in every dimension, because cohorts grow with the dimension. In very large cohorts more messages would still help.
const (
	LeastMessages         = 150
	MessagesPerCoordinate = 7.5
)

// MessagesFor is the limit of ByCoordinates on one person's bit messages: 150 for the 20 coordinates of dimension 5.
func MessagesFor(releases []privacy.Vector) int {
	coordinates := 0
	for _, s := range releases {
		coordinates += len(s.Lower)
	}
	return min(max(LeastMessages, int(MessagesPerCoordinate*float64(coordinates))), MaxReportMessages)
}

// DefaultBiases are 1/2, which gives the most noise for a message, and 1/4, which can save a level where one bit at 1/2
// is too much.
func DefaultBiases() []protocol.Bias { return []protocol.Bias{protocol.BiasHalf, protocol.BiasQuarter} }

// Proposal is the part of an announcement that fixes privacy and cost.
type Proposal struct {
	Plan      Plan
	Cohort    Cohort
	Encodings []protocol.Encoding // of the step's round
	// Details are of all rounds, with predicted errors. Of panels, Details.Guarantee and Details.Epsilon are of all
	// epochs that one device may report in (Lifetime).
	Details calibrate.Solution
}

// A Proposer makes proposals. It keeps what takes long to compute about statistics, for later proposals with the same
// statistics. It is not safe for concurrent use. The zero value is ready.
type Proposer struct{ spreads map[string]privacy.Spread }

// Propose plans the epoch that the step begins: all rounds, with the encodings of its first one.
func Propose(step learner.Step, t Terms) (*Proposal, error) { return new(Proposer).Propose(step, t) }

// cohort is the part of Request that does not depend on what is released.
func cohort(step learner.Step, t Terms) (r calibrate.Request, err error) {
	minimum := max(t.MinCohort, int(math.Ceil(float64(step.Cohort)*(1-t.DropOut))))
	if minimum > step.Cohort {
		return r, &calibrate.Infeasible{Constraint: "MinCohort",
			Reason: fmt.Sprintf("a cohort of %d people is planned and at least %d are needed for a release",
				step.Cohort, minimum), Remedy: "lower the minimum cohort or give the deployment more people"}
	}
	dishonest := int(math.Ceil(float64(step.Cohort) * t.Dishonest))
	if t.Registered != 0 {
		dishonest = privacy.PanelDishonest(t.Dishonest, step.Cohort, t.tail())
	}
	epsilon, delta, err := t.each()
	if err != nil {
		return r, err
	}
	return calibrate.Request{
		Epsilon: epsilon, Delta: delta, Cohort: step.Cohort, MinCohort: minimum,
		MaxDishonest:  max(t.DishonestReports, dishonest),
		VarianceRatio: t.VarianceRatio, MaxMessages: t.MaxMessages, MaxShift: t.MaxShift, NoiseBits: t.NoiseBits,
		Biases: t.Biases, ShiftOnly: true,
	}, nil
}

// Request is what the planner is asked for in the step's epoch. Of panels, epsilon and delta are those of one epoch, of
// all that one device may report in.
func (p *Proposer) Request(step learner.Step, t Terms) (calibrate.Request, error) {
	r, err := cohort(step, t)
	if err != nil {
		return r, err
	}
	if r.VarianceRatio == 0 && r.MaxMessages == 0 {
		r.VarianceRatio = step.VarianceRatio
	}
	if len(r.Biases) == 0 {
		r.Biases = DefaultBiases()
	}
	for i, round := range step.Statistics {
		for j, s := range round {
			var v privacy.Vector
			if v, err = vector(s); err != nil {
				return r, err
			}
			r.Releases = append(r.Releases, v)
			r.Shares = append(r.Shares, step.Shares[i][j])
		}
	}
	if t.MaxMessages == ByCoordinates {
		r.MaxMessages = MessagesFor(r.Releases)
	}
	r.Certify, err = p.jointly(step, r)
	return r, err
}

// Propose plans the epoch that the step begins: all rounds, with the encodings of its first one.
func (p *Proposer) Propose(step learner.Step, t Terms) (*Proposal, error) {
	t.Channel = cmp.Or(t.Channel, Shuffle)
	if err := t.check(); err != nil {
		return nil, err
	}
	if err := t.fits(step); err != nil {
		return nil, err
	}
	request, err := p.Request(step, t)
	if err != nil {
		return nil, err
	}
	if t.Channel != Shuffle || t.NoDeviceNoise {
		return p.proposeSums(step, t, request)
	}
	details, err := calibrate.Bits(request)
	if err != nil {
		return nil, err
	}
	return p.proposal(step, t, request, details)
}

// proposal makes a proposal of a solution.
func (p *Proposer) proposal(
	step learner.Step, t Terms, request calibrate.Request, details calibrate.Solution,
) (*Proposal, error) {
	cohort := Cohort{Size: uint32(request.Cohort), Minimum: uint32(request.MinCohort),
		MaxDishonest: uint32(request.MaxDishonest)}
	announced := Plan{Epsilon: t.Epsilon, Delta: t.Delta, TailDelta: details.TailDelta,
		Channel: t.Channel}
	t.panel(&announced)
	k := 0
	for _, round := range step.Statistics {
		var pr Round
		for _, s := range round {
			rel := details.Releases[k]
			pr.Releases = append(pr.Releases, Release{
				Statistic: s.Kind, Shift: rel.Shift, NoiseBits: rel.Encoding.NoiseBits, Bias: rel.Encoding.Bias,
			})
			k++
		}
		announced.Rounds = append(announced.Rounds, pr)
	}
	encodings, err := Encode(announced, step)
	if err != nil {
		return nil, err
	}
	out := &Proposal{Plan: announced, Cohort: cohort, Encodings: encodings, Details: details}
	if t.Channel == Shuffle && t.ServerNoise == 0 && t.Registered == 0 {
		return out, nil
	}
	t.addServerNoise(out)
	if err := out.keep(step, t); err != nil {
		return nil, err
	}
	return out, nil
}

// Encode draws up the encodings of the step's round under an epoch's plan: the scale follows the round's public
// iterate, the shift stays as planned.
func Encode(p Plan, step learner.Step) ([]protocol.Encoding, error) {
	if step.Round >= len(p.Rounds) || len(p.Rounds[step.Round].Releases) != len(step.Statistics[step.Round]) {
		return nil, fmt.Errorf("%w: round %d of the learner is not the plan's", ErrPlan, step.Round)
	}
	var out []protocol.Encoding
	for i, s := range step.Statistics[step.Round] {
		v, err := vector(s)
		if err != nil {
			return nil, err
		}
		r := p.Rounds[step.Round].Releases[i]
		e, err := privacy.EncodingAt(v, r.Shift/v.Diameter, r.NoiseBits, r.Bias)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// vector is what the planner must know of a statistic.
func vector(s statistic.Statistic) (privacy.Vector, error) {
	b, err := s.Bounds()
	if err != nil {
		return privacy.Vector{}, err
	}
	return privacy.Vector{Name: string(s.Kind), Lower: b.Lower, Upper: b.Upper, Diameter: b.Diameter}, nil
}

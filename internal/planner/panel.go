package planner

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// PanelOptions say what a deployment of panels looks like. The fields of Terms that only panels have are in Options;
// its Dishonest is the share of the registered devices.
type PanelOptions struct {
	Options
	Size          int     // devices in a panel
	Control       float64 // share of decisions that get the default arm; 0: there is no control group
	MeanDecisions float64 // of one person in an epoch; 0: not known
}

// Panel is the plan of a deployment of panels, and what it costs. Its JSON form is a stable interface: keys are added,
// never renamed or removed.
type Panel struct {
	AskedEpsilon float64      `json:"asked_epsilon"`
	Delta        float64      `json:"delta"`
	Account      *Account     `json:"account,omitempty"` // where issuers let people in
	Channel      plan.Channel `json:"trust"`
	Dimension    int          `json:"dimension"`
	Options      int          `json:"options,omitempty"` // as in Result
	Context      int          `json:"context,omitempty"`
	Family       string       `json:"family"`
	Registered   int          `json:"registered"`    // fewest devices that a panel is drawn from
	Size         int          `json:"panel"`         // devices in a panel
	Minimum      int          `json:"minimum"`       // fewest reports that are released
	Dishonest    float64      `json:"dishonest"`     // share of the registered devices
	MaxDishonest int          `json:"max_dishonest"` // of a panel, but with probability Tail
	Tail         float64      `json:"tail"`          // of each epoch, paid by delta
	TailTotal    float64      `json:"tail_total"`    // of all epochs of one person
	Records      int          `json:"records"`       // epochs that one device may report in
	Period       int          `json:"period"`        // out of so many that follow each other; 0: of the deployment
	Decisions    int          `json:"decisions"`     // most of one report
	Control      float64      `json:"control"`
	// EpsilonEpoch is what one epoch reveals of a person at Delta, Epsilon all epochs that the person can be in, both
	// with the fewest reports; EpsilonAlone the latter if no other device is honest, null where nothing bounds it.
	EpsilonEpoch float64  `json:"epsilon_epoch"`
	Epsilon      float64  `json:"epsilon"`
	EpsilonAlone *float64 `json:"epsilon_alone"`

	MessagesPerUser int            `json:"messages_per_user"` // in one epoch
	BytesPerUser    int            `json:"bytes_per_user"`    // in one epoch
	Releases        []PanelRelease `json:"releases"`

	// MeanDecisions is what was said of people. Choices are values of Decisions beside each other, and Advised is the
	// one that tells most: 0 where it is not known how often people decide.
	MeanDecisions float64  `json:"mean_decisions,omitempty"`
	Choices       []Choice `json:"choices"`
	Advised       int      `json:"advised_decisions,omitempty"`
	// Needed is how many devices must be registered for pools that are large enough in the first epochs, or with a
	// Period for ever; EachEpoch how many more for each further one.
	Needed    int     `json:"registered_for_the_first_period"`
	EachEpoch float64 `json:"registered_for_each_further_epoch"`
}

// PanelRelease is one vector sum of an epoch.
type PanelRelease struct {
	Statistic   string  `json:"statistic"`
	Coordinates int     `json:"coordinates"`
	Deviation   float64 `json:"deviation"` // of the noise of a released sum of reports, at worst
	// PerDecision is the deviation of the noise in the mean over all decisions of a cohort that reports in full: of
	// every person as many as a report holds, or as many as people are said to make.
	PerDecision   float64 `json:"per_decision"`
	VarianceRatio float64 `json:"variance_ratio"` // over the central Gaussian's with the same budget
}

// Choice is a number of decisions of one report.
type Choice struct {
	Decisions int     `json:"decisions"`
	Kept      float64 `json:"kept"` // decisions of one person that its report holds, on average
	Lost      float64 `json:"lost"` // share of all decisions that no report holds
	// Noise is the variance of the noise in a mean over decisions, relative to a report of one decision that every
	// person makes: (Decisions/Kept)^2. Information is what a cohort tells about one direction of the parameter,
	// relative to the best choice: noise and sampling together.
	Noise       float64 `json:"noise"`
	Information float64 `json:"information"`
}

func (o PanelOptions) check() error {
	wrong := func(name string, value any, want string) error {
		return fmt.Errorf("%w: %s %v: want %s", ErrOptions, name, value, want)
	}
	switch {
	case o.Registered < 1 || o.Registered > 1<<31:
		return wrong("--registered", o.Registered, "1 to 2^31 devices")
	case o.Size < 1 || o.Size > o.Registered:
		return wrong("--panel", o.Size, fmt.Sprintf("1 to the %d registered devices", o.Registered))
	case o.Records < 1 || o.Period < 0 || o.Period > 0 && o.Period < o.Records:
		return wrong("--records and --period", fmt.Sprintf("%d and %d", o.Records, o.Period),
			"at least 1 record, and a period of 0 or no fewer epochs")
	case o.Decisions < 0 || o.Decisions > wire.MaxDecisions:
		return wrong("--decisions", o.Decisions, fmt.Sprintf("1 to %d, or 0 to have it chosen", wire.MaxDecisions))
	case !(o.Tail >= 0 && o.Tail < o.Delta):
		return wrong("--tail", o.Tail, "at least 0 and below delta")
	case !(o.Control >= 0 && o.Control < 1):
		return wrong("--control", o.Control, "a share in [0, 1)")
	case !(o.MeanDecisions >= 0 && o.MeanDecisions <= mostMean):
		return wrong("--mean-decisions", o.MeanDecisions, fmt.Sprintf("0 to %d", int(mostMean)))
	case o.Releases > 0 || o.MeanMessages > 0 || o.Bytes > 0 || o.ThetaNorm > 0 || o.HessianShare == SearchShare:
		return fmt.Errorf("%w: --registered plans panels of the learner's statistics: leave out --releases, "+
			"--mean-messages, --bytes, --theta-norm and --hessian-share search", ErrOptions)
	}
	return o.Options.check()
}

// mostMean bounds MeanDecisions.
const mostMean = 10_000.0

// RunPanel plans a panel. Its errors are *Infeasible, or wrap ErrOptions.
func RunPanel(o PanelOptions) (*Panel, error) {
	o.Cohorts = []int{o.Size}
	if err := o.check(); err != nil {
		return nil, err
	}
	chosen := o.Decisions
	o.Decisions = max(1, chosen) // the plan's noise is the same for every number
	step, err := o.asked()
	if err != nil {
		return nil, err
	}
	terms := o.termsFor(o.Channel)
	proposal, err := new(plan.Proposer).Propose(step, terms)
	if err != nil {
		return nil, o.refused(err)
	}
	r := &Panel{
		AskedEpsilon: o.Epsilon, Delta: o.Delta, Account: account(o.Credentials, o.Epsilon, o.Delta),
		Channel: proposal.Plan.Channel, Dimension: o.arms(),
		Options: o.Choices, Context: o.Context, Family: o.Family,
		Registered: o.Registered, Size: o.Size, Minimum: int(proposal.Cohort.Minimum), Dishonest: o.Dishonest,
		MaxDishonest: int(proposal.Cohort.MaxDishonest), Records: o.Records, Period: o.Period, Control: o.Control,
		MeanDecisions: o.MeanDecisions, Choices: []Choice{},
	}
	r.Tail = proposal.Plan.Panel.Tail
	r.TailTotal = r.Tail * float64(o.Records)
	if err := r.reveals(proposal.Announced(step)); err != nil {
		return nil, err
	}
	if err := o.choices(r, proposal.Details); err != nil {
		return nil, err
	}
	if r.Decisions = chosen; chosen == 0 {
		r.Decisions = max(1, r.Advised)
	}
	r.costs(proposal)
	r.needs()
	return r, nil
}

// asked is what the learner asks of the first panel.
func (o PanelOptions) asked() (learner.Step, error) {
	c := o.config()
	c.Horizon = max(o.Users, o.Size)
	c.MinCohort = min(max(1, o.MinCohort), o.Size)
	c.Practical.HessianShare = max(0, o.HessianShare)
	c.Practical.Panel, c.Practical.Decisions, c.Practical.Control = o.Size, o.Decisions, o.Control
	l, err := learner.New(c)
	if err != nil {
		return learner.Step{}, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return l.Next(), nil
}

// refused puts a refusal into the words of the options.
func (o PanelOptions) refused(err error) error {
	explained := o.explain(err, 0, o.Size, 1)
	var infeasible *Infeasible
	if errors.As(explained, &infeasible) {
		return explained
	}
	return fmt.Errorf("%w: %w", ErrOptions, err)
}

// reveals computes what the plan reveals, as devices do.
func (r *Panel) reveals(a *plan.Announcement) error {
	g, err := plan.Guarantee(a, 0)
	if err != nil {
		return err
	}
	together, alone, err := plan.Lifetime(a)
	if err != nil {
		return err
	}
	r.EpsilonEpoch, r.Epsilon = g.Epsilon(r.Delta), together.Epsilon(r.Delta)
	if eps := alone.Epsilon(r.Delta); !math.IsInf(eps, 0) && !math.IsNaN(eps) {
		r.EpsilonAlone = &eps
	}
	return nil
}

// costs enters what a person sends, and the noise in a mean over decisions.
func (r *Panel) costs(p *plan.Proposal) {
	cost := play.CostOf(p)
	r.MessagesPerUser, r.BytesPerUser = cost.Messages, cost.Bytes
	decisions := float64(r.Size * r.Decisions)
	if r.MeanDecisions > 0 {
		decisions = float64(r.Size) * kept(r.MeanDecisions, r.Decisions)
	}
	for _, rel := range p.Details.Releases {
		r.Releases = append(r.Releases, PanelRelease{
			Statistic: rel.Statistic, Coordinates: len(rel.Encoding.Coordinates), Deviation: rel.Deviation,
			PerDecision: float64(r.Decisions) * rel.Deviation / decisions, VarianceRatio: rel.VarianceRatio,
		})
	}
}

// needs is how many devices must be registered so that the pool stays large enough: at worst each panel uses up as many
// devices as it has places, over the records of one device.
func (r *Panel) needs() {
	each := float64(r.Size) / float64(r.Records)
	if r.Period > 0 {
		r.Needed = r.Registered + int(math.Ceil(each*float64(r.Period-1)))
		return
	}
	r.Needed, r.EachEpoch = r.Registered, each
}

// choices computes how much each number of decisions tells.
func (o PanelOptions) choices(r *Panel, p calibrate.Solution) error {
	if o.MeanDecisions == 0 {
		return nil
	}
	info, err := o.information()
	if err != nil {
		return err
	}
	noise, best := info.noise(p), 0.0
	tells := func(k int) float64 {
		h := info.curvature * float64(o.Size) * kept(o.MeanDecisions, k)
		return h * h / (h + noise*float64(k)*float64(k))
	}
	most := min(wire.MaxDecisions, int(math.Ceil(4*o.MeanDecisions))+4)
	for k := 1; k <= most; k++ {
		if x := tells(k); x > best {
			best, r.Advised = x, k
		}
	}
	for _, k := range shown(o.MeanDecisions, r.Advised, o.Decisions, most) {
		mean := kept(o.MeanDecisions, k)
		r.Choices = append(r.Choices, Choice{Decisions: k, Kept: mean, Lost: math.Max(0, 1-mean/o.MeanDecisions),
			Noise: math.Pow(float64(k)/mean, 2), Information: tells(k) / best})
	}
	return nil
}

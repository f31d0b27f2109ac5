package planner

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Run plans every cohort. Its errors are *Infeasible, or wrap ErrOptions.
func Run(o Options) (*Result, error) {
	proposer := new(plan.Proposer)
	if o.HessianShare == SearchShare && o.Releases == 0 {
		if err := o.check(); err != nil {
			return nil, err
		}
		share, err := o.searchShare(proposer)
		if err != nil {
			return nil, err
		}
		o.HessianShare = share
	}
	tasks, first, err := o.tasks(proposer)
	if err != nil {
		return nil, err
	}
	limits, err := o.limits(tasks)
	if err != nil {
		return nil, err
	}
	r := &Result{Delta: o.Delta, AskedEpsilon: o.Epsilon, Account: account(o.Credentials, o.Epsilon, o.Delta),
		Dimension: o.arms(),
		Options:   o.Choices, Context: o.Context, ThetaNorm: o.ThetaNorm,
		DropOut: o.DropOut, Dishonest: o.Dishonest, DishonestReports: o.DishonestReports,
		FirstCohort: first, SealSecondsPerMessage: o.SealSeconds}
	if o.MaxMessages == plan.ByCoordinates && o.bits() {
		r.MessageLimit = limits[0]
	}
	if r.Trust = o.Channel; o.Channel == plan.Shuffle && o.ServerNoise == 0 {
		r.Trust = "" // as it always was
	}
	switch {
	case o.Learner.Program():
		r.Learner, r.Family = o.Learner, o.Family
	case o.Releases == 0:
		r.Family, r.HessianShare = o.Family, tasks[0].request.Shares[0]
	}
	for i, t := range tasks {
		o.tell("planning cohorts", i, len(tasks))
		c, err := o.cohort(proposer, t, limits[i])
		if err != nil {
			return nil, o.explain(err, i, t.size, t.rounds)
		}
		r.add(c)
	}
	if first != nil && !o.Learner.Program() {
		r.Exploration = explorationRule
	}
	for _, c := range r.Cohorts {
		if !o.bits() {
			break
		}
		if largest := c.MessagesPerUser / tasks[0].rounds; o.HostMessages > 0 && largest > o.HostMessages {
			r.HostMessages = o.HostMessages
		}
	}
	if r.Frontier = []Frontier{}; o.Channel == "" || o.Channel == plan.Shuffle && o.ServerNoise == 0 {
		if err := o.frontiers(r, tasks); err != nil {
			return nil, err
		}
	}
	return r, o.compare(r, proposer, tasks, limits)
}

// bits reports whether what a person sends is bit messages.
func (o Options) bits() bool { return o.Channel == "" || o.Channel == plan.Shuffle }

// cohort plans and prices a cohort. The channel shuffle without server noise is solved for the options' own budgets;
// everything else is planned as the analyzer plans it.
func (o Options) cohort(proposer *plan.Proposer, t task, limit int) (Cohort, error) {
	t.request.MaxMessages = limit
	if o.bits() && o.ServerNoise == 0 {
		p, err := calibrate.Bits(t.request)
		if err != nil {
			return Cohort{}, err
		}
		return o.price(t, p)
	}
	p, err := o.propose(proposer, t.step, o.Channel, limit)
	if err != nil {
		return Cohort{}, err
	}
	return o.priceProposed(t, p)
}

// priceProposed is price for a plan of any channel.
func (o Options) priceProposed(t task, p *proposed) (Cohort, error) {
	cost, a := play.CostOf(p.Proposal), p.announcement
	g, err := plan.Guarantee(a, 0)
	if err != nil {
		return Cohort{}, err
	}
	honest := *a
	honest.Cohort.MaxDishonest = 0
	full, err := plan.GuaranteeWith(&honest, a.Cohort.Size)
	if err != nil {
		return Cohort{}, err
	}
	trusted, err := plan.GuaranteeWith(&honest, a.Cohort.Minimum)
	if err != nil {
		return Cohort{}, err
	}
	c := Cohort{
		Size: t.size, Minimum: int(a.Cohort.Minimum), Honest: int(a.Cohort.Minimum) - int(a.Cohort.MaxDishonest),
		Epsilon: g.Epsilon(o.Delta), Mu: g.Mu, ExpectedEpsilon: full.Epsilon(o.Delta),
		HonestEpsilon: trusted.Epsilon(o.Delta), MessagesPerUser: cost.Messages, BytesPerUser: cost.Bytes,
		UnusedBudget: p.Details.Unused,
	}
	c.Spread = t.spread
	for i, rel := range p.Details.Releases {
		one := release(t, rel)
		one.ServerNoise = p.Plan.Rounds[0].Releases[i].ServerNoise()
		c.Releases = append(c.Releases, one)
	}
	if o.Machine == nil {
		return c, nil
	}
	cpu, err := o.Machine.CPU(cost.Work)
	c.CPUSecondsPerUser = cpu.Device
	return c, err
}

// compare puts the channels beside each other.
func (o Options) compare(r *Result, proposer *plan.Proposer, tasks []task, limits []int) error {
	r.Channels = []Channel{}
	if o.Releases > 0 {
		return nil
	}
	var err error
	if r.Channels, err = o.channels(proposer, tasks, limits); err == nil {
		r.Reasons = recommend(r.Channels)
	}
	return err
}

// explorationRule says in words what learner.Config.Spread computes.
var explorationRule = fmt.Sprintf("the first cohort tries every arm; in a later one each device follows one of %d "+
	"estimates around the best one, spread by so many of the standard deviations that will be left after the cohort; "+
	"the spread grows with the number of people still to come; the last cohort takes the best (learner.Config.Spread)",
	learner.DrawsPerPolicy)

// limits are the messages allowed in each cohort.
func (o Options) limits(tasks []task) ([]int, error) {
	if o.MeanMessages > 0 {
		return o.divide(tasks)
	}
	limits := make([]int, len(tasks))
	for i, t := range tasks {
		var err error
		if limits[i], err = o.limit(t); err != nil {
			return nil, err
		}
	}
	return limits, nil
}

// price is the costs of a cohort's plan for one person.
func (o Options) price(t task, p calibrate.Solution) (Cohort, error) {
	c := Cohort{
		Size: t.size, Minimum: t.request.MinCohort, Honest: t.request.MinCohort - t.request.MaxDishonest,
		Epsilon: p.Epsilon, Mu: p.Guarantee.Mu,
		MessagesPerUser: p.Messages, BytesPerUser: sent(t, p), UnusedBudget: p.Unused,
		CPUSecondsPerUser: float64(p.Messages) * o.SealSeconds,
	}
	c.Spread = t.spread
	full, err := p.At(t.size)
	if err != nil {
		return c, err
	}
	trusted, err := p.At(t.request.MinCohort)
	if err != nil {
		return c, err
	}
	c.ExpectedEpsilon, c.HonestEpsilon = full.Epsilon(o.Delta), trusted.Epsilon(o.Delta)
	for _, rel := range p.Releases {
		one := release(t, rel)
		if n := len(c.Releases); n > 0 {
			if last := c.Releases[n-1]; same(last, one) {
				c.Releases[n-1].Times++
				continue
			}
		}
		c.Releases = append(c.Releases, one)
	}
	return c, nil
}

func release(t task, rel calibrate.SolvedRelease) Release {
	one := Release{
		Statistic: rel.Statistic, Times: 1, Coordinates: len(rel.Encoding.Coordinates), MessagesPerUser: rel.Messages,
		NoiseBits: rel.Encoding.NoiseBits,
		Bias:      rel.Encoding.Bias.Float(), Scale: rel.Encoding.Scale, Shift: rel.Shift, Mu: rel.Guarantee.Mu,
		Deviation:        rel.Deviation,
		CentralDeviation: rel.Central, LocalDeviation: rel.Central * math.Sqrt(float64(t.size)),
		VarianceRatio: rel.VarianceRatio, Limit: string(rel.Limit),
	}
	for j, c := range rel.Encoding.Coordinates {
		one.Levels = max(one.Levels, c.Levels)
		one.MessagesPerCoordinate = max(one.MessagesPerCoordinate, rel.Encoding.MessagesAt(j))
	}
	return one
}

func same(a, b Release) bool {
	a.Times = b.Times
	return a == b
}

// sent is how many bytes one person sends: the sealed reports of all rounds.
func sent(t task, p calibrate.Solution) int {
	if t.rounds == 1 {
		return wire.EnvelopeSize(p.Messages * seal.BitSize)
	}
	total := 0
	for _, rel := range p.Releases {
		total += wire.EnvelopeSize(rel.Messages * seal.BitSize)
	}
	return total
}

// add takes a cohort into the result.
func (r *Result) add(c Cohort) {
	r.Cohorts = append(r.Cohorts, c)
	before := float64(r.Users)
	r.Users += c.Size
	r.MeanMessages = (r.MeanMessages*before + float64(c.MessagesPerUser*c.Size)) / float64(r.Users)
	r.MeanBytes = (r.MeanBytes*before + float64(c.BytesPerUser)*float64(c.Size)) / float64(r.Users)
	r.Epsilon, r.Mu, r.UnusedBudget = math.Max(r.Epsilon, c.Epsilon), math.Max(r.Mu, c.Mu),
		math.Max(r.UnusedBudget, c.UnusedBudget)
	if c.MessagesPerUser < r.MessagesPerUser ||
		c.MessagesPerUser == r.MessagesPerUser && c.BytesPerUser <= r.BytesPerUser {
		return
	}
	r.MessagesPerUser, r.BytesPerUser, r.CPUSecondsPerUser = c.MessagesPerUser, c.BytesPerUser, c.CPUSecondsPerUser
	r.MessagesPerCoordinate = 0
	for _, rel := range c.Releases {
		if rel.MessagesPerCoordinate > r.MessagesPerCoordinate {
			r.MessagesPerCoordinate, r.NoiseBits, r.Scale = rel.MessagesPerCoordinate, rel.NoiseBits, rel.Scale
			r.Bias, r.VarianceRatio = rel.Bias, rel.VarianceRatio
		}
	}
}

// frontierRatios are the variance ratios of a frontier, over the least that is possible when not all noise is counted.
var frontierRatios = []float64{1.06, 1.12, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3.5, 5}

// frontiers adds the frontiers of the first and the last cohort.
func (o Options) frontiers(r *Result, tasks []task) error {
	which := []int{0}
	if n := len(tasks) - 1; tasks[n].size != tasks[0].size {
		which = append(which, n)
	}
	for _, i := range which {
		o.tell("trading messages for precision", len(r.Frontier), len(which))
		plans, err := frontier(tasks[i], frontierRatios)
		if err != nil {
			return err
		}
		f := Frontier{Cohort: i + 1, People: tasks[i].size}
		for _, p := range plans {
			point := Point{MessagesPerUser: p.Messages, BytesPerUser: sent(tasks[i], p),
				CPUSecondsPerUser: float64(p.Messages) * o.SealSeconds, Epsilon: p.Epsilon}
			for _, rel := range p.Releases {
				point.VarianceRatio = math.Max(point.VarianceRatio, rel.VarianceRatio)
			}
			// Ratios ascend, so messages fall: a point that costs as much as the one before it says nothing.
			if n := len(f.Points); n == 0 || point.MessagesPerUser < f.Points[n-1].MessagesPerUser {
				f.Points = append(f.Points, point)
			}
		}
		r.Frontier = append(r.Frontier, f)
	}
	return nil
}

// frontier plans a cohort for several variance ratios, each over the least that is possible when not all noise is
// counted. A cap on the shift does not apply: it exempts a release from its ratio, and a frontier shows what the ratio
// costs.
func frontier(t task, ratios []float64) ([]calibrate.Solution, error) {
	r := t.request
	r.MaxShift = 0
	least := float64(r.Cohort) / float64(r.MinCohort-r.MaxDishonest)
	scaled := make([]float64, len(ratios))
	for i, ratio := range ratios {
		scaled[i] = ratio * least
	}
	return calibrate.Frontier(r, scaled)
}

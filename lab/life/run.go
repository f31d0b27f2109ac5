// Package life simulates the life of a deployment in one process: the people of a world decide day after day. It
// compares ways to form cohorts at the same guarantee for a person: one record a person as people arrive, and panels
// with several decisions in a report and several reports a person. Policies, learner, statistics, plans, encodings,
// noise and the draw of panels are those of a deployment; there is no transport. Noise is drawn from seeds: it protects
// no one.
package life

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/world"
	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Epoch is what was learned of one epoch.
type Epoch struct {
	Day     int `json:"day"`     // on which its policy began, from 0
	Reports int `json:"reports"` // 0: there were too few people to draw from
	// The lift of the policy over the default arm, of the decisions in the epoch's reports: its interval, and the
	// truth. All 0 without a control group.
	Lift float64 `json:"lift"`
	Low  float64 `json:"lift_low"`
	High float64 `json:"lift_high"`
	True float64 `json:"lift_true"`
	// Decisions is the number of decisions in a report, as the release of rewards shows it.
	Decisions float64 `json:"decisions"`
}

// run is the run of one mode on one seed.
type run struct {
	Regret  []float64 `json:"regret"` // of each day, summed over its decisions
	Reward  []float64 `json:"reward"` // expected, of each day, summed over its decisions
	Count   []int     `json:"count"`  // decisions of each day
	Epochs  []Epoch   `json:"epochs"`
	Panel   int       `json:"panel"`   // people of a panel
	Records int       `json:"records"` // the most reports that one person sent
	// Kept is the share of the decisions that people of a cohort made in its epoch which the reports had room for.
	Kept float64 `json:"kept"`
}

// player decides for people and learns from cohorts.
type player struct {
	setting  world.Setting
	mode     world.Mode
	people   *world.People
	family   family.Family
	schedule world.Schedule
	learner  *learner.Learner // nil: nothing is learned
	step     learner.Step
	policy   glm.Policy
	trust    play.Trust
	devices  protocol.Source // people's own coins
	noise    protocol.Source // the channel's
	cohort   map[int]*[]statistic.Record
	slots    int // that are left in a cohort of arrivals
	served   []int
	lift     lift
	made     int // decisions of the cohort
	kept     int
	run      *run
}

func key(seed uint64, mode world.Mode, purpose byte) (k [32]byte) {
	binary.LittleEndian.PutUint64(k[:], seed)
	binary.LittleEndian.PutUint64(k[8:], uint64(mode.Decisions))
	binary.LittleEndian.PutUint64(k[16:], uint64(mode.Records))
	k[31] = purpose
	return k
}

func newPlayer(s world.Setting, m world.Mode, seed uint64) (*player, error) {
	everybody, err := world.NewPeople(s.World, seed)
	if err != nil {
		return nil, err
	}
	model, err := family.New(world.Family, 1)
	if err != nil {
		return nil, err
	}
	p := &player{setting: s, mode: m, people: everybody, family: model, run: &run{},
		devices: rand.NewChaCha8(key(seed, m, 'd')), noise: rand.NewChaCha8(key(seed, m, 'n')),
		served: make([]int, s.World.People)}
	p.policy = glm.Policy{Profile: glm.Practical, Family: family.NameLogistic, MaxReward: 1,
		Dimension: s.World.Dimension,
		Radius:    s.World.Norm, Theta: make([]float64, s.World.Dimension), Play: glm.PlayUniform}
	if m.Kind == world.Uniform {
		return p, nil
	}
	if m.Kind == world.Default {
		p.policy.Play = glm.PlayDefault
		return p, nil
	}
	return p, p.plan()
}

// clearDecisions is K_max of Clear: a person with twice the mean rate decides more often than that on one day of 60
// 000.
const clearDecisions = 10

// reached is the share of people whom one-record mode waits for: the last ones come too seldom.
const reached = 0.95

// noiseFree is the budget that the learner of Clear believes in.
const noiseFree = 10

// plan makes the learner and its channel.
func (p *player) plan() (err error) {
	s, m := p.setting, p.mode
	cfg := learner.Config{Family: family.NameLogistic, Dimension: s.World.Dimension, Radius: s.World.Norm,
		Epsilon: noiseFree, Delta: s.Delta}
	practical := &cfg.Practical
	practical.Control, practical.ControlShare, practical.Caution = s.Control, s.ControlShare, s.Caution
	if m.Kind == world.Arrival {
		cfg.Horizon = int(reached * float64(s.World.People))
	} else {
		if p.schedule, err = m.Schedule(s.World); err != nil {
			return err
		}
		cfg.Horizon, cfg.MinCohort = p.schedule.Panel*p.schedule.Epochs, min(50, p.schedule.Panel)
		practical.Panel, practical.Decisions = p.schedule.Panel, m.Decisions
		practical.HalfLife, practical.Alarm = s.HalfLife, s.Alarm
	}
	p.trust = play.Exact
	if m.Kind == world.Clear {
		practical.Decisions = clearDecisions
	} else {
		cfg.Epsilon, cfg.Delta = s.Epsilon, s.Delta
		p.trust = play.Planned(terms(s, m, p.schedule))
	}
	if p.learner, err = learner.New(cfg); err != nil {
		return err
	}
	p.step = p.learner.Next()
	p.policy = p.step.Policy
	p.run.Panel = p.schedule.Panel
	return nil
}

// most is K_max.
func (p *player) most() int { return max(1, p.learner.Config().Practical.Decisions) }

// begin forms the cohort of an epoch that begins on a day.
func (p *player) begin(day int, seed uint64) {
	p.cohort, p.lift = map[int]*[]statistic.Record{}, lift{}
	if p.step.Done {
		return
	}
	p.run.Epochs = append(p.run.Epochs, Epoch{Day: day})
	if p.mode.Kind == world.Arrival {
		p.slots = p.step.Cohort
		return
	}
	var pool []panel.Device
	for i, n := range p.served {
		if n < p.schedule.Records {
			pool = append(pool, panel.Device{Number: uint32(i)})
		}
	}
	if len(pool) < p.schedule.Pool {
		return // waits for people to register, and nobody does
	}
	for _, d := range panel.Seed(key(seed, p.mode, byte(len(p.run.Epochs)))).Panel(pool, p.step.Cohort) {
		p.cohort[int(d.Number)] = &[]statistic.Record{}
		p.served[d.Number]++
	}
}

// choice is what a device decides with. Where panels are drawn it explores nothing in a decision that it does not
// record. Devices that are enrolled as they arrive do not make that difference.
func (p *player) choice(recorded bool) glm.Choice {
	return glm.Choice{Unrecorded: !recorded && (p.mode.Kind == world.Panel || p.mode.Kind == world.Clear)}
}

// decide plays for one occasion and keeps its record if the person is in the cohort and has room.
func (p *player) decide(o world.Occasion) (arm int, err error) {
	if p.learner == nil || p.step.Done {
		d, err := p.policy.DecideFor(o.Arms, p.choice(false), p.devices)
		return d.Arm, err
	}
	if p.mode.Kind == world.Arrival && p.slots > 0 && p.served[o.Person] == 0 {
		p.slots--
		p.served[o.Person]++
		p.cohort[o.Person] = &[]statistic.Record{}
	}
	records, in := p.cohort[o.Person]
	room := in && len(*records) < p.most()
	d, err := p.policy.DecideFor(o.Arms, p.choice(room), p.devices)
	if err != nil {
		return 0, err
	}
	if in {
		p.made++
	}
	if !room {
		return d.Arm, nil
	}
	p.kept++
	*records = append(*records, statistic.Record{Arm: o.Arms[d.Arm], Reward: o.Reward(d.Arm), Weight: d.Weight,
		Control: d.Control})
	return d.Arm, p.lift.add(p.policy, o, d, p.devices)
}

// over reports whether the epoch that began on a day is over at the end of another.
func (p *player) over(began, day int) bool {
	if p.learner == nil || p.step.Done {
		return false
	}
	if p.mode.Kind == world.Arrival {
		return p.slots == 0
	}
	return day+1-began >= p.schedule.Window
}

// learn gives the sums of the cohort's reports to the learner.
func (p *player) learn() error {
	if len(p.cohort) == 0 {
		return p.next()
	}
	c, _, err := p.trust(p.step)
	if err != nil {
		return err
	}
	statistics := p.step.Statistics[0]
	sums, err := c.Aggregate(p.reports(statistics), p.noise)
	if err != nil {
		return err
	}
	most, aggregates := float64(p.most()), make([]learner.Aggregate, len(sums))
	for i, s := range sums {
		a := learner.Aggregate{Kind: statistics[i].Kind, Reports: s.Reports, Decisions: p.most()}
		for j, v := range s.Sum { // from means of a report to sums of decisions
			a.Sum, a.Variance = append(a.Sum, most*v), append(a.Variance, most*most*s.Variance[j])
		}
		aggregates[i] = a
	}
	e := &p.run.Epochs[len(p.run.Epochs)-1]
	e.Reports = len(p.cohort)
	if p.setting.Control > 0 {
		if err := p.lift.compare(e, aggregates[2], p.family, p.setting.Control); err != nil {
			return err
		}
	}
	if err := p.learner.Absorb(aggregates); err != nil {
		return err
	}
	return p.next()
}

func (p *player) next() error {
	if len(p.cohort) > 0 {
		p.step = p.learner.Next()
		p.policy = p.step.Policy
	}
	return p.policy.Validate()
}

// reports are those of the cohort, null reports of people who did not decide among them, in an order that is the same
// in every run.
func (p *player) reports(statistics []statistic.Statistic) iter.Seq[simulated.Report] {
	return func(yield func(simulated.Report) bool) {
		report := make(simulated.Report, len(statistics))
		for i := range p.served {
			records, in := p.cohort[i]
			if !in {
				continue
			}
			for k, s := range statistics {
				v, err := s.Report(report[k], *records, p.most())
				if err != nil {
					panic(fmt.Sprintf("life: the learner's statistic makes no report: %v", err)) // not reached
				}
				report[k] = v
			}
			if !yield(report) {
				return
			}
		}
	}
}

// play runs all days.
func (p *player) play(ctx context.Context, seed uint64, advance func(days int)) (*run, error) {
	began, r := 0, p.run
	if p.learner != nil {
		p.begin(0, seed)
	}
	for day := range p.people.Days {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		var regret, reward float64
		occasions := p.people.Day(day)
		for _, o := range occasions {
			arm, err := p.decide(o)
			if err != nil {
				return nil, err
			}
			regret += o.Best() - o.Means[arm]
			reward += o.Means[arm]
		}
		r.Regret, r.Reward = append(r.Regret, regret), append(r.Reward, reward)
		r.Count = append(r.Count, len(occasions))
		if p.over(began, day) {
			if err := p.learn(); err != nil {
				return nil, fmt.Errorf("life: the epoch of day %d: %w", began, err)
			}
			began = day + 1
			p.begin(began, seed)
		}
		advance(1)
	}
	for _, n := range p.served {
		r.Records = max(r.Records, n)
	}
	if p.made > 0 {
		r.Kept = float64(p.kept) / float64(p.made)
	}
	return r, nil
}

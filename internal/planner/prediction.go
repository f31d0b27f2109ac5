package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/riffle-dp/riffle/internal/planner/predict"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Prediction asks what the planned deployment will learn.
type Prediction struct {
	// Effect is predict.Assumed.Effect; 0: DefaultEffect of the largest reward.
	Effect   float64
	Baseline *float64           // predict.Assumed.Baseline
	Log      []predict.Decision // whose people take the place of assumed ones, if there are any
	Runs     int                // of each case; 0: DefaultRuns
}

// Defaults of Prediction.
const (
	// DefaultOptions are assumed where the plan says only how many numbers an option has.
	DefaultOptions = 10
	// DefaultEffect is a medium effect, as a part of the largest reward: in ten decisions of a hundred a failure
	// becomes a success. Half of it is small, twice as much large.
	DefaultEffect = 0.1
	DefaultRuns   = 12
	changeRuns    = 8            // of each change that is tried
	changeWork    = mostWork / 4 // likewise
)

// Predicted is a prediction of what the plan's deployment learns, by simulation. Its JSON form is a stable interface:
// keys are added, never renamed or removed.
type Predicted struct {
	Trust plan.Channel `json:"trust"`
	// People says in words who is assumed to come.
	People  string            `json:"people"`
	Options int               `json:"options"`
	Context int               `json:"context"`
	Log     *predict.LogFacts `json:"log,omitempty"`

	Cases []Case `json:"cases"`
	// Asked is the index of the case on which the verdict rests.
	Asked int `json:"asked"`
	// Verdict follows from the last policy's gain in that case, and Reasons say how.
	Verdict Verdict  `json:"verdict"`
	Reasons []string `json:"verdict_reasons"`
	// Changes are what was tried where the verdict is DoNotRun.
	Changes []Change `json:"changes,omitempty"`
}

// Case is what is learnt if the effect is of some size.
type Case struct {
	Name   string  `json:"name"`
	Effect float64 `json:"assumed_effect"` // 0: from a log
	// Impossible says why there are no such people; then there is no outcome.
	Impossible string `json:"impossible,omitempty"`
	*predict.Outcome
}

// Change is another plan, of which the same was predicted.
type Change struct {
	What string `json:"what"`
	// Impossible says why there is no such plan; then nothing was predicted.
	Impossible string            `json:"impossible,omitempty"`
	Worth      bool              `json:"worth_running"`
	Gain       *predict.Estimate `json:"gain_last,omitempty"`
	Simulated  int               `json:"simulated,omitempty"` // people of a run, of so many Users
	Users      int               `json:"users,omitempty"`
}

// Verdict says whether to run a plan.
type Verdict string

const (
	// WorthRunning: the last policy gains over the best constant option (predict.Outcome.Worth).
	WorthRunning Verdict = "run"
	// DoNotRun: it does not.
	DoNotRun Verdict = "do not run"
	// Undecided: it does not after the people who were simulated, and more would come; or the log shows no effect even
	// without privacy, which is no proof that there is none.
	Undecided Verdict = "undecided"
)

// rehearsal is a plan that is simulated.
type rehearsal struct {
	options Options
	config  learner.Config
	tasks   []task
	cohorts []Cohort
	other   *sync.Map // noise of steps that were not planned, by askedOf
}

// Predict adds to a result of Run what its deployment will learn. It needs cohorts of the learner's schedule. Its
// errors wrap ErrOptions, or are the context's.
func Predict(ctx context.Context, o Options, p Prediction, r *Result) error {
	if o.Releases > 0 || len(o.Cohorts) > 0 {
		return fmt.Errorf("%w: what is learnt is predicted for the learner's own cohorts; leave out --releases and "+
			"--cohort", ErrOptions)
	}
	if r.HessianShare > 0 {
		o.HessianShare = r.HessianShare
	}
	s, err := o.rehearsal(r.Cohorts)
	if err != nil {
		return err
	}
	f, err := family.New(s.config.Family, s.config.MaxReward)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if p, err = p.resolve(o, f); err != nil {
		return err
	}
	predicted := &Predicted{Trust: cmp.Or(o.Channel, plan.Shuffle), Options: cmp.Or(o.Choices, DefaultOptions),
		Context: o.Context}
	predicted.Cases = p.cases(f)
	predicted.Asked = len(predicted.Cases) / 2
	if len(p.Log) > 0 {
		logged, err := predict.FromLog(p.Log, f)
		if err != nil {
			return fmt.Errorf("%w: --from-log: %w", ErrOptions, err)
		}
		facts := logged.Facts()
		predicted.Log, predicted.Options = &facts, facts.Options
	}
	predicted.People = o.people(predicted)
	bound := o.afford(predicted, p.Runs)
	for i := range predicted.Cases {
		c := &predicted.Cases[i]
		source, err := p.source(f, o, c.Effect)
		if err != nil {
			return err
		}
		progress := func(done, all int) { o.tell("predicting what is learnt", i*all+done, len(predicted.Cases)*all) }
		c.Outcome, err = s.run(ctx, source, bound, progress)
		if errors.Is(err, predict.ErrEffect) {
			c.Impossible = err.Error()
		} else if err != nil {
			return err
		}
	}
	r.Prediction = predicted
	return predicted.judge(ctx, o, p)
}

// resolve checks what is asked and fills in defaults.
func (p Prediction) resolve(o Options, f family.Family) (Prediction, error) {
	p.Runs = cmp.Or(p.Runs, DefaultRuns)
	if len(p.Log) > 0 {
		if p.Effect != 0 || p.Baseline != nil {
			return p, fmt.Errorf("%w: --effect and --baseline are assumptions that --from-log takes from the log; "+
				"leave them out", ErrOptions)
		}
		if d := len(p.Log[0].Arms[0]); d != o.arms() {
			return p, fmt.Errorf("%w: the log's options have %d numbers, the plan is for %d: give --dim %d", ErrOptions,
				d, o.arms(), d)
		}
		if s := structure.Options(o.Choices, o.Context); o.Choices != 0 {
			for i, d := range p.Log {
				if !slices.ContainsFunc(d.Arms, func(x []float64) bool { return !s.Fits(x) }) {
					continue
				}
				return p, fmt.Errorf("%w: decision %d of the log has an option with numbers in more than one of the "+
					"%d runs of %d: with --options and --context each option has its own run; give --dim instead",
					ErrOptions, i+1, o.Choices, o.Context)
			}
		}
		return p, nil
	}
	p.Effect = cmp.Or(p.Effect, DefaultEffect*f.MaxReward())
	a := p.assumed(f, o, p.Effect)
	if err := a.Check(); err != nil {
		return p, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return p, nil
}

func (p Prediction) assumed(f family.Family, o Options, effect float64) predict.Assumed {
	return predict.Assumed{Family: f, Options: cmp.Or(o.Choices, DefaultOptions), Context: o.Context,
		Dimension: o.arms(), Effect: effect, Baseline: p.Baseline}
}

func (p Prediction) source(f family.Family, o Options, effect float64) (predict.Source, error) {
	if len(p.Log) > 0 {
		return predict.FromLog(p.Log, f)
	}
	return p.assumed(f, o, effect), nil
}

// cases are the effects that are simulated, the one asked for in the middle.
func (p Prediction) cases(f family.Family) []Case {
	if len(p.Log) > 0 {
		return []Case{{Name: "as in the log"}}
	}
	names := [3]string{"half of it", "as given", "twice"}
	if p.Effect == DefaultEffect*f.MaxReward() {
		names = [3]string{"small", "medium", "large"}
	}
	all := []Case{{Name: names[0], Effect: p.Effect / 2}, {Name: names[1], Effect: p.Effect}}
	if twice := 2 * p.Effect; twice < family.RewardSpan(f) {
		all = append(all, Case{Name: names[2], Effect: twice})
	}
	return all
}

// rehearsal is what is simulated of a plan; nil cohorts are planned first.
func (o Options) rehearsal(cohorts []Cohort) (s rehearsal, err error) {
	s.options, s.other = o, new(sync.Map)
	proposer := new(plan.Proposer)
	if s.tasks, _, err = o.tasks(proposer); err != nil {
		return s, err
	}
	if s.config, err = o.configured(); err != nil {
		return s, err
	}
	if s.cohorts = cohorts; cohorts != nil {
		return s, nil
	}
	limits, err := o.limits(s.tasks)
	if err != nil {
		return s, err
	}
	for i, t := range s.tasks {
		c, err := o.cohort(proposer, t, limits[i])
		if err != nil {
			return s, o.explain(err, i, t.size, t.rounds)
		}
		s.cohorts = append(s.cohorts, c)
	}
	return s, nil
}

// bounds are the limits of a simulation.
type bounds struct{ runs, people int }

// run predicts what is learnt.
func (s rehearsal) run(ctx context.Context, source predict.Source, b bounds, progress func(done, all int),
) (*predict.Outcome, error) {
	return predict.Run(ctx, predict.Options{Learner: s.config, Noise: s.noise, People: source, Runs: b.runs,
		Most: b.people, Progress: progress})
}

// noise is the planned one. A plan is made for one public point; at another one the noise changes as the diameter does.
// What a program asks can depend on the answers, and then a plan is made of it here.
func (s rehearsal) noise(step learner.Step) ([]float64, error) {
	if step.Epoch >= len(s.cohorts) || step.Round > 0 {
		return nil, fmt.Errorf("%w: the learner asks for round %d of cohort %d, which the plan does not hold",
			ErrOptions, step.Round, step.Epoch+1)
	}
	releases, request := s.cohorts[step.Epoch].Releases, s.tasks[step.Epoch].request.Releases
	if s.config.Profile.Program() && askedOf(step) != askedOf(s.tasks[step.Epoch].step) {
		return s.replanned(step)
	}
	if len(releases) != len(step.Statistics[0]) || len(request) != len(releases) {
		return nil, fmt.Errorf("%w: the learner asks for %d statistics, the plan holds %d", ErrOptions,
			len(step.Statistics[0]), len(releases))
	}
	deviations := make([]float64, len(releases))
	for i, statistic := range step.Statistics[0] {
		b, err := statistic.Bounds()
		if err != nil {
			return nil, err
		}
		deviations[i] = releases[i].Deviation * b.Diameter / request[i].Diameter
	}
	return deviations, nil
}

// askedOf says which statistics a step asks of how many people.
func askedOf(step learner.Step) string {
	var b strings.Builder
	fmt.Fprint(&b, step.Cohort)
	for _, s := range step.Statistics[0] {
		fmt.Fprintf(&b, " %s %d", s.Kind, s.Dim())
	}
	return b.String()
}

// replanned is the noise of a plan for the step itself. Steps that ask the same share a plan, whose noise changes as
// diameters do.
func (s rehearsal) replanned(step learner.Step) ([]float64, error) {
	key := askedOf(step)
	unit, known := s.other.Load(key)
	if !known {
		proposer := new(plan.Proposer)
		t, err := s.options.task(proposer, step)
		if err != nil {
			return nil, err
		}
		limit, err := s.options.limit(t)
		if err != nil {
			return nil, err
		}
		c, err := s.options.cohort(proposer, t, limit)
		if err != nil {
			return nil, err
		}
		var deviations []float64
		for i, r := range c.Releases {
			deviations = append(deviations, r.Deviation/t.request.Releases[i].Diameter)
		}
		unit, _ = s.other.LoadOrStore(key, deviations)
	}
	deviations := slices.Clone(unit.([]float64))
	for i, statistic := range step.Statistics[0] {
		b, err := statistic.Bounds()
		if err != nil {
			return nil, err
		}
		deviations[i] *= b.Diameter
	}
	return deviations, nil
}

// Bounds of a simulation.
const (
	// mostWork bounds what is simulated, in microseconds of one processor as cost has them: two take some 5 seconds.
	mostWork  = 13e6
	leastRuns = 8
)

// cost is roughly how many microseconds one person of a run takes: that options are drawn, that one is chosen, and that
// both learners learn from it.
func (o Options) cost() float64 {
	d, options := float64(o.arms()), float64(cmp.Or(o.Choices, DefaultOptions))
	pairs := structure.Options(o.Choices, o.Context).Pairs(o.arms())
	return 8 + 0.3*options*d + 0.02*float64(pairs)
}

// afford bounds what is simulated. Where that leaves anybody out, only the case that is asked for is left of a
// prediction: more people of it are worth more than the others.
func (o Options) afford(p *Predicted, runs int) bounds {
	b, all := o.bound(runs, len(p.Cases), mostWork)
	if !all {
		p.Cases, p.Asked = p.Cases[p.Asked:p.Asked+1], 0
		b, _ = o.bound(runs, 1, mostWork)
	}
	return b
}

// bound says how many runs, and how many people of each, are simulated for so many cases within so much work: fewer
// runs first, and then fewer people. It reports whether all people are.
func (o Options) bound(runs, cases int, work float64) (b bounds, all bool) {
	run := o.cost() * float64(o.Users) * float64(cases)
	b.runs = max(min(runs, leastRuns), min(runs, int(work/run)))
	if run *= float64(b.runs); run <= work {
		return b, true
	}
	b.people = max(1, int(math.Round(float64(o.Users)*work/run)))
	return b, false
}

// Package program runs the learners of papers, programs of package learn, as a deployment runs its learner: cohort by
// cohort, with policies and statistics that announcements carry.
//
// A program is deterministic given its answers, so that its state is a function of the configuration and of what was
// released: whoever replays the answers (the analyzer after a crash, an auditor) comes to the same policies.
// Simulations run the very same programs.
package program

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// ErrRefused wraps every reason why a program cannot be deployed with a configuration.
var ErrRefused = errors.New("program: cannot be deployed")

// Learner is a program in a deployment. Each of its questions is an epoch of one round, asked of one cohort: of as many
// people as the program wants, or Config.MinCohort if these are more; a rest of the horizon that is too small for a
// cohort joins the last one. It is not safe for concurrent use.
type Learner struct {
	config    learner.Config
	start     func(learn.Setting) (*learn.Learner, error)
	setting   learn.Setting
	rehearsed []learner.Step
	forms     []learn.Form
	// answers are the state: every step is that of a run which is given them.
	answers []learn.Answer
	// run was given them. One that waits on a goroutine, which nobody would end, is not kept: nil. Each answer to such
	// a program, which by default asks some dozens of questions at most, begins it anew.
	run     *learn.Learner
	attempt int        // cohorts of the current question that were destroyed
	left    int        // people of the horizon who are in no cohort yet
	asked   learn.Step // by the program, now
	step    learner.Step
	last    glm.Policy // in force; of a run that is over, before it was made greedy
}

// New resolves the configuration, and goes through the whole run once with answers of zeros, for the schedule: whatever
// cannot be announced is found here. Errors wrap ErrRefused or learner.ErrConfig.
func New(c learner.Config) (*Learner, error) {
	c, start, s, err := resolve(c)
	if err != nil {
		return nil, err
	}
	s.Used = map[string]float64{}
	l := &Learner{config: c, start: start, setting: s, left: c.Horizon}
	run, err := l.begin()
	if err != nil {
		return nil, err
	}
	defer run.Close()
	var rehearsed []learner.Step
	var forms []learn.Form
	for {
		if err := l.take(run.Next()); err != nil {
			return nil, err
		}
		if l.step.Done {
			break
		}
		if most := mostQuestions(c.Dimension); len(rehearsed) == most {
			return nil, l.refuse("it has more than %d questions for %d people: let it ask more at once",
				most, c.Horizon)
		}
		rehearsed, forms = append(rehearsed, l.step), append(forms, l.asked.Question.Form)
		a := zeros(l.asked.Question)
		if err := run.Absorb(a); err != nil {
			return nil, l.refuse("question %d, answered by zeros: %w", len(l.answers), err)
		}
		l.left, l.answers = l.left-l.step.Cohort, append(l.answers, a)
	}
	maps.DeleteFunc(s.Used, func(_ string, v float64) bool { return math.IsNaN(v) })
	own := *c.Program
	own.Options, s.Options, s.Used = s.Used, s.Used, nil
	c.Program = &own
	l = &Learner{config: c, start: start, setting: s, rehearsed: rehearsed, forms: forms, left: c.Horizon}
	asked, err := l.ask()
	if err != nil { // not reached: it began before
		return nil, err
	}
	return l, l.take(asked)
}

// mostReports bounds the people of a question for each one's report, of two numbers or more: at most plan.MaxEntries of
// them are released.
const mostReports = 1 << 20

// mostQuestions bounds the questions of a run in d dimensions, of each of which a policy of up to d(d+1)/2 numbers is
// kept: a configuration, which auditors read in a log, must not take all memory.
func mostQuestions(d int) int { return min(1<<12, (1<<26)/(d*(d+1)/2)) }

// resolve checks the configuration and makes the program's setting of it.
func resolve(c learner.Config) (learner.Config, func(learn.Setting) (*learn.Learner, error), learn.Setting, error) {
	of, err := entryOf(c.Profile)
	if err != nil {
		return c, nil, learn.Setting{}, err
	}
	if c, err = c.Resolve(); err != nil {
		return c, nil, learn.Setting{}, err
	}
	f, err := family.New(c.Family, c.MaxReward)
	if err != nil { // not reached: Resolve tried it
		return c, nil, learn.Setting{}, err
	}
	if c.Program.Variant == "" {
		c.Program.Variant = of.variant
	}
	options := maps.Clone(c.Program.Options)
	if c.Program.Variant == of.variant && of.options != nil {
		options = of.options(c.Horizon)
		maps.Copy(options, c.Program.Options)
	}
	return c, of.start, learn.Setting{Family: f, Dimension: c.Dimension, Arms: c.Program.Arms, Horizon: c.Horizon,
		Radius: c.Radius, Epsilon: c.Epsilon, Delta: c.Delta, Failure: c.Program.Failure, Variant: c.Program.Variant,
		Options: options, Structure: c.Structure}, nil
}

// begin is a run of the program, up to its first question.
func (l *Learner) begin() (*learn.Learner, error) {
	run, err := l.start(l.setting)
	if err != nil {
		return nil, l.refuse("%w", err)
	}
	return run, nil
}

// ask is what the program asks after its answers, of which a run that is kept lacks the last.
func (l *Learner) ask() (learn.Step, error) {
	run, answers := l.run, l.answers
	if run != nil {
		answers = answers[len(answers)-1:]
	} else {
		var err error
		if run, err = l.begin(); err != nil {
			return learn.Step{}, err
		}
	}
	if run.Waits() {
		defer run.Close()
	} else {
		l.run = run
	}
	for _, a := range answers {
		if err := run.Absorb(a); errors.Is(err, learn.ErrAnswer) {
			return learn.Step{}, fmt.Errorf("%w: %w", learner.ErrAggregate, err)
		} else if err != nil {
			return learn.Step{}, fmt.Errorf("program: %s: %w", l.config.Profile, err)
		}
	}
	return run.Next(), nil
}

// Config is the resolved configuration, with the value of every option that the program asked for, but of those whose
// default changes during the run.
func (l *Learner) Config() learner.Config { return l.config }

// Forms are what the program asks for, in order, if all answers are zeros.
func (l *Learner) Forms() []learn.Form { return slices.Clone(l.forms) }

// Rehearsed are the steps of a run whose answers are all zeros.
func (l *Learner) Rehearsed() []learner.Step { return slices.Clone(l.rehearsed) }

// Schedule lists the cohorts' sizes in such a run. They sum to the horizon, or to less where the program ends earlier.
func (l *Learner) Schedule() []int {
	sizes := make([]int, len(l.rehearsed))
	for i, step := range l.rehearsed {
		sizes[i] = step.Cohort
	}
	return sizes
}

// Next is the current step. It changes nothing, and the caller may keep and change what it gets.
func (l *Learner) Next() learner.Step {
	step := l.step
	step.Policy = *step.Policy.Clone()
	step.Statistics, step.Shares = slices.Clone(step.Statistics), slices.Clone(step.Shares)
	return step
}

// Confidence is the confidence set of the policy in force; nil: nothing was learned yet, or it has none.
func (l *Learner) Confidence() *glm.Stage {
	switch p := &l.last; {
	case len(l.answers) == 0:
		return nil
	case p.Optimism != nil:
		return p.Optimism
	case len(p.Stages) > 0:
		return &p.Stages[len(p.Stages)-1]
	}
	return nil
}

// Absorb takes the sums of the current question and moves on. On an error nothing has changed.
func (l *Learner) Absorb(sums []learner.Aggregate) error {
	if l.step.Done {
		return learner.ErrDone
	}
	if err := learner.CheckAggregates(sums, l.step.Statistics[0], l.step.Cohort, 1); err != nil {
		return err
	}
	a := learn.Answer{People: sums[0].Reports}
	if l.asked.Question.Form == learn.Reports {
		return l.absorb(reports(sums[0]))
	}
	for _, s := range sums {
		a.Sums = append(a.Sums, learn.Sum{Values: s.Sum, Variance: s.Variance})
	}
	return l.absorb(a)
}

// reports is an answer of pairs. A step that asks for them asks for nothing else.
func reports(of learner.Aggregate) learn.Answer {
	a := learn.Answer{People: of.Reports, Variance: [][]float64{slices.Clone(of.Variance)}}
	for j := range a.Variance[0] {
		a.Variance[0][j] /= float64(of.Reports)
	}
	for _, v := range of.Each {
		a.Reports = append(a.Reports, [][]float64{v})
	}
	return a
}

func (l *Learner) absorb(a learn.Answer) error {
	next := *l
	l.run = nil // after an error it may have changed, and is begun anew
	next.answers = append(l.answers, a)
	asked, err := next.ask()
	if err != nil {
		return err
	}
	next.left -= l.step.Cohort
	next.attempt = 0
	if err := next.take(asked); err != nil {
		return err
	}
	*l = next
	return nil
}

// Destroyed says that the current cohort was destroyed without a release. Its people are used up: the question is asked
// of others, as long as the horizon has enough.
func (l *Learner) Destroyed() error {
	if l.step.Done {
		return learner.ErrDone
	}
	l.left -= l.step.Cohort
	l.attempt++
	return l.take(l.asked)
}

// take makes the step of what the program asks.
func (l *Learner) take(asked learn.Step) error {
	l.asked = asked
	p, err := l.policy(asked.Policy)
	if err != nil {
		return err
	}
	l.last = p
	q, least := asked.Question, l.config.MinCohort
	if asked.Done || l.left < least && l.left < l.config.Horizon {
		l.step = learner.Step{Epoch: len(l.answers), Policy: greedy(p), Done: true, Attempt: l.attempt}
		return nil
	}
	cohort := min(max(q.People, least), l.left)
	if l.left-cohort < least { // too few for another cohort
		cohort = l.left
	}
	if q.Form == learn.Reports && cohort > mostReports {
		return l.refuse("question %d asks each of %d people for a report, at most %d can be counted: have it ask "+
			"fewer people at once", len(l.answers), cohort, mostReports)
	}
	step := learner.Step{Epoch: len(l.answers), Policy: p, Cohort: cohort, Attempt: l.attempt,
		VarianceRatio: learner.LateVarianceRatio}
	if cohort <= l.config.Horizon/10 {
		step.VarianceRatio = learner.EarlyVarianceRatio
	}
	if step.Statistics, step.Shares, err = l.statistics(q); err != nil {
		return err
	}
	l.step = step
	return nil
}

// policy is the program's as it is announced.
func (l *Learner) policy(of learn.Policy) (glm.Policy, error) {
	data, ok := of.(learn.Data)
	if !ok {
		return glm.Policy{}, l.refuse("its policy of epoch %d is no data that an announcement carries", len(l.answers))
	}
	p := *data.Policy.Clone()
	p.Profile, p.Epoch, p.Structure = l.config.Profile, len(l.answers), slices.Clone(l.config.Structure)
	if err := p.Validate(); err != nil {
		return p, l.refuse("%w", err)
	}
	return p, nil
}

// statistics are the question's, with their shares of the budget, as one round.
func (l *Learner) statistics(q learn.Question) ([][]statistic.Statistic, [][]float64, error) {
	if q.Form != learn.Sums && q.Form != learn.Reports || q.Pure || len(q.Statistics) == 0 {
		return nil, nil, l.refuse("question %d, with %d statistics, asks for %q, which no channel carries",
			len(l.answers), len(q.Statistics), q.Form)
	}
	if q.Form == learn.Reports && (len(q.Statistics) != 1 || q.Statistics[0].Data == nil ||
		q.Statistics[0].Data.Kind != statistic.Pair) {
		return nil, nil, l.refuse("question %d asks for each person's report, which can be announced of arm and "+
			"reward alone, in their whole range", len(l.answers))
	}
	var statistics []statistic.Statistic
	var shares []float64
	total := 0.0
	for _, s := range q.Statistics {
		if s.Data == nil || s.Noise != nil {
			return nil, nil, l.refuse("the statistic %q of question %d is no data that an announcement carries", s.Name,
				len(l.answers))
		}
		share := s.Share
		if share == 0 {
			share = 1
		}
		statistics, shares, total = append(statistics, *s.Data), append(shares, share), total+share
	}
	for i := range shares {
		shares[i] /= total
	}
	return [][]statistic.Statistic{statistics}, [][]float64{shares}, nil
}

func (l *Learner) refuse(format string, values ...any) error {
	return fmt.Errorf("%w: the profile %s: "+format, append([]any{ErrRefused, l.config.Profile}, values...)...)
}

// greedy is the last policy: what was learned, without exploration.
func greedy(p glm.Policy) glm.Policy {
	p.Play, p.Explore, p.Criterion, p.Optimism, p.Stages, p.Draws = glm.PlayGreedy, 0, nil, nil, nil, nil
	p.Gamma, p.DesignTolerance = 0, 0
	return p
}

// zeros is an answer of zeros.
func zeros(q learn.Question) learn.Answer {
	a := learn.Answer{People: q.People}
	for _, s := range q.Statistics {
		if q.Form == learn.Sums {
			a.Sums = append(a.Sums, learn.Sum{Values: make([]float64, s.Dim()), Variance: make([]float64, s.Dim())})
		}
	}
	if q.Form != learn.Reports {
		return a
	}
	for _, s := range q.Statistics {
		a.Variance = append(a.Variance, make([]float64, s.Dim()))
	}
	for range q.People {
		report := make([][]float64, len(q.Statistics))
		for i, s := range q.Statistics {
			report[i] = make([]float64, s.Dim())
		}
		a.Reports = append(a.Reports, report)
	}
	return a
}

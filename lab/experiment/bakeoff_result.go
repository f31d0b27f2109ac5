package experiment

import (
	"cmp"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// What a share is of: the gain of the learner nonprivate-greedy's last policy over the best constant arm, or, where
// that is too small to divide by, over uniform play; or, where that is too small, too, as for a greedy learner that is
// stuck, the gain of each person's best arm over uniform play.
const (
	OverConstant = "constant"
	OverUniform  = "uniform"
	OverBest     = "uniform, of the best"
)

// What a share divides by is at least leastGain of the rewards' range, and leastErrors of its standard errors: else the
// share of one world, off by several, drowned the mean of all.
const (
	leastGain   = 0.01
	leastErrors = 2
)

// ShareRow is what a learner keeps in a world at an epsilon, over the seeds. Its JSON form is a stable interface.
type ShareRow struct {
	World     string       `json:"world"`
	Half      string       `json:"half"` // Tuning, HeldOut, or empty
	Source    string       `json:"source"`
	Family    string       `json:"family"`
	Dimension int          `json:"dimension"`
	Options   int          `json:"options"` // the most of a person
	People    int          `json:"people"`
	Algorithm string       `json:"algorithm"`
	Trust     plan.Channel `json:"trust,omitempty"`
	Epsilon   *float64     `json:"epsilon"` // null: no guarantee
	Seeds     int          `json:"seeds"`
	// Refused says why the learner cannot run here, in the words of the first seed; all that follows is then absent.
	Refused string `json:"refused,omitempty"`
	// Over is what gains are over: OverConstant, OverUniform, OverBest, or empty where there is nothing to divide by
	// and no share is given.
	Over string `json:"over,omitempty"`
	// Learning and End are the gains of all decisions and of the last policy as shares of what Over names: ratios of
	// means over seeds, with standard errors over pairs, which one seed does not have.
	Learning   *float64 `json:"share_learning,omitempty"`
	LearningSE *float64 `json:"share_learning_se,omitempty"`
	End        *float64 `json:"share_end,omitempty"`
	EndSE      *float64 `json:"share_end_se,omitempty"`
	// Below counts the runs whose last policy is worth less than what gains are over.
	Below int `json:"runs_below"`
	// Means over seeds: of decisions, of last policies, of the best constant arm on the people who decide and on those
	// held out, of uniform play on those held out, and of nonprivate-greedy's last policies; and the worst last policy.
	Value       float64 `json:"value"`
	Final       float64 `json:"final_value"`
	Worst       float64 `json:"worst_final_value"`
	Constant    float64 `json:"constant_value"`
	EndConstant float64 `json:"constant_final_value"`
	EndUniform  float64 `json:"uniform_final_value"`
	EndGreedy   float64 `json:"nonprivate_final_value"`
	Messages    float64 `json:"messages_per_user"`
	Bytes       float64 `json:"bytes_per_user,omitempty"`
}

// ShareSummary is what a learner keeps over the worlds of a half.
type ShareSummary struct {
	Algorithm string       `json:"algorithm"`
	Trust     plan.Channel `json:"trust,omitempty"`
	Half      string       `json:"half"`
	Worlds    int          `json:"worlds"`  // with a share; a world at two epsilons counts twice
	Refused   int          `json:"refused"` // worlds in which the learner cannot run
	// Means over worlds, in which a share above 1 counts 1, and the smallest with its world. One seed has no standard
	// errors.
	Learning      float64 `json:"share_learning"`
	LearningSE    float64 `json:"share_learning_se,omitempty"`
	LearningLeast float64 `json:"least_share_learning"`
	LearningWorld string  `json:"least_share_learning_world"`
	End           float64 `json:"share_end"`
	EndSE         float64 `json:"share_end_se,omitempty"`
	EndLeast      float64 `json:"least_share_end"`
	EndWorld      string  `json:"least_share_end_world"`
	// Losing counts the worlds whose share while learning is below 0 by more than its standard error.
	Losing int `json:"worlds_losing"`
	Runs   int `json:"runs"`
	Below  int `json:"runs_below"`
	// BelowMost is the largest number of runs below in a world, and BelowWorld that world; empty: none.
	BelowMost  int    `json:"most_runs_below"`
	BelowWorld string `json:"most_runs_below_world,omitempty"`
}

// Bakeoff is the result of an experiment of KindBakeoff.
type Bakeoff struct {
	Rows    []ShareRow     `json:"rows"`
	Summary []ShareSummary `json:"summary"`
	Skipped []string       `json:"skipped"` // worlds whose file is not there
}

// row compares a learner's runs with those of nonprivate-greedy and the yardsticks, seed by seed.
func (x *entry) row(greedy []*result, measures []*yardsticks) ShareRow {
	info := measures[0].Info
	r := ShareRow{World: x.world.Name, Half: x.world.Half, Source: x.world.Source, Family: info.Family,
		Dimension: info.Dim, Options: info.Arms, People: info.People, Algorithm: x.job.Algorithm.Name,
		Trust: x.job.Algorithm.Trust, Seeds: len(measures)}
	if x.job.Epsilon > 0 {
		r.Epsilon = &x.job.Epsilon
	}
	if err := x.refused(); err != nil {
		r.Refused = err.Error()
		return r
	}
	mean := func(f func(s int) float64) float64 {
		m, _ := play.MeanAndError(each(measures, f))
		return m
	}
	final := func(s int) float64 { return *x.results[s].Final }
	r.Value, r.Final = mean(func(s int) float64 { return x.results[s].Value }), mean(final)
	r.Worst = slices.Min(each(measures, final))
	r.Constant = mean(func(s int) float64 { return measures[s].Constant })
	r.EndConstant = mean(func(s int) float64 { return measures[s].EndConstant })
	r.EndUniform = mean(func(s int) float64 { return measures[s].EndUniform })
	r.EndGreedy = mean(func(s int) float64 { return *greedy[s].Final })
	r.Messages = mean(func(s int) float64 { return x.results[s].Messages })
	if spent := x.results[0].Spent; spent != nil {
		r.Bytes = spent.Mean(func(c play.Cost) float64 { return float64(c.Bytes) })
	}
	r.Over = over(greedy, measures)
	if r.Over == "" {
		return r
	}
	n := len(measures)
	whole, learning, end := make([]float64, n), make([]float64, n), make([]float64, n)
	for s := range measures {
		people, held, top := measures[s].Constant, measures[s].EndConstant, *greedy[s].Final
		if r.Over != OverConstant {
			people, held = measures[s].Uniform, measures[s].EndUniform
		}
		if r.Over == OverBest {
			top = *measures[s].EndBest
		}
		whole[s], learning[s], end[s] = top-held, x.results[s].Value-people, final(s)-held
		if end[s] < 0 {
			r.Below++
		}
	}
	share := func(of []float64) (*float64, *float64) {
		ratio, se := overPairs(of, whole)
		if n < 2 {
			return &ratio, nil
		}
		return &ratio, &se
	}
	r.Learning, r.LearningSE = share(learning)
	r.End, r.EndSE = share(end)
	return r
}

// each is a value of each seed.
func each(seeds []*yardsticks, value func(s int) float64) []float64 {
	values := make([]float64, len(seeds))
	for s := range values {
		values[s] = value(s)
	}
	return values
}

// over is what shares of a world are of; empty: there is nothing to divide by.
func over(greedy []*result, measures []*yardsticks) string {
	least := leastGain * span(measures[0].Info.Family, measures[0].Info.MaxReward)
	enough := func(gain func(s int) float64) bool {
		mean, se := play.MeanAndError(each(measures, gain))
		return mean >= max(least, leastErrors*se)
	}
	switch {
	case enough(func(s int) float64 { return *greedy[s].Final - measures[s].EndConstant }):
		return OverConstant
	case enough(func(s int) float64 { return *greedy[s].Final - measures[s].EndUniform }):
		return OverUniform
	case slices.ContainsFunc(measures, func(m *yardsticks) bool { return m.EndBest == nil }):
		return ""
	case enough(func(s int) float64 { return *measures[s].EndBest - measures[s].EndUniform }):
		return OverBest
	}
	return ""
}

// summarise sums the rows up by learner and half, and over all worlds if there are several halves.
func (b *Bakeoff) summarise() {
	b.Summary = nil
	type name struct {
		algorithm string
		trust     plan.Channel
	}
	var names []name
	var halves []string
	for _, r := range b.Rows {
		if n := (name{r.Algorithm, r.Trust}); !slices.Contains(names, n) {
			names = append(names, n)
		}
		if !slices.Contains(halves, r.Half) {
			halves = append(halves, r.Half)
		}
	}
	for _, half := range halves {
		for _, n := range names {
			s := ShareSummary{Algorithm: n.algorithm, Trust: n.trust, Half: cmp.Or(half, "own files"),
				LearningLeast: math.Inf(1), EndLeast: math.Inf(1)}
			for _, r := range b.Rows {
				if r.Algorithm == n.algorithm && r.Trust == n.trust && r.Half == half {
					s.add(r)
				}
			}
			if s.finish() {
				b.Summary = append(b.Summary, s)
			}
		}
	}
}

// add counts a row. The standard errors are sums of squares until finish.
func (s *ShareSummary) add(r ShareRow) {
	if r.Refused != "" {
		s.Refused++
	}
	if r.Learning == nil {
		return
	}
	s.Worlds++
	var learningSE, endSE float64
	if r.LearningSE != nil {
		learningSE, endSE = *r.LearningSE, *r.EndSE
	}
	s.Learning, s.LearningSE = s.Learning+math.Min(*r.Learning, 1), s.LearningSE+learningSE*learningSE
	s.End, s.EndSE = s.End+math.Min(*r.End, 1), s.EndSE+endSE*endSE
	if *r.Learning < s.LearningLeast {
		s.LearningLeast, s.LearningWorld = *r.Learning, r.World
	}
	if *r.End < s.EndLeast {
		s.EndLeast, s.EndWorld = *r.End, r.World
	}
	if *r.Learning+learningSE < 0 {
		s.Losing++
	}
	s.Runs, s.Below = s.Runs+r.Seeds, s.Below+r.Below
	if r.Below > s.BelowMost {
		s.BelowMost, s.BelowWorld = r.Below, r.World
	}
}

// finish reports whether there was a share.
func (s *ShareSummary) finish() bool {
	if s.Worlds == 0 {
		return false
	}
	n := float64(s.Worlds)
	s.Learning, s.LearningSE = s.Learning/n, math.Sqrt(s.LearningSE)/n
	s.End, s.EndSE = s.End/n, math.Sqrt(s.EndSE)/n
	return true
}

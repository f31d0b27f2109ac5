// Package learn is what the learners of all five papers have in common: a policy goes out, sums, reports or records
// come in. Its subpackages hold the rest: estimators ([github.com/riffle-dp/riffle/pkg/learn/estimate]) and the bandits
// that are made of them ([github.com/riffle-dp/riffle/pkg/learn/bandit]; those of simulations only in
// [github.com/riffle-dp/riffle/lab/learn/bandit]), one file for each algorithm of a paper. How people play is the
// policy's, of [github.com/riffle-dp/riffle/pkg/glm].
//
// A learner does not know how its answers come about. It asks a Question; whoever runs it (a simulation, or the
// analyzer) has people's devices answer, over a channel, and protects the answer: the noise of Sums and Reports is the
// channel's. Only of Records, which a trusted curator reads in the clear, the learner adds the noise itself.
//
// Every person answers one question. So what a person's device reveals over a whole run is what the answer to one
// question reveals, however many questions there are.
package learn

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// ErrAnswer wraps every reason to refuse an answer. The learner is unchanged.
var ErrAnswer = errors.New("learn: bad answer")

// Record is what a device remembers of a decision: beside arm and reward only a Tag, since what else a statistic wants
// to know is the program's own (a statistic.Record has the fields of the statistics that announcements name).
type Record struct {
	Arm    []float64 // features of the arm that was played, of norm at most 1
	Reward float64
	// Tag is Choice.Tag of the decision.
	Tag int
	// Times is how many people have this very record; 0 stands for 1. It is above 1 in simulations of very many people
	// of few kinds, where it saves their time.
	Times int
}

// Count is Times, at least 1.
func (r Record) Count() int { return max(1, r.Times) }

// Choice is what a policy decides for one person.
type Choice struct {
	Arm        int     // index into the arms
	Propensity float64 // probability of this choice, in (0, 1]
	// Tag is what else the device must remember for its record; its meaning is the learner's. It may depend on all
	// arms.
	Tag int
}

// Policy is what devices decide with. It is public, and follows from what was released. Only Data can be announced.
type Policy interface {
	// Decide is a pure function of the policy, the arms and the random words. The arms are at least one, of equal
	// length, finite and of norm at most 1; Decide must not change or keep them.
	Decide(arms [][]float64, src protocol.Source) (Choice, error)
}

// Model is an estimate of the mean reward of an arm.
type Model interface {
	Predict(x []float64) float64
	// Bound is at least |Predict(x) - true mean| for all x at once, except with the estimator's failure probability;
	// +Inf where the estimator knows no bound.
	Bound(x []float64) float64
}

// Form says what a question wants to know, and whom people must trust for it.
type Form string

const (
	// Nothing is asked: the people of the step decide and report nothing.
	Nothing Form = ""
	// Sums of each statistic over the people, with noise: any channel.
	Sums Form = "sums"
	// Reports are each person's statistics, with the person's own noise, in random order: the channel local.
	Reports Form = "reports"
	// Records are in the clear, in the order of decisions: the channel central. The learner adds noise to all that
	// leaves it.
	Records Form = "records"
)

// Statistic is a public function from records to vectors of a fixed length, with bounds that hold for every record: the
// function clips what it is given.
type Statistic struct {
	Name string
	// Data is what a deployment announces, of statistics that Announced made; nil: in simulations only.
	Data *statistic.Statistic
	// Vector appends the vector of a record to dst.
	Vector func(dst []float64, r Record) []float64
	// Lower and Upper bound each coordinate; their length is the statistic's dimension.
	Lower, Upper []float64
	Diameter     float64 // largest l2 distance between the vectors of two records
	Diameter1    float64 // largest l1 distance; 0: not known, and there is no pure epsilon for this statistic
	// Share is the part of the budget that the statistic gets, in proportion to those of its question: of mu squared,
	// or of a pure epsilon. 0 stands for 1.
	Share float64
	// Noise, if not nil, replaces the noise that the budget gives. It is for a paper's literal calibration, whose
	// guarantee is what Noise.Guarantee says and not the budget's.
	Noise mechanism.Noise
}

// Dim is the length of the statistic's vectors.
func (s Statistic) Dim() int { return len(s.Lower) }

// Question is asked of the next people, each of whom answers no other.
type Question struct {
	Form       Form
	People     int         // at least 1
	Statistics []Statistic // of Sums and Reports
	// Pure asks for noise with a delta of 0 (each statistic needs its Diameter1).
	Pure bool
}

// Sum is the released sum of a statistic.
type Sum struct {
	Values []float64 // data units, without bias
	// Variance is that of the noise of each coordinate; zeros where there is none.
	Variance []float64
}

// Answer is what came back.
type Answer struct {
	People  int           // who answered
	Sums    []Sum         // of Sums, in the order of the statistics
	Reports [][][]float64 // of Reports: one for each person, a vector for each statistic
	// Variance is, of Reports, that of the noise on each coordinate of each statistic; 0 where there is none.
	Variance [][]float64
	Records  []Record // of Records
}

// Asker puts a question to people under the policy in force, and returns the answer.
type Asker func(Question) (Answer, error)

// Mean is the mean of the answer's i-th sum per person, and the largest standard deviation of its noise.
func (a Answer) Mean(i int) (mean []float64, deviation float64) {
	mean = make([]float64, len(a.Sums[i].Values))
	n := float64(a.People)
	for j, v := range a.Sums[i].Values {
		mean[j] = v / n
		deviation = max(deviation, a.Sums[i].Variance[j])
	}
	return mean, math.Sqrt(deviation) / n
}

// Check refuses an answer that does not fit the question. Errors wrap ErrAnswer.
func (q Question) Check(a Answer) error {
	if a.People < 1 {
		return fmt.Errorf("%w: of %d people", ErrAnswer, a.People)
	}
	switch q.Form {
	case Sums:
		if len(a.Sums) != len(q.Statistics) {
			return fmt.Errorf("%w: %d sums for %d statistics", ErrAnswer, len(a.Sums), len(q.Statistics))
		}
		for i, s := range q.Statistics {
			if len(a.Sums[i].Values) != s.Dim() || len(a.Sums[i].Variance) != s.Dim() {
				return fmt.Errorf("%w: the sum of %s has %d values and %d variances, not %d", ErrAnswer, s.Name,
					len(a.Sums[i].Values), len(a.Sums[i].Variance), s.Dim())
			}
			if !convex.AllFinite(a.Sums[i].Values) || !convex.AllFinite(a.Sums[i].Variance) {
				return fmt.Errorf("%w: the sum of %s has a value that is not finite", ErrAnswer, s.Name)
			}
		}
	case Reports:
		if len(a.Variance) != len(q.Statistics) {
			return fmt.Errorf("%w: variances of %d statistics of %d", ErrAnswer, len(a.Variance), len(q.Statistics))
		}
		for i, s := range q.Statistics {
			if len(a.Variance[i]) != s.Dim() || !convex.AllFinite(a.Variance[i]) {
				return fmt.Errorf("%w: the variance of %s is not %d finite numbers", ErrAnswer, s.Name, s.Dim())
			}
		}
		for _, report := range a.Reports {
			if len(report) != len(q.Statistics) {
				return fmt.Errorf("%w: a report of %d vectors for %d statistics", ErrAnswer, len(report),
					len(q.Statistics))
			}
			for i, s := range q.Statistics {
				if len(report[i]) != s.Dim() || !convex.AllFinite(report[i]) {
					return fmt.Errorf("%w: a report of %s is not %d finite numbers", ErrAnswer, s.Name, s.Dim())
				}
			}
		}
	case Records:
		for _, r := range a.Records {
			if !convex.AllFinite(r.Arm) || !convex.AllFinite([]float64{r.Reward}) {
				return fmt.Errorf("%w: a record is not finite", ErrAnswer)
			}
		}
	}
	return nil
}

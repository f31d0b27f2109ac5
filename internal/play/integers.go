package play

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
)

// inIntegers reports whether a question is answered as the channels shuffle and shares answer: devices send integers
// with binomial noise of their own, and only the sum is seen. It is not where there is no privacy to give, or where a
// paper's literal calibration replaces the channel's noise; then the sum is noised as at one curator.
func (c *Channel) inIntegers(q learn.Question) (bool, error) {
	if c.Trust != plan.Shuffle && c.Trust != plan.Shares || math.IsInf(c.Epsilon, 1) {
		return false, nil
	}
	own := 0
	for _, s := range q.Statistics {
		if s.Noise != nil {
			own++
		}
	}
	switch {
	case own == len(q.Statistics):
		return false, nil
	case own > 0:
		return false, fmt.Errorf("simulate: %d of %d statistics have noise of their own, and the trust %s divides its "+
			"noise over all of a question or none", own, len(q.Statistics), c.Trust)
	case q.Pure:
		return false, fmt.Errorf("simulate: the noise of the trust %s is binomial, which needs a delta above 0",
			c.Trust)
	}
	return true, nil
}

// integers are the sums of the channels shuffle and shares, in exactly the law of a run with its encodings: see
// simulated.Integer, whose proof holds here. The rounding coins of many people with one record are drawn at once.
func (c *Channel) integers(q learn.Question, records iter.Seq[learn.Record]) (a learn.Answer, err error) {
	solution, err := c.Solution(q)
	if err != nil {
		return a, err
	}
	ones := make([][]uint64, len(q.Statistics))
	for i, s := range q.Statistics {
		ones[i] = make([]uint64, s.Dim())
	}
	var vector []float64
	for r := range records {
		if r.Times > math.MaxUint32 {
			return a, fmt.Errorf("simulate: %d people have one record, at most 2^32-1 are counted", r.Times)
		}
		a.People += r.Count()
		for i, s := range q.Statistics {
			vector = s.Vector(vector[:0], r)
			if err := solution.Releases[i].Encoding.RoundTimes(ones[i], vector, uint32(r.Count()),
				c.Noise); err != nil {
				return a, fmt.Errorf("simulate: %s: %w", s.Name, err)
			}
		}
	}
	if least := leastCohort(q.People); a.People < least {
		return a, fmt.Errorf("simulate: %d people answered, and the noise that was planned needs %d", a.People, least)
	}
	for i, s := range q.Statistics {
		e := solution.Releases[i].Encoding
		if err := e.AddNoise(ones[i], uint64(a.People), c.Noise); err != nil {
			return a, fmt.Errorf("simulate: %s: %w", s.Name, err)
		}
		values, err := e.Decode(ones[i], uint64(a.People), 0)
		if err != nil {
			return a, fmt.Errorf("simulate: %s: %w", s.Name, err)
		}
		a.Sums = append(a.Sums, learn.Sum{Values: values, Variance: e.Variance(uint64(a.People), 0)})
	}
	c.messages += float64(solution.Messages) * float64(a.People)
	return a, nil
}

// leastCohort is the smallest number of reports that the noise of a question to so many people is planned for.
func leastCohort(people int) int { return int(math.Ceil(float64(people) * (1 - plan.DefaultDropOut))) }

// Solution is how the channel encodes a question's statistics, with the default terms of a deployment but for the
// smallest cohort: the planner finds noise for any that is large enough. It is kept for questions that are alike.
func (c *Channel) Solution(q learn.Question) (calibrate.Solution, error) {
	vectors, shares := make([]privacy.Vector, len(q.Statistics)), make([]float64, len(q.Statistics))
	for i, s := range q.Statistics {
		vectors[i] = privacy.Vector{Name: s.Name, Diameter: s.Diameter, Lower: s.Lower,
			Upper: append([]float64(nil), s.Upper...)}
		for j, low := range s.Lower {
			if s.Upper[j] == low { // a coordinate that is always the same has a range all the same
				vectors[i].Upper[j] = low + 1e-9*s.Diameter
			}
		}
		shares[i] = share(s)
	}
	key := fmt.Sprint(q.People, c.Trust, c.Epsilon, c.Delta, shares, vectors)
	if s, ok := c.solutions[key]; ok {
		return s, nil
	}
	s, err := c.solve(q.People, vectors, shares)
	if err != nil {
		return s, fmt.Errorf("simulate: sums of %d people in the trust %s: %w", q.People, c.Trust, err)
	}
	if c.solutions == nil {
		c.solutions = map[string]calibrate.Solution{}
	}
	c.solutions[key] = s
	return s, nil
}

func (c *Channel) solve(people int, vectors []privacy.Vector, shares []float64) (s calibrate.Solution, err error) {
	least := leastCohort(people)
	if least <= plan.DefaultDishonestReports {
		return s, fmt.Errorf("%w: no noise is left to count on beside a dishonest report", privacy.ErrRequest)
	}
	if c.Trust == plan.Shares {
		honest := least - plan.DefaultDishonestReports
		added := float64(people) / float64(honest)
		return calibrate.Sums(calibrate.SumRequest{Epsilon: c.Epsilon, Delta: c.Delta, Cohort: people,
			Releases: vectors,
			Shares:   shares, ShiftOnly: true, MaxEntryBits: plan.MaxEntryBits(plan.Shares), Counted: honest,
			Fill:  true,
			Ratio: plan.SharesRatio * added, Finer: plan.FineRatio * added, FineBits: plan.FineBits,
			MaxPoison: plan.FinePoison})
	}
	r := calibrate.Request{Epsilon: c.Epsilon, Delta: c.Delta, Cohort: people, MinCohort: least,
		MaxDishonest: plan.DefaultDishonestReports, Releases: vectors, Shares: shares, ShiftOnly: true,
		MaxMessages: plan.MessagesFor(vectors), MaxShift: plan.DefaultMaxShift, Biases: plan.DefaultBiases()}
	// A small cohort needs more noise of each person than the default limit has room for.
	for ; r.MaxMessages <= plan.MaxReportMessages; r.MaxMessages *= 4 {
		if s, err = calibrate.Bits(r); !errors.As(err, new(*calibrate.Infeasible)) {
			break
		}
	}
	return s, err
}

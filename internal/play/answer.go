package play

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy/calibrate"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Clear is the trust of no privacy at all: answers are exact.
const Clear plan.Channel = "clear"

// Channel answers the questions of learners as a channel would, for one guarantee. It protects no one: the noise is the
// simulation's.
type Channel struct {
	Trust          plan.Channel // Clear, or a channel
	Epsilon, Delta float64
	Noise          protocol.Source
	messages       float64
	rho            float64                       // of Epsilon and Delta; 0: not computed yet
	solutions      map[string]calibrate.Solution // of inIntegers, by what they depend on
}

// Answer answers a question for the records of the people asked, in their order.
func (c *Channel) Answer(q learn.Question, records iter.Seq[learn.Record]) (learn.Answer, error) {
	switch {
	case q.Form == learn.Records && (c.Trust == Clear || c.Trust == plan.Central):
		return clearRecords(records), nil
	case q.Form == learn.Reports && (c.Trust == Clear || c.Trust == plan.Local):
		return c.reports(q, records)
	case q.Form == learn.Sums:
		return c.sums(q, records)
	case q.Form == learn.Nothing:
		return learn.Answer{People: 1}, nil
	}
	return learn.Answer{}, fmt.Errorf("simulate: the learner asks for %s, which the trust %s does not give", q.Form,
		c.Trust)
}

func clearRecords(records iter.Seq[learn.Record]) (a learn.Answer) {
	for r := range records {
		a.Records, a.People = append(a.Records, r), a.People+r.Count()
	}
	return a
}

// reports are those of the channel local, or exact ones. A record of several people gives a report of each.
func (c *Channel) reports(q learn.Question, records iter.Seq[learn.Record]) (a learn.Answer, err error) {
	noises, err := c.noises(q)
	if err != nil {
		return a, err
	}
	a.Variance = make([][]float64, len(q.Statistics))
	for i, s := range q.Statistics {
		a.Variance[i] = slices.Repeat([]float64{noises[i].Deviation() * noises[i].Deviation()}, s.Dim())
	}
	for r := range records {
		for range r.Count() {
			report := make([][]float64, len(q.Statistics))
			for i, s := range q.Statistics {
				report[i] = s.Vector(make([]float64, 0, s.Dim()), r)
				noises[i].Add(report[i], c.Noise)
			}
			a.Reports, a.People = append(a.Reports, report), a.People+1
		}
	}
	protocol.Permute(a.Reports, c.Noise)
	return a, nil
}

// sums are those of any trust.
func (c *Channel) sums(q learn.Question, records iter.Seq[learn.Record]) (a learn.Answer, err error) {
	if integers, err := c.inIntegers(q); err != nil || integers {
		if err != nil {
			return a, err
		}
		return c.integers(q, records)
	}
	noises, err := c.noises(q)
	if err != nil {
		return a, err
	}
	a.Sums = make([]learn.Sum, len(q.Statistics))
	for i, s := range q.Statistics {
		a.Sums[i] = learn.Sum{Values: make([]float64, s.Dim()), Variance: make([]float64, s.Dim())}
	}
	var vector []float64
	for r := range records {
		n := float64(r.Count())
		a.People += r.Count()
		for i, s := range q.Statistics {
			vector = s.Vector(vector[:0], r)
			for j, v := range vector {
				a.Sums[i].Values[j] += n * v
			}
		}
	}
	draws := 1
	if c.Trust == plan.Local {
		draws = a.People
	}
	for i, noise := range noises {
		if err := addDraws(a.Sums[i].Values, noise, draws, c.Noise); err != nil {
			return a, err
		}
		for j := range a.Sums[i].Variance {
			a.Sums[i].Variance[j] = float64(draws) * noise.Deviation() * noise.Deviation()
		}
	}
	return a, nil
}

// noises is the noise of each statistic of a question, at one curator or on one device. A statistic with noise of its
// own has its share of the budget all the same, so that the others do not spend it.
func (c *Channel) noises(q learn.Question) ([]mechanism.Noise, error) {
	all, total := make([]mechanism.Noise, len(q.Statistics)), 0.0
	for _, s := range q.Statistics {
		total += share(s)
	}
	budget, err := c.budget(q.Pure)
	if err != nil {
		return nil, err
	}
	for i, s := range q.Statistics {
		of := mechanism.Sensitivity{Dim: s.Dim(), L2: s.Diameter, L1: s.Diameter1}
		switch {
		case c.Trust == Clear:
			all[i] = mechanism.None{}
		case s.Noise != nil:
			all[i] = s.Noise
		case q.Pure:
			all[i], err = mechanism.ForEpsilon(of, budget*share(s)/total)
		default:
			all[i], err = mechanism.ForRho(of, budget*share(s)/total)
		}
		if err != nil {
			return nil, fmt.Errorf("simulate: %s: %w", s.Name, err)
		}
	}
	return all, nil
}

// budget is the epsilon of pure noise, or else the zCDP, which takes longer to find than an answer and is kept.
func (c *Channel) budget(pure bool) (float64, error) {
	if pure || c.Trust == Clear {
		return c.Epsilon, nil
	}
	if c.rho == 0 {
		rho, err := mechanism.Budget(c.Epsilon, c.Delta)
		if err != nil {
			return 0, err
		}
		c.rho = rho
	}
	return c.rho, nil
}

func share(s learn.Statistic) float64 {
	if s.Share == 0 {
		return 1
	}
	return s.Share
}

// addDraws adds the sum of so many independent draws to each coordinate, drawn at once, which a simulation of very many
// people can afford. The sum of Gaussian draws is Gaussian with the sum of their variances, and the sum of n Laplace
// draws is the difference of two Gamma variables of shape n. Two things are approximated. The laws are those of real
// numbers, where draws are whole numbers of steps, of which a deviation has 2^28: the two laws differ by less than any
// simulation can see. And one rounding to the grid stands for that of every device.
func addDraws(x []float64, noise mechanism.Noise, draws int, src protocol.Source) error {
	if draws == 1 {
		noise.Add(x, src)
		return nil
	}
	switch n := noise.(type) {
	case mechanism.None:
	case mechanism.Gaussian:
		mechanism.Gaussian{Sigma: n.Sigma * math.Sqrt(float64(draws))}.Add(x, src)
	case mechanism.Laplace:
		half := distuv.Gamma{Alpha: float64(draws), Beta: 1 / n.Scale, Src: src}
		for i := range x {
			x[i] += half.Rand() - half.Rand()
		}
	case interface {
		AddSum(x []float64, draws int, src protocol.Source)
	}:
		n.AddSum(x, draws, src)
	default:
		return fmt.Errorf("simulate: no law for the sum of draws of %T", noise)
	}
	return nil
}

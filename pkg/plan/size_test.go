package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// What each part of an epoch costs as the dimension grows: lab/docs/tables/plan-cost.txt.
func BenchmarkDimension(b *testing.B) {
	for _, d := range []int{5, 20, 50} {
		cfg := learner.Config{Dimension: d, Horizon: 100_000}
		step := firstStep(b, cfg)
		size := DefaultTerms()
		p, err := Propose(step, size)
		if err != nil {
			b.Fatal(err)
		}
		a := announce(b, step, p)
		l, err := learner.New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		l.Next()
		sums := sumsOf(step, p)
		if err := l.Absorb(sums); err != nil {
			b.Fatal(err)
		}
		later := l.Next()
		arms := ballArms(d, 1000)
		record := statistic.Record{Arm: arms[0], Reward: 1, Weight: 1}
		for _, part := range []struct {
			name string
			do   func() error
		}{
			{"propose", func() error { _, err := Propose(step, size); return err }},
			{"round", func() error { _, err := CheckRound(a); return err }},
			{"guarantee", func() error { _, err := Guarantee(a, 0); return err }},
			{"policy", func() error { return later.Policy.Validate() }},
			{"explore", func() error { _, err := step.Policy.Draft(arms, glm.Choice{}); return err }},
			{"decide", func() error { _, err := later.Policy.Draft(arms, glm.Choice{}); return err }},
			{"vectors", func() error {
				for _, s := range step.Statistics[0] {
					if _, err := s.Vector(nil, record); err != nil {
						return err
					}
				}
				return nil
			}},
			{"absorb", func() error {
				l, err := learner.New(cfg)
				if err == nil {
					l.Next()
					err = l.Absorb(sums)
				}
				return err
			}},
		} {
			b.Run(fmt.Sprintf("d%d/%s", d, part.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := part.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// sumsOf are sums that the channel might bring back: as much information in every direction as the cohort can give.
func sumsOf(step learner.Step, p *Proposal) []learner.Aggregate {
	var sums []learner.Aggregate
	src := rand.New(rand.NewPCG(1, 2))
	for i, s := range step.Statistics[0] {
		sum := learner.Aggregate{Kind: s.Kind, Reports: step.Cohort, Sum: make([]float64, s.Dim()),
			Variance: make([]float64, s.Dim())}
		deviation := p.Details.Releases[i].Deviation
		for j := range sum.Sum {
			sum.Sum[j], sum.Variance[j] = deviation*src.NormFloat64(), deviation*deviation
		}
		if s.Kind == statistic.Hessian {
			at := 0
			for j := range s.ArmDim {
				sum.Sum[at] += float64(step.Cohort) / float64(4*s.ArmDim)
				at += s.ArmDim - j
			}
		}
		sums = append(sums, sum)
	}
	return sums
}

// ballArms are so many arms in the unit ball.
func ballArms(d, count int) [][]float64 {
	src := rand.New(rand.NewPCG(3, 4))
	arms := make([][]float64, count)
	for i := range arms {
		x, squares := make([]float64, d), 0.0
		for j := range x {
			x[j] = src.NormFloat64()
			squares += x[j] * x[j]
		}
		length := math.Pow(src.Float64(), 1/float64(d)) / math.Sqrt(squares)
		for j := range x {
			x[j] *= length
		}
		arms[i] = x
	}
	return arms
}

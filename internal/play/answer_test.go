package play_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// twoSums asks for the sum of (reward, reward times feature) and for that of a feature's square.
func twoSums(people int) learn.Question {
	return learn.Question{Form: learn.Sums, People: people, Statistics: []learn.Statistic{
		{Name: "moments", Lower: []float64{-1, -1}, Upper: []float64{1, 1}, Diameter: 2 * math.Sqrt2, Diameter1: 4,
			Share: 2, Vector: func(dst []float64, r learn.Record) []float64 {
				return append(dst, r.Reward, r.Reward*r.Arm[0])
			}},
		{Name: "square", Lower: []float64{0}, Upper: []float64{1}, Diameter: 1, Diameter1: 1,
			Vector: func(dst []float64, r learn.Record) []float64 { return append(dst, r.Arm[0]*r.Arm[0]) }},
	}}
}

// fewKinds are records of so many people, in three kinds; apart gives a record to each of them.
func fewKinds(people int, apart bool) []learn.Record {
	kinds := []learn.Record{{Arm: []float64{0.31}, Reward: 0.77, Times: people / 2},
		{Arm: []float64{-0.9}, Reward: -0.123, Times: people / 4},
		{Arm: []float64{0.05}, Reward: 1, Times: people - people/2 - people/4}}
	if !apart {
		return kinds
	}
	var all []learn.Record
	for _, k := range kinds {
		for range k.Times {
			all = append(all, learn.Record{Arm: k.Arm, Reward: k.Reward})
		}
	}
	return all
}

func answered(t testing.TB, c *play.Channel, q learn.Question, records []learn.Record) learn.Answer {
	t.Helper()
	a, err := c.Answer(q, slices.Values(records))
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Check(a); err != nil {
		t.Fatal(err)
	}
	return a
}

func channel(trust plan.Channel, epsilon float64) *play.Channel {
	return &play.Channel{Trust: trust, Epsilon: epsilon, Delta: 1e-6, Noise: rand.NewChaCha8([32]byte{8})}
}

// Sums are exact in the clear, and in every trust without bias and with the variance that is stated. Five standard
// errors: false alarm 6e-7 for each number, seeds fixed. A variance wrong by a tenth would be noticed. Where devices
// round, the stated variance is that of the worst fractions, and may be too large by a quarter.
func TestSumsAreUnbiasedAndStateTheirVariance(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	const people, runs = 400, 6000
	q := twoSums(people)
	exact := answered(t, channel(play.Clear, 1), q, fewKinds(people, true))
	for _, s := range exact.Sums {
		for _, v := range s.Variance {
			if v != 0 {
				t.Errorf("noise of variance %v in the clear", v)
			}
		}
	}
	if want := 200*0.77 - 100*0.123 + 100; math.Abs(exact.Sums[0].Values[0]-want) > 1e-9 || exact.People != people {
		t.Errorf("the exact sum is %v of %d people, want %v of %d", exact.Sums[0].Values[0], exact.People, want, people)
	}
	pure := q
	pure.Pure = true
	for _, c := range []struct {
		name  string
		trust plan.Channel
		q     learn.Question
		apart bool
		slack float64
	}{{"local", plan.Local, q, false, 0}, {"central", plan.Central, q, true, 0},
		{"shuffle", plan.Shuffle, q, false, 0.25},
		{"shuffle, records apart", plan.Shuffle, q, true, 0.25}, {"shares", plan.Shares, q, false, 0.25},
		{"pure local", plan.Local, pure, false, 0}, {"pure central", plan.Central, pure, false, 0}} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.apart {
				t.Skip("nothing of it runs at the same time as anything else")
			}
			ch, records := channel(c.trust, 1), fewKinds(people, c.apart)
			var sum, squares, variance [3]float64
			for range runs {
				a := answered(t, ch, c.q, records)
				k := 0
				for i, s := range a.Sums {
					for j, v := range s.Values {
						gap := v - exact.Sums[i].Values[j]
						sum[k], squares[k], variance[k] = sum[k]+gap, squares[k]+gap*gap, s.Variance[j]
						k++
					}
				}
				if a.People != people {
					t.Fatalf("%d people", a.People)
				}
			}
			for k := range sum {
				if z := sum[k] / math.Sqrt(runs*variance[k]); math.Abs(z) > 5 {
					t.Errorf("number %d is off by %v standard errors", k, z)
				}
				ratio := squares[k] / runs / variance[k]
				if ratio > 1.12 || ratio < 0.88-c.slack {
					t.Errorf("number %d: %v of the variance that is stated", k, ratio)
				}
			}
		})
	}
}

// The certified guarantee of what the channels send is within the budget, and half of the noise is not: recomputed from
// the encodings with the noise of the smallest cohort, one report of which is not counted.
func TestIntegersKeepTheirBudget(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	for _, trust := range []plan.Channel{plan.Shuffle, plan.Shares} {
		for _, people := range []int{60, 400, 20_000} {
			for _, epsilon := range []float64{0.5, 3} {
				c, q := channel(trust, epsilon), twoSums(people)
				s, err := c.Solution(q)
				if err != nil {
					t.Errorf("%s, %d people, epsilon %v: %v", trust, people, epsilon, err)
					continue
				}
				honest := int(math.Ceil(0.95*float64(people))) - 1
				spent := func(noise float64) float64 {
					var all []privacy.Guarantee
					for i, r := range s.Releases {
						of := q.Statistics[i]
						e := r.Encoding
						e.NoiseBits = uint32(noise * float64(e.NoiseBits))
						if e.NoiseBits == 0 {
							return math.Inf(1)
						}
						release, err := privacy.ReleaseOf(privacy.Vector{Name: of.Name, Lower: of.Lower,
							Upper: of.Upper, Diameter: of.Diameter}, e, honest, s.TailDelta)
						if err != nil {
							t.Fatal(err)
						}
						g, err := privacy.Certify(release)
						if err != nil {
							g = privacy.NoGuarantee()
						}
						all = append(all, g)
					}
					return privacy.Compose(all...).Epsilon(c.Delta)
				}
				if e := spent(1); !(e <= epsilon) || e < 0.5*epsilon {
					t.Errorf("%s, %d people: epsilon %v of %v", trust, people, e, epsilon)
				}
				if e := spent(0.5); !(e > epsilon) {
					t.Errorf("%s, %d people: half of the noise has epsilon %v of %v", trust, people, e, epsilon)
				}
			}
		}
	}
}

// What a trust does not give is refused.
func TestAnswersAreRefused(t *testing.T) {
	records := fewKinds(100, true)
	pure, mixed, own := twoSums(100), twoSums(100), twoSums(100)
	pure.Pure = true
	mixed.Statistics[0].Noise = mechanism.Gaussian{Sigma: 1}
	for i := range own.Statistics {
		own.Statistics[i].Noise = mechanism.Gaussian{Sigma: 3}
	}
	late, few := twoSums(200), twoSums(1)
	form := func(f learn.Form) learn.Question { q := twoSums(100); q.Form = f; return q }
	for _, c := range []struct {
		name  string
		trust plan.Channel
		q     learn.Question
		want  string
	}{
		{"records from devices", plan.Local, form(learn.Records), "does not give"},
		{"records through a shuffler", plan.Shuffle, form(learn.Records), "does not give"},
		{"reports at a curator", plan.Central, form(learn.Reports), "does not give"},
		{"reports through a shuffler", plan.Shuffle, form(learn.Reports), "does not give"},
		{"reports in shares", plan.Shares, form(learn.Reports), "does not give"},
		{"pure sums through a shuffler", plan.Shuffle, pure, "delta"},
		{"pure sums of shares", plan.Shares, pure, "delta"},
		{"some noise of its own", plan.Shuffle, mixed, "of their own"},
		{"too few reports", plan.Shuffle, late, "needs 190"},
		{"nobody to hide among", plan.Shares, few, "dishonest"},
	} {
		if a, err := channel(c.trust, 1).Answer(c.q, slices.Values(records)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
	}
	a := answered(t, channel(plan.Shuffle, 1), own, records)
	if v := a.Sums[1].Variance[0]; math.Abs(v/9-1) > 1e-6 {
		t.Errorf("a paper's own noise of variance 9 has %v", v)
	}
	exact := answered(t, channel(play.Clear, 1), own, records)
	for _, trust := range []plan.Channel{plan.Shuffle, plan.Shares, plan.Central, plan.Local} {
		a := answered(t, channel(trust, math.Inf(1)), twoSums(100), records)
		if !slices.Equal(a.Sums[0].Values, exact.Sums[0].Values) || a.Sums[0].Variance[0] != 0 {
			t.Errorf("%s without privacy: %+v, want %+v", trust, a.Sums, exact.Sums)
		}
	}
}

// Many people with one record cost no more time than one.
func TestManyPeopleWithOneRecordAreCheap(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	const people = 1_000_000
	a := answered(t, channel(plan.Shares, 1), twoSums(people), fewKinds(people, false))
	if mean, deviation := a.Mean(0); a.People != people || math.Abs(mean[0]-(0.385-0.03075+0.25)) > 6*deviation ||
		deviation > 1e-4 {
		t.Errorf("mean %v, deviation %v, of %d people", mean, deviation, a.People)
	}
}

// The statistics of a question share the budget, whatever their shares: what all of them reveal together, from the
// noise that is in the reports, is the budget, and with half the noise it is more. The variance of 20,000 draws is
// within 9 % but for one run in 1e6. Statistics with noise of their own take their share, too.
func TestStatisticsShareTheBudget(t *testing.T) {
	const people, epsilon = 20_000, 2.
	for _, pure := range []bool{false, true} {
		for _, form := range []learn.Form{learn.Sums, learn.Reports} {
			c, q := channel(plan.Local, epsilon), twoSums(people)
			q.Form, q.Pure = form, pure
			variance := make([]float64, len(q.Statistics))
			record := learn.Record{Arm: []float64{0.5}, Reward: 0.25, Times: people}
			a := answered(t, c, q, []learn.Record{record})
			for i, s := range q.Statistics {
				if form == learn.Sums {
					variance[i] = a.Sums[i].Variance[0] / people
				}
				exact := s.Vector(nil, record)
				for _, report := range a.Reports {
					variance[i] += (report[i][0] - exact[0]) * (report[i][0] - exact[0]) / people
				}
			}
			rho, err := mechanism.Budget(c.Epsilon, c.Delta)
			if err != nil {
				t.Fatal(err)
			}
			spent := 0.0 // of the budget
			for i, s := range q.Statistics {
				if pure {
					spent += s.Diameter1 / math.Sqrt(variance[i]/2) / epsilon
				} else {
					spent += s.Diameter * s.Diameter / (2 * variance[i]) / rho
				}
			}
			if !(math.Abs(spent-1) < 0.09) {
				t.Errorf("%s, pure %v: %v of the budget", form, pure, spent)
			}
		}
	}
	c, q := channel(plan.Local, epsilon), twoSums(1)
	alone := answered(t, c, q, fewKinds(1, false)[2:]).Sums[0].Variance[0]
	q.Statistics[1].Noise = mechanism.Gaussian{Sigma: 1}
	if got := answered(t, c, q, fewKinds(1, false)[2:]).Sums[0].Variance[0]; got < alone*(1-1e-9) {
		t.Errorf("beside a statistic with noise of its own the variance falls from %v to %v", alone, got)
	}
}

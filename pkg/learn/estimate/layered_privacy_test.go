package estimate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// layeredQuestions are the questions of a run with three oracles, and the number of people asked.
func layeredQuestions(t *testing.T, s learn.Setting) (questions []learn.Question, people int) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 1))
	w, n := layeredDirections(0), 1_000_000
	c := &play.Channel{Trust: plan.Local, Epsilon: s.Epsilon, Delta: s.Delta, Noise: rand.NewPCG(7, 2)}
	_, _, err := estimate.LayeredOracles(s, 3, n, func(q learn.Question) (learn.Answer, error) {
		questions, people = append(questions, q), people+q.People
		records := w.draw(q.People, r)
		for i := range records {
			records[i].Arm = append(slices.Clone(records[i].Arm), make([]float64, s.Dimension)...)[:s.Dimension]
			records[i].Tag = i % 3
		}
		return c.Answer(q, slices.Values(records))
	})
	if err != nil {
		t.Fatal(err)
	}
	return questions, people
}

// anyRecord draws a record that no honest device has.
func anyRecord(d int, r *rand.Rand) learn.Record {
	x := make([]float64, d)
	length := math.Exp(-3 * r.Float64())
	for j := range x {
		x[j] = r.NormFloat64() * length
	}
	record := learn.Record{Arm: x, Reward: float64(2*r.IntN(2) - 1), Tag: r.IntN(3)}
	switch r.IntN(8) {
	case 0:
		record = learn.Record{}
	case 1:
		x[0] = math.NaN()
	case 2:
		x[0] = math.Inf(1)
	case 3:
		record.Reward = 50 * r.NormFloat64()
	case 4:
		record.Tag = 9
	case 5: // coordinates of equal size
		for j := range x {
			x[j] = math.Copysign(length/math.Sqrt(float64(d)), x[j])
		}
	}
	return record
}

func distances(v, w []float64) (l1, l2 float64) {
	for i := range v {
		l1, l2 = l1+math.Abs(v[i]-w[i]), l2+(v[i]-w[i])*(v[i]-w[i])
	}
	return l1, math.Sqrt(l2)
}

// No pair of records, of three oracles and of none, moves a statistic farther than it says, in any question of a run;
// every coordinate is within its bounds; and the bounds of counts and vectors are nearly attained, so that they are not
// too wide. A report's length says nothing of its record: who is in no bin sends zeros. The same holds where each
// oracle has one bin, whose counts move by half as much in one oracle as in two.
func TestLayeredOraclesAgainstBruteForce(t *testing.T) {
	for _, d := range []int{1, 2, 3} {
		for _, bins := range []float64{1, 3} {
			r := rand.New(rand.NewPCG(uint64(d), 5))
			s := layeredSetting(d, 4)
			s.Options = map[string]float64{"bins": bins}
			questions, _ := layeredQuestions(t, s)
			if want := 2*d - 1; len(questions) != want {
				t.Fatalf("%d questions in dimension %d, want %d", len(questions), d, want)
			}
			for i, q := range questions {
				reached := bruteForce(t, q, d, 2000, r)
				if i == 0 && (reached[0] < 1-1e-8 || reached[1] < .9) {
					t.Errorf("d = %d: the largest moves are only %v of the bounds", d, reached)
				}
			}
		}
	}
}

// bruteForce holds the statistics of a question to what they say of random pairs of records, and returns the largest
// moves in l1 as parts of what is said.
func bruteForce(t *testing.T, q learn.Question, d, pairs int, r *rand.Rand) []float64 {
	t.Helper()
	reached := make([]float64, len(q.Statistics))
	for range pairs {
		a, b := anyRecord(d, r), anyRecord(d, r)
		if r.IntN(3) == 0 && len(a.Arm) > 0 {
			b = learn.Record{Arm: slices.Clone(a.Arm), Reward: -a.Reward, Tag: a.Tag}
		}
		for i, statistic := range q.Statistics {
			v, w := statistic.Vector(nil, a), statistic.Vector(nil, b)
			if len(v) != statistic.Dim() || len(w) != statistic.Dim() {
				t.Fatalf("d = %d: reports of %d and %d numbers for %d of %s", d, len(v), len(w), statistic.Dim(),
					statistic.Name)
			}
			l1, l2 := distances(v, w)
			reached[i] = max(reached[i], l1/statistic.Diameter1)
			if !(l1 <= statistic.Diameter1 && l2 <= statistic.Diameter) {
				t.Fatalf("d = %d, %s moves by %v in l1 and %v in l2 from %v to %v: more than %v and %v", d,
					statistic.Name, l1, l2, a, b, statistic.Diameter1, statistic.Diameter)
			}
			for j, x := range v {
				if !(x >= statistic.Lower[j] && x <= statistic.Upper[j]) {
					t.Fatalf("d = %d, coordinate %d of %s is %v, outside [%v, %v]", d, j, statistic.Name, x,
						statistic.Lower[j], statistic.Upper[j])
				}
			}
		}
	}
	return reached
}

// spent is what one record reveals by its answer to a question, from the noise that the channel local gives it times
// factor.
func spent(t *testing.T, q learn.Question, s learn.Setting, factor float64) (sum privacy.Guarantee) {
	t.Helper()
	// The deviation of what comes back, and not what the estimator asked for, says how much noise there was.
	one := q
	one.People = 1
	c := &play.Channel{Trust: plan.Local, Epsilon: s.Epsilon, Delta: s.Delta, Noise: rand.NewPCG(3, 3)}
	a, err := c.Answer(one, slices.Values([]learn.Record{{}}))
	if err != nil {
		t.Fatal(err)
	}
	for i, statistic := range q.Statistics {
		deviation := factor * math.Sqrt(a.Sums[i].Variance[0])
		of := mechanism.Sensitivity{Dim: statistic.Dim(), L2: statistic.Diameter, L1: statistic.Diameter1}
		g := mechanism.Laplace{Scale: deviation / math.Sqrt2}.Guarantee(of)
		if statistic.Noise != nil {
			g = statistic.Noise.Guarantee(of)
		} else if !q.Pure {
			g = mechanism.Gaussian{Sigma: deviation}.Guarantee(of)
		}
		sum.Pure, sum.Rho, sum.Mu = sum.Pure+g.Pure, sum.Rho+g.Rho, sum.Mu+g.Mu
	}
	return sum
}

// Each question of a run spends at most the budget of a person, who answers no other, and nearly all of it. Half the
// noise spends twice as much. The literal variant promises nothing for sums, and twice epsilon for errors.
func TestLayeredSpendsItsBudget(t *testing.T) {
	for _, variant := range []string{"", estimate.LayeredThirds, estimate.LayeredGauss, estimate.LayeredLiteral} {
		s := layeredSetting(2, 1)
		s.Variant = variant
		questions, people := layeredQuestions(t, s)
		if people > 1_000_000 {
			t.Errorf("%d people were asked, of 1000000", people)
		}
		for i, q := range questions {
			full, half := spent(t, q, s, 1), spent(t, q, s, .5)
			switch variant {
			case estimate.LayeredLiteral:
				if i < 2 && !math.IsInf(full.Mu, 1) || i == 2 && full.Pure < 1.9*s.Epsilon {
					t.Errorf("question %d of the literal variant promises %+v", i, full)
				}
			case estimate.LayeredGauss:
				d, weak := privacy.DeltaOfRho(full.Rho, s.Epsilon), privacy.DeltaOfRho(half.Rho, s.Epsilon)
				if !(d <= s.Delta && d > .9*s.Delta) || weak < 100*s.Delta || full.Pure+full.Mu > 0 {
					t.Errorf("question %d: delta %v, with half the noise %v, of %v", i, d, weak, s.Delta)
				}
			default:
				if !(full.Pure <= s.Epsilon && full.Pure > .98*s.Epsilon) || full.Mu != 0 || full.Rho != 0 ||
					half.Pure < 1.9*s.Epsilon {
					t.Errorf("question %d of %q: %+v, with half the noise %+v, of epsilon %v", i, variant, full, half,
						s.Epsilon)
				}
			}
		}
	}
}

// audit returns the largest excess, in standard errors, of the log ratio of two inputs' frequencies over epsilon, among
// the cells of a histogram of released values that are frequent under one of them.
func audit(release func(second bool) float64, epsilon, low, high float64, runs int) float64 {
	const cells = 40
	var count [2][cells + 2]float64
	for i := range count {
		for range runs {
			cell := int(math.Floor((release(i == 1)-low)/(high-low)*cells)) + 1
			count[i][min(cells+1, max(0, cell))]++
		}
	}
	worst := math.Inf(-1)
	for k := range count[0] {
		for i := range count {
			a, b := count[i][k], count[1-i][k]
			if a >= 100 {
				b = max(b, 1) // one more than there is: against the alarm
				worst = max(worst, (math.Log(a/b)-epsilon)/math.Sqrt(1/a+1/b))
			}
		}
	}
	return worst
}

// The densities of one report of a matrix in dimension 1, under features of norm 0 and of 1, have a ratio of at most
// e^(epsilon/6) in the sound variants: the matrix has a third of epsilon, and a record that leaves its bin for none
// uses half of this. They have no bound in the literal one: features of 1 give nothing below 1 less the noise's mean,
// and features of 0 do in a share of 1-e^(-epsilon/9) of reports. With epsilon 3, an alarm at 4 standard errors in one
// of 84 cells is false in less than one of 300 tests of other seeds. Half the noise has a log ratio of 1 in place of
// .5, which is 5 standard errors off and more in every cell of 200, and the literal variant has some 1700 of 6000
// reports in cells that are empty under the other input: both are missed in less than one of 1000 tests.
func TestLayeredDensityAudit(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	for _, c := range []struct {
		variant string
		factor  float64
		alarm   bool
	}{{"", 1, false}, {estimate.LayeredThirds, 1, false}, {"", .5, true}, {estimate.LayeredLiteral, 1, true}} {
		s := layeredSetting(1, 3)
		s.Variant = c.variant
		questions, _ := layeredQuestions(t, s)
		q := questions[0]
		q.People, q.Statistics = 1, q.Statistics[2:]
		if c.variant != estimate.LayeredLiteral {
			noise, err := mechanism.ForEpsilon(mechanism.Sensitivity{Dim: q.Statistics[0].Dim(),
				L1: q.Statistics[0].Diameter1}, s.Epsilon/3)
			if err != nil {
				t.Fatal(err)
			}
			q.Statistics[0].Noise = mechanism.Laplace{Scale: c.factor * noise.(mechanism.Laplace).Scale}
		}
		channel := &play.Channel{Trust: plan.Local, Epsilon: s.Epsilon, Noise: rand.NewPCG(11, 3)}
		release := func(full bool) float64 {
			r := learn.Record{Arm: []float64{0}}
			if full {
				r.Arm[0] = 1
			}
			a, err := channel.Answer(q, slices.Values([]learn.Record{r}))
			if err != nil {
				t.Fatal(err)
			}
			return a.Sums[0].Values[0]
		}
		excess := audit(release, s.Epsilon/6, -5.5, 6.5, 6_000)
		t.Logf("%q, noise times %v: %.1f standard errors", c.variant, c.factor, excess)
		if c.alarm != (excess > 4) {
			t.Errorf("%q, noise times %v: the largest log ratio exceeds epsilon/6 by %v standard errors", c.variant,
				c.factor, excess)
		}
	}
}

package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// A report of several decisions lies in the convex hull of the vectors of single records (docs/privacy.md, "Several
// decisions in one report"). Here pairs of people attack what that promises: every bound of every statistic and family,
// and the joint spread. The same attack must break a report that is made otherwise.

const attackDecisions = 7 // K_max

// reporting makes one release's vector of a person's records, as statistic.Statistic.Report does.
type reporting func(s statistic.Statistic, records []statistic.Record) ([]float64, error)

func honestly(s statistic.Statistic, records []statistic.Record) ([]float64, error) {
	return s.Report(nil, records, attackDecisions)
}

func times(x []float64, by float64) []float64 {
	for i := range x {
		x[i] *= by
	}
	return x
}

// target is one family at one point with all statistics, and what their bounds are.
type target struct {
	name       string
	theta      []float64
	least, top float64 // of rewards
	statistics []statistic.Statistic
	bounds     []statistic.Bounds
	spreads    []spreadAt
}

// spreadAt is the joint spread of an outer product (by its place among the statistics) and the gradient.
type spreadAt struct {
	outer        int
	a, b, spread float64
}

const gradientAt = 1 // the gradient's place among the statistics: Hessian, gradient, covariance, rewards

func targets(t *testing.T) (all []target) {
	for i, name := range []string{"logistic", "probit", "linear", "poisson", "gaussian"} {
		for j, norm := range []float64{0, 0.8, 2.5} {
			d := 1 + (i+2*j)%4
			most := 1.0
			if i >= 3 {
				most = 3
			}
			f, err := family.New(name, most)
			if err != nil {
				t.Fatal(err)
			}
			theta := make([]float64, d)
			for k := range theta {
				theta[k] = norm / math.Sqrt(float64(d)) * []float64{1, -1}[k%2]
			}
			x := target{name: fmt.Sprintf("%s, d %d, norm %v", name, d, norm), theta: theta, least: f.MinReward(),
				top: f.MaxReward()}
			score := glm.Score(f, glm.Practical)
			for _, make := range []func() (statistic.Statistic, error){
				func() (statistic.Statistic, error) { return statistic.NewHessian(score, theta) },
				func() (statistic.Statistic, error) { return statistic.NewGradient(score, theta) },
				func() (statistic.Statistic, error) { return statistic.NewCovariance(d, 0.7) },
				func() (statistic.Statistic, error) { return statistic.NewRewards(f, d) },
			} {
				s, err := make()
				if err != nil {
					t.Fatal(err)
				}
				b, err := s.Bounds()
				if err != nil {
					t.Fatal(err)
				}
				x.statistics, x.bounds = append(x.statistics, s), append(x.bounds, b)
			}
			for _, outer := range []int{0, 2} {
				spread, err := statistic.JointSpread(x.statistics[outer], x.statistics[gradientAt])
				if err != nil {
					t.Fatal(err)
				}
				ratio := math.Pow(x.bounds[outer].Diameter/x.bounds[gradientAt].Diameter, 2)
				for _, b := range []float64{0.3 * ratio, 2 * ratio} {
					x.spreads = append(x.spreads, spreadAt{outer, 1, b, spread([]float64{1, b})})
				}
			}
			all = append(all, x)
		}
	}
	return all
}

// record is one that an attacker chooses: often at the borders of everything, sometimes beyond them.
func (x target) record(r *rand.Rand) statistic.Record {
	arm, square := make([]float64, len(x.theta)), 0.0
	for i := range arm {
		arm[i] = r.NormFloat64()
		if n := r.IntN(4); n < 2 { // along the parameter, or against it
			arm[i] = 0.1*arm[i] + 3*x.theta[i]*float64(2*n-1)
		}
		square += arm[i] * arm[i]
	}
	for i := range arm {
		arm[i] *= []float64{1, 1, 0.5, 3}[r.IntN(4)] / math.Sqrt(square)
	}
	return statistic.Record{Arm: arm, Reward: []float64{x.least, x.top, x.least - 1, x.top + 5,
		x.least + (x.top-x.least)*r.Float64()}[r.IntN(5)], Weight: []float64{0, 0.7, 2, -1, r.Float64()}[r.IntN(5)],
		Control: r.IntN(2) == 0, Null: r.IntN(12) == 0}
}

// person is up to attackDecisions records: any, or copies of one, which are the corners of the hull.
func (x target) person(r *rand.Rand) []statistic.Record {
	out := make([]statistic.Record, r.IntN(attackDecisions+1))
	if r.IntN(2) == 0 {
		return slices.Repeat([]statistic.Record{x.record(r)}, attackDecisions)
	}
	for i := range out {
		out[i] = x.record(r)
	}
	return out
}

func distance(x, y []float64) (square float64) {
	for i := range x {
		square += (x[i] - y[i]) * (x[i] - y[i])
	}
	return square
}

// attack plays pairs of people, at random and from the best ones on, against every bound. reached is by target and
// bound the largest part of it, in squares, that a pair came to.
func (x target) attack(t *testing.T, r *rand.Rand, pairs int, of reporting) (reached []float64, wrongSums int) {
	reached = make([]float64, len(x.statistics)+len(x.spreads)+1)
	best := make([][2][]statistic.Record, len(reached))
	single := make([]float64, 0, 32)
	for i := range pairs {
		p, q := x.person(r), x.person(r)
		if from := best[i%len(best)]; i > pairs/3 && from[0] != nil { // climb
			p, q = slices.Clone(from[0]), slices.Clone(from[1])
			for _, one := range [][]statistic.Record{p, q} {
				if len(one) > 0 && r.IntN(2) == 0 {
					one[r.IntN(len(one))] = x.record(r)
				}
			}
		}
		vectors := [2][][]float64{}
		score := make([]float64, 0, len(reached))
		outside := 0.0
		for k, s := range x.statistics {
			for side, records := range [][]statistic.Record{p, q} {
				v, err := of(s, records)
				if err != nil {
					t.Fatal(err)
				}
				vectors[side] = append(vectors[side], v)
				sum := make([]float64, len(v))
				for _, one := range records {
					single, err = s.Vector(single, one)
					if err != nil {
						t.Fatal(err)
					}
					for c := range sum {
						sum[c] += single[c]
					}
				}
				if distance(times(sum, 1.0/attackDecisions), v) > 1e-24 {
					wrongSums++
				}
				for c := range v {
					lower, upper := x.bounds[k].Lower[c], x.bounds[k].Upper[c]
					outside = math.Max(outside, 1+math.Max(lower-v[c], v[c]-upper)/(upper-lower))
				}
			}
			score = append(score, distance(vectors[0][k], vectors[1][k])/math.Pow(x.bounds[k].Diameter, 2))
		}
		for _, s := range x.spreads {
			score = append(score, (s.a*distance(vectors[0][s.outer], vectors[1][s.outer])+
				s.b*distance(vectors[0][gradientAt], vectors[1][gradientAt]))/s.spread)
		}
		for k, v := range append(score, outside) {
			if v > reached[k] {
				reached[k], best[k] = v, [2][]statistic.Record{p, q}
			}
		}
	}
	return reached, wrongSums
}

func TestReportsOfSeveralDecisionsKeepEveryBound(t *testing.T) {
	pairs := 60_000
	if testing.Short() { // on another platform, which computes the same
		pairs = 6_000
	}
	all := targets(t)
	r := rand.New(rand.NewPCG(13, 7))
	tight := make([]float64, 0)
	for _, x := range all {
		reached, wrong := x.attack(t, r, pairs/len(all), honestly)
		if wrong > 0 {
			t.Errorf("%s: %d reports are not the sum of their records over K_max", x.name, wrong)
		}
		for k, v := range reached {
			if !(v <= 1) {
				t.Errorf("%s: bound %d is exceeded: %v of it", x.name, k, v)
			}
			tight = append(tight, v)
		}
	}
	slices.Sort(tight)
	if median := tight[len(tight)/2]; median < 0.9 { // an attack that comes close to nothing shows nothing
		t.Errorf("half of the bounds are reached to %v and less", median)
	}
}

// What the conditions are for: each of these reports exceeds a bound, or makes another sum than that of the decisions.
func TestReportsThatAreMadeOtherwiseBreakABound(t *testing.T) {
	for name, of := range map[string]reporting{
		"divided by K_max - 1": func(s statistic.Statistic, records []statistic.Record) ([]float64, error) {
			v, err := honestly(s, records)
			return times(v, attackDecisions/(attackDecisions-1.0)), err
		},
		"not divided": func(s statistic.Statistic, records []statistic.Record) ([]float64, error) {
			v, err := honestly(s, records)
			return times(v, attackDecisions), err
		},
		"divided by the number of decisions": func(s statistic.Statistic, records []statistic.Record) ([]float64,
			error) {
			v, err := honestly(s, records)
			return times(v, attackDecisions/math.Max(1, float64(len(records)))), err
		},
		"other records in the gradient": func(s statistic.Statistic, records []statistic.Record) ([]float64, error) {
			if s.Kind == statistic.Gradient {
				records = slices.Clone(records)
				for i := range records { // opposite arms, whatever those of the outer products are
					sign := map[bool]float64{true: 1, false: -1}[records[i].Control]
					records[i].Arm = times(slices.Repeat([]float64{1}, s.ArmDim), sign/math.Sqrt(float64(s.ArmDim)))
				}
			}
			return honestly(s, records)
		},
	} {
		exceeded, wrong := 0, 0
		r := rand.New(rand.NewPCG(13, 7))
		for _, x := range targets(t) {
			reached, sums := x.attack(t, r, 150, of)
			wrong += sums
			for _, v := range reached {
				if v > 1 {
					exceeded++
				}
			}
		}
		unbiased := name != "divided by the number of decisions" // that keeps to the hull, and biases what is learned
		if exceeded == 0 && unbiased || wrong == 0 {
			t.Errorf("%s: %d bounds are exceeded, %d sums are wrong", name, exceeded, wrong)
		}
	}
}

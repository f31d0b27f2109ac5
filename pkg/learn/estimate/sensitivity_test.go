package estimate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// wild draws a record as a hostile or broken device may have one.
func wild(rng *rand.Rand, d int) learn.Record {
	r := learn.Record{Arm: unit(rng, d), Reward: 3 * rng.NormFloat64()}
	switch rng.IntN(12) {
	case 0:
		r.Arm = make([]float64, d)
	case 1:
		r.Arm[0] = math.NaN()
	case 2:
		r.Arm[0] = 1e200
	case 3:
		r.Reward = math.Inf(1)
	case 4:
		r.Reward = math.NaN()
	case 5:
		r.Arm = r.Arm[:d-1]
	case 6:
		for i := range r.Arm {
			r.Arm[i] *= 1e-13
		}
	case 7: // along an axis, where ill-conditioned matrices are worst
		r.Arm = make([]float64, d)
		r.Arm[rng.IntN(d)] = float64(2*rng.IntN(2) - 1)
	}
	return r
}

// partner is a record for which the distance is large: nearly the same arm, a little turned, with another reward.
func partner(rng *rand.Rand, r learn.Record) learn.Record {
	out := learn.Record{Arm: append([]float64(nil), r.Arm...), Reward: -r.Reward}
	turn := math.Pow(10, -6*rng.Float64())
	for i := range out.Arm {
		out.Arm[i] += turn * rng.NormFloat64()
	}
	return out
}

func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}

// No two records' vectors are farther apart than the diameter, and every coordinate is within its bounds, for wild
// records and matrices of a condition up to 10^6; and each diameter is reached up to a few per cent, so that a tighter
// one would be wrong.
func TestSensitivities(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	reached := map[string]float64{}
	families := []family.Family{family.Linear{}, family.Logistic{}}
	pairs := 4000
	if testing.Short() {
		pairs = 400
	}
	for k := range pairs {
		d := 2 + rng.IntN(3)
		n, err := estimate.NewNormalization(diagonal(rng, d), 0.1)
		if err != nil {
			t.Fatal(err)
		}
		family := families[k%2]
		theta := make([]float64, d)
		theta[rng.IntN(d)] = 1
		for _, kind := range []statistic.Kind{statistic.Normalization, statistic.ReweightedGradient,
			statistic.ReweightedLinear} {
			s, err := n.Statistic(kind, family, theta)
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				r := wild(rng, d)
				q := wild(rng, d)
				if rng.IntN(2) == 0 {
					q = partner(rng, r)
				}
				if rng.IntN(2) == 0 && len(r.Arm) == d { // about theta, where residuals are largest
					copy(r.Arm, theta)
					for i := range r.Arm {
						r.Arm[i] += 1e-3 * rng.NormFloat64()
					}
					q = partner(rng, r)
					r.Reward, q.Reward = -9, -9
				}
				a, b := s.Vector(nil, r), s.Vector(nil, q)
				if len(a) != s.Dim() || len(b) != s.Dim() || len(s.Upper) != s.Dim() {
					t.Fatalf("%s: %d and %d coordinates, not %d", s.Name, len(a), len(b), s.Dim())
				}
				for j, v := range a {
					if !(v >= s.Lower[j]-1e-9 && v <= s.Upper[j]+1e-9) {
						t.Fatalf("%s: coordinate %d of %+v is %v, outside [%v, %v]", s.Name, j, r, v, s.Lower[j],
							s.Upper[j])
					}
				}
				gap := distance(a, b)
				if !(gap <= s.Diameter) {
					t.Fatalf("%s: %+v and %+v are %v apart, the diameter is %v", s.Name, r, q, gap, s.Diameter)
				}
				name := s.Name + " " + family.Name()
				reached[name] = math.Max(reached[name], gap/s.Diameter)
			}
		}
	}
	for name, v := range reached {
		if v < 0.93 && !testing.Short() {
			t.Errorf("%s: the largest distance found is %.3f of the diameter", name, v)
		}
	}
}

func diagonal(rng *rand.Rand, d int) *mat.SymDense {
	u := mat.NewSymDense(d, nil)
	for i := range d {
		u.SetSym(i, i, math.Pow(10, 6*rng.Float64()-3))
	}
	return u
}

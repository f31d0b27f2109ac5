package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// meanOf is the exact answer of people with these arms, and rewards of 0.
func meanOf(arms [][]float64) learn.Asker {
	return func(q learn.Question) (learn.Answer, error) {
		s := q.Statistics[0]
		sum := learn.Sum{Values: make([]float64, s.Dim()), Variance: make([]float64, s.Dim())}
		for _, x := range arms {
			for j, v := range s.Vector(nil, learn.Record{Arm: x}) {
				sum.Values[j] += v / float64(len(arms)) * float64(q.People)
			}
		}
		return learn.Answer{People: q.People, Sums: []learn.Sum{sum}}, nil
	}
}

// The one ellipsoid of a reweighted linear model is never inside the sum of its two half-widths, and hardly outside it:
// for people whose features have very different scales, at all shares of the two, with noise in the matrices.
func TestOneEllipsoidCostsLittle(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 12))
	for _, c := range []struct {
		scales []float64
		rare   float64 // share of the arms that lie along the last axis, where others do not
		most   float64 // of the bound over the sum
	}{{[]float64{1, 1, 1, 1, 1}, 0, 1.001}, {[]float64{1, 0.5, 0.2, 0.1, 0.05}, 0, 1.001},
		{[]float64{1, 0.01}, 0, 1.002},
		{[]float64{1, 1}, 0.01, 1.2}, {[]float64{1, 1, 1}, 0.1, 1.1}} {
		scales := c.scales
		d, lambda := len(scales), 1e-3
		var arms [][]float64
		for k := range 400 {
			x := make([]float64, d)
			for i := range x {
				if rare := float64(k) < 400*c.rare; c.rare == 0 || rare == (i == d-1) {
					x[i] = scales[i] * rng.NormFloat64() / 3
				}
			}
			arms = append(arms, clippedTo(x))
		}
		constant := func(int, int, float64) float64 { return lambda }
		n, err := Normalize(d, 1000, 10, constant, isometric, nil, meanOf(arms))
		if err != nil {
			t.Fatal(err)
		}
		s, err := n.Statistic(statistic.ReweightedLinear, family.Linear{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := meanOf(arms)(learn.Question{Form: learn.Sums, People: 1, Statistics: []learn.Statistic{s}})
		if err != nil {
			t.Fatal(err)
		}
		mean, worst, average := answer.Sums[0].Values, 0.0, 0.0
		for j := range mean {
			mean[j] += 1e-4 * rng.NormFloat64()
		}
		for _, share := range []float64{0.01, 0.1, 0.3, 1, 3, 10, 100} {
			b := linearBound{n: n, solved: 0.01, sampling: 0.01 * share, extra: 1e-3}
			m, err := b.model(mean, isometric)
			if err != nil {
				t.Fatal(err)
			}
			xi, w := mat.NewDense(d, d, nil), symmetric.FromTriangle(mean[d+d*d:], d, isometric)
			for i := range d {
				for j := range d {
					xi.Set(i, j, mean[d+i*d+j])
				}
				xi.Set(i, i, xi.At(i, i)+lambda)
				w.SetSym(i, i, w.At(i, i)+lambda+b.extra)
			}
			for _, x := range arms {
				var v mat.VecDense
				if err := v.SolveVec(xi.T(), mat.NewVecDense(d, x)); err != nil {
					t.Fatal(err)
				}
				sum := b.solved*mat.Norm(&v, 2) + b.sampling*math.Sqrt(mat.Inner(&v, w, &v))
				ratio := m.Bound(x) / sum
				if ratio < 1-1e-9 {
					t.Fatalf("the bound %v is below the sum %v", m.Bound(x), sum)
				}
				worst, average = math.Max(worst, ratio), average+ratio/float64(len(arms)*7)
			}
		}
		t.Logf("%+v: %.4f times the sum on average, %.4f at most", c, average, worst)
		if worst > c.most {
			t.Errorf("%+v: the bound is %v times the sum on average, %v at most", c, average, worst)
		}
	}
}

func clippedTo(x []float64) []float64 {
	x, _ = convex.ToUnitBall(x)
	return x
}

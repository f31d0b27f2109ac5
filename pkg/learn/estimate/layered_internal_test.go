package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// grown is a tree of random points in the unit ball of d dimensions, learned from sums with some noise.
func grown(t *testing.T, d int, noise float64, r *rand.Rand) (*layered, []learn.Record) {
	t.Helper()
	s := learn.Setting{Family: family.Linear{}, Dimension: d, Horizon: 1e6, Radius: 1, Epsilon: 1, Failure: .1}
	theta := ball(d, r)
	var records []learn.Record
	for range 40 {
		x := ball(d, r)
		records = append(records, learn.Record{Arm: x, Reward: convex.Dot(x, theta), Times: 1000})
	}
	models, _, err := LayeredOracles(s, 1, 40_000*(2*d-1), func(q learn.Question) (a learn.Answer, err error) {
		a.People = q.People
		for _, statistic := range q.Statistics {
			sum := learn.Sum{Values: make([]float64, statistic.Dim()), Variance: make([]float64, statistic.Dim())}
			for _, record := range records {
				for j, v := range statistic.Vector(nil, record) {
					sum.Values[j] += 1000 * v
				}
			}
			for j := range sum.Values {
				sum.Values[j] += noise * r.NormFloat64()
				sum.Variance[j] = noise * noise
			}
			a.Sums = append(a.Sums, sum)
		}
		return a, q.Check(a)
	})
	if err != nil {
		t.Fatal(err)
	}
	return models[0].(layeredModel).l, records
}

func ball(d int, r *rand.Rand) []float64 {
	x := make([]float64, d)
	for j := range x {
		x[j] = r.NormFloat64()
	}
	scale := math.Pow(r.Float64(), 1/float64(d)) / convex.Norm(x)
	for j := range x {
		x[j] *= scale
	}
	return x
}

// The way of features through a tree (Figure 2 of the paper): what is left is orthogonal to all directions above, its
// norm is in the shell of its bin, the directions of a way are orthonormal, and what the bins predict adds up to the
// inner product with the sum of their estimates.
func TestLayeredWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	deep := 0
	for range 40 {
		d := 1 + r.IntN(4)
		l, records := grown(t, d, 30, r)
		for _, record := range records {
			var above []*bin
			total, predicted := make([]float64, d), 0.0
			l.walk(l.roots[0], record.Arm, func(b *bin, left []float64) bool {
				for _, a := range above {
					if dot := convex.Dot(a.direction, left); math.Abs(dot) > 1e-12 {
						t.Errorf("what is left has the inner product %v with a direction above", dot)
					}
				}
				norm := convex.Norm(left)
				if b == nil {
					if norm > math.Pow(l.gamma, -float64(l.levels))*(1+1e-8) && len(above) < d {
						t.Errorf("a norm of %v has no bin", norm)
					}
					return false
				}
				outer, inner := math.Pow(l.gamma, -float64(b.level)), math.Pow(l.gamma, -float64(b.level)-1)
				if norm > outer*(1+1e-8) || norm <= inner*(1-1e-8) {
					t.Errorf("a norm of %v is in the bin from %v to %v", norm, inner, outer)
				}
				if !b.active {
					return false
				}
				if len(b.above) != len(above) {
					t.Errorf("a bin has %d ancestors on a way of %d", len(b.above), len(above))
				}
				for i, a := range above {
					if b.above[i] != a || math.Abs(convex.Dot(a.direction, b.direction)) > 1e-12 {
						t.Error("the directions of a way are not orthogonal")
					}
				}
				if math.Abs(convex.Norm(b.direction)-1) > 1e-12 {
					t.Error("a direction is not of norm 1")
				}
				for j, u := range b.direction {
					total[j] += b.value * u
				}
				predicted += b.value * convex.Dot(b.direction, left)
				above = append(above, b)
				return true
			})
			if math.Abs(predicted-convex.Dot(total, record.Arm)) > 1e-12 {
				t.Errorf("bins predict %v, their sum of estimates %v", predicted, convex.Dot(total, record.Arm))
			}
			if len(above) == d {
				deep++
			}
		}
	}
	if deep < 400 {
		t.Errorf("only %d of 1600 ways go through all layers: the test shows little", deep)
	}
}

// Norms at the edges of shells: gamma^-k is of level k, what is a little larger of the level before.
func TestLayeredLevels(t *testing.T) {
	for _, gamma := range []float64{1.5, 2, math.E, 4} {
		l := &layered{gamma: gamma, levels: 9}
		for k := range 9 {
			at := math.Pow(gamma, -float64(k))
			if got := l.level(at); got != k {
				t.Errorf("gamma %v: the norm gamma^-%d is of level %d", gamma, k, got)
			}
			if got := l.level(at * 1.0001); got != max(0, k-1) {
				t.Errorf("gamma %v: a norm above gamma^-%d is of level %d", gamma, k, got)
			}
		}
		for norm, want := range map[float64]int{0: 9, 1e-300: 9, 1.2: 0, math.NaN(): 9} {
			if got := l.level(norm); got != want {
				t.Errorf("gamma %v: the norm %v is of level %d, not %d", gamma, norm, got, want)
			}
		}
	}
}

// Principal component regression of exact moments, in the complement of the directions above: the largest eigenpair
// there, and the parameter's part along it.
func TestLayeredRegressionIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		d := 1 + r.IntN(4)
		l := &layered{dim: d, gamma: 100, phase: 1e6, threshold: 2, radius: 1, value: 1}
		theta := ball(d, r)
		b, axis := &bin{}, r.IntN(d)
		if d > 1 {
			up := make([]float64, d)
			up[axis] = 1
			b.above = []*bin{{direction: up, active: true}}
		}
		second := mat.NewSymDense(d, nil)
		for range 2 * d {
			x := ball(d, r)
			if d > 1 {
				x[axis] = 0
			}
			second.SymRankOne(second, .5/float64(2*d), mat.NewVecDense(d, x))
		}
		first := mat.NewVecDense(d, nil)
		first.MulVec(second, mat.NewVecDense(d, theta))
		m := moments{share: .5, first: first.RawVector().Data, second: second, radius: 1}
		if err := l.regress(b, m); err != nil || !b.active {
			t.Fatal(b.active, err)
		}
		values, _, err := convex.Spectrum(second)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(b.moment-values[d-1]/.5) > 1e-12 || math.Abs(b.value-convex.Dot(b.direction, theta)) > 1e-9 {
			t.Errorf("d = %d: the moment is %v, not %v; the estimate %v, not %v", d, b.moment, values[d-1]/.5, b.value,
				convex.Dot(b.direction, theta))
		}
	}
}

// The proof's constants are reachable: with them no bin is active for a million people, and nothing is claimed.
func TestLayeredTheory(t *testing.T) {
	s := learn.Setting{Family: family.Linear{}, Dimension: 2, Horizon: 1e6, Radius: 1, Epsilon: 1, Failure: 1e-12,
		Options: map[string]float64{layeredTheory: 1}}
	for n, want := range map[int]bool{1e6: false, 1e12: true} {
		l, err := newLayered(s, 1, 3*n)
		if err != nil {
			t.Fatal(err)
		}
		b := &bin{}
		m := moments{share: 1, first: []float64{.5, 0}, second: mat.NewSymDense(2, []float64{.5, 0, 0, .5}), radius: 1}
		if err := l.regress(b, m); err != nil || b.active != want {
			t.Errorf("n = %d: active is %v, want %v: %v", n, b.active, want, err)
		}
		if l.widen(b, 1, learn.Answer{}); want && !(b.flat > .5 && b.slope == 0) {
			t.Errorf("n = %d: widths of %v and %v", n, b.flat, b.slope)
		}
	}
}

// The second question of a layer sums up what the errors above do to a bin (Algorithm 5), and the width has its mean.
func TestLayeredCarriesErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	l, records := grown(t, 2, 30, r)
	var bins []*bin
	for _, top := range active(l.roots[0].children) {
		bins = append(bins, active(top.children)...)
	}
	statistic, sums, people := l.layeredErrors(2, bins), make([]float64, len(bins)), 0
	for _, record := range records {
		for i, v := range statistic.Vector(nil, record) {
			sums[i] += v
		}
		p := l.locate(record, 2)
		if p.bin == nil || !p.bin.active {
			continue
		}
		people++
		top := p.bin.above[0]
		want := min(l.cap, top.flat+top.slope*math.Abs(convex.Dot(top.direction, record.Arm))) *
			math.Abs(convex.Dot(p.bin.direction, record.Arm)) * math.Pow(l.gamma, float64(p.bin.level))
		if got := statistic.Vector(nil, record)[p.bin.index]; math.Abs(got-want) > 1e-9 || want == 0 {
			t.Errorf("a record reports %v, not %v", got, want)
		}
	}
	if people < 20 {
		t.Fatalf("only %d of %d records are in active bins", people, len(records))
	}
	l.score = 0
	a := learn.Answer{People: len(records), Sums: []learn.Sum{{Values: sums, Variance: make([]float64, len(sums))}}}
	for i, b := range bins {
		l.widen(b, 2, a)
		want := sums[i] * math.Pow(l.gamma, -float64(b.level)) / (b.moment * b.share * float64(len(records)))
		if math.Abs(b.slope-want) > 1e-9*want {
			t.Errorf("a bin's slope is %v, not %v", b.slope, want)
		}
	}
}

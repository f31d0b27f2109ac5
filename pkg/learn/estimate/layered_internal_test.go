package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// grown is a tree of random points in the unit ball of d dimensions, learned from sums with some noise.
func grown(t *testing.T, d int, noise float64, r *rand.Rand) (*layered.Tree, []learn.Record) {
	t.Helper()
	s := learn.Setting{Family: family.Linear{}, Dimension: d, Horizon: 1e6, Radius: 1, Epsilon: 1, Failure: .1}
	theta := ball(d, r)
	var records []learn.Record
	for range 40 {
		x := ball(d, r)
		records = append(records, learn.Record{Arm: x, Reward: convex.Dot(x, theta), Times: 1000})
	}
	trees, _, err := LayeredOracles(s, 1, 40_000*LayeredQuestions(d), func(q learn.Question) (learn.Answer, error) {
		return answered(q, records, noise, r), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return trees[0], records
}

// answered are the sums of records' statistics, with Gaussian noise of a deviation.
func answered(q learn.Question, records []learn.Record, noise float64, r *rand.Rand) (a learn.Answer) {
	a.People = q.People
	for _, statistic := range q.Statistics {
		sum := learn.Sum{Values: make([]float64, statistic.Dim()), Variance: make([]float64, statistic.Dim())}
		for _, record := range records {
			for j, v := range statistic.Vector(nil, record) {
				sum.Values[j] += float64(record.Count()) * v
			}
		}
		for j := range sum.Values {
			sum.Values[j] += noise * r.NormFloat64()
			sum.Variance[j] = noise * noise
		}
		a.Sums = append(a.Sums, sum)
	}
	return a
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

// What is learned is a tree that may be announced, its directions are orthonormal along every way, and nearly all ways
// go through all layers.
func TestLayeredTrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	deep := 0
	for range 40 {
		d := 1 + r.IntN(4)
		tree, records := grown(t, d, 30, r)
		if err := tree.Validate(d); err != nil {
			t.Fatal(err)
		}
		for _, b := range tree.Bins {
			for _, a := range tree.Above(b) {
				if math.Abs(convex.Dot(a.Direction, b.Direction)) > 1e-12 {
					t.Error("the directions of a way are not orthogonal")
				}
			}
			if math.Abs(convex.Norm(b.Direction)-1) > 1e-12 || !(b.Slope > 0) {
				t.Errorf("a direction of norm %v, with the slope %v", convex.Norm(b.Direction), b.Slope)
			}
		}
		if tree.Depth() < d {
			continue
		}
		for _, record := range records {
			if _, found := tree.InLast(nil, record.Arm); found {
				deep++
			}
		}
	}
	if deep < 400 {
		t.Errorf("only %d of 1600 ways go through all layers: the test shows little", deep)
	}
}

// Principal component regression of exact moments, in the complement of the directions above: the largest eigenpair
// there, and the parameter's part along it.
func TestLayeredRegressionIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		d := 1 + r.IntN(4)
		l := &layeredRun{dim: d, gamma: 100, phase: 1e6, threshold: 2, radius: 1, value: 1}
		theta := ball(d, r)
		var b layered.Bin
		var above []layered.Bin
		axis := r.IntN(d)
		if d > 1 {
			up := make([]float64, d)
			up[axis] = 1
			above = []layered.Bin{{Direction: up}}
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
		m := moments{people: 1e6, share: .5, first: first.RawVector().Data, second: second, radius: 1}
		known, err := l.regress(&b, above, m)
		if err != nil || b.Direction == nil {
			t.Fatal(b.Direction, err)
		}
		values, _, err := convex.Spectrum(second)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(known.moment-values[d-1]/.5) > 1e-12 || math.Abs(b.Value-convex.Dot(b.Direction, theta)) > 1e-9 {
			t.Errorf("d = %d: the moment is %v, not %v; the estimate %v, not %v", d, known.moment, values[d-1]/.5,
				b.Value, convex.Dot(b.Direction, theta))
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
		var b layered.Bin
		m := moments{people: float64(n), share: 1, first: []float64{.5, 0},
			second: mat.NewSymDense(2, []float64{.5, 0, 0, .5}), radius: 1}
		known, err := l.regress(&b, nil, m)
		if err != nil || (b.Direction != nil) != want {
			t.Errorf("n = %d: the direction is %v, want one: %v: %v", n, b.Direction, want, err)
		}
		if flat, slope := l.width(known, 1, 0, 0, false); want && !(flat > .5 && slope == 0) {
			t.Errorf("n = %d: widths of %v and %v", n, flat, slope)
		}
	}
}

// The second question of a layer sums up what the errors above do to a bin (Algorithm 5), and the width has its mean.
func TestLayeredCarriesErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	tree, records := grown(t, 2, 30, r)
	first, n := tree.Last()
	if tree.Depth() != 2 {
		t.Fatalf("a tree of %d layers", tree.Depth())
	}
	data := statistic.Statistic{Kind: statistic.BinErrors, Family: family.Linear{}, ArmDim: 2, Tree: tree}
	errors, err := learn.Announced(data)
	if err != nil {
		t.Fatal(err)
	}
	sums, people := make([]float64, n), 0
	for _, record := range records {
		vector := errors.Vector(nil, record)
		for i, v := range vector {
			sums[i] += v
		}
		p, found := tree.InLast(nil, record.Arm)
		if !found {
			continue
		}
		people++
		b := tree.Bins[first+p.Number]
		top := tree.Above(b)[0]
		want := min(tree.Cap, top.Flat+top.Slope*math.Abs(convex.Dot(top.Direction, record.Arm))) *
			math.Abs(convex.Dot(b.Direction, record.Arm)) * math.Pow(tree.Gamma, float64(b.Level))
		if got := vector[p.Number]; math.Abs(got-want) > 1e-9 || want == 0 {
			t.Errorf("a record reports %v, not %v", got, want)
		}
	}
	if people < 20 {
		t.Fatalf("only %d of %d records are in active bins", people, len(records))
	}
	o := &layeredOracle{tree: *tree, of: make([]regressed, len(tree.Bins))}
	for i := range o.of {
		o.of[i] = regressed{share: .25, moment: .5}
	}
	l := &layeredRun{dim: 2, gamma: tree.Gamma, radius: 1, oracles: []*layeredOracle{o}} // z is 0
	l.widen([]int{0}, learn.Answer{People: len(records),
		Sums: []learn.Sum{{Values: sums, Variance: make([]float64, n)}}})
	for i, sum := range sums {
		b := o.tree.Bins[first+i]
		want := sum * math.Pow(tree.Gamma, -float64(b.Level)) / (.5 * .25 * float64(len(records)))
		if math.Abs(b.Slope-want) > 1e-9*want || b.Flat != 0 {
			t.Errorf("a bin's slope is %v, not %v", b.Slope, want)
		}
	}
}

// Whatever is answered, 2d-1 questions of as many people are asked: of sums of the same layer until a bin is active,
// which are then all counted, and of errors after each layer but the first. A layer that none is left to measure the
// errors of is not used.
func TestLayeredAsksAsManyQuestions(t *testing.T) {
	for _, d := range []int{1, 2, 3} {
		s := learn.Setting{Family: family.Linear{}, Dimension: d, Horizon: 1e6, Radius: 1, Epsilon: 1, Failure: .1,
			Variant: LayeredGauss}
		x := make([]float64, d)
		x[0] = .9
		for silent := range 2*d + 1 { // so many answers are zero
			r := rand.New(rand.NewPCG(uint64(silent), 7))
			asked, depth := 0, 0
			trees, learned, err := LayeredOracles(s, 1, 1000*LayeredQuestions(d), func(q learn.Question) (
				learn.Answer, error,
			) {
				if q.People != 1000 || q.Statistics[0].Data == nil {
					t.Errorf("a question of %d people, data %v", q.People, q.Statistics[0].Data)
				}
				var records []learn.Record
				if asked++; asked > silent {
					for j := range d { // every bin that is open has people
						x := make([]float64, d)
						x[j] = .9
						records = append(records, learn.Record{Arm: x, Reward: x[0], Times: 1000 / d})
					}
				}
				depth = q.Statistics[0].Data.Tree.Depth()
				return answered(q, records, 1, r), nil
			})
			if err != nil || asked != LayeredQuestions(d) {
				t.Fatalf("d = %d, %d answers of zero: %d questions, %v", d, silent, asked, err)
			}
			if learned != (len(trees[0].Bins) > 0) || learned != (silent < asked) {
				t.Errorf("d = %d, %d answers of zero: %d bins, learned: %v", d, silent, len(trees[0].Bins), learned)
			}
			// Of the layers the first costs one question and the others two.
			if want := 1 + (asked-silent-1)/2; learned && trees[0].Depth() != min(d, want) {
				t.Errorf("d = %d, %d answers of zero: %d layers, %d in the last question", d, silent,
					trees[0].Depth(), depth)
			}
		}
	}
}

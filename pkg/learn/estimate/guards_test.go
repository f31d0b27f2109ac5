package estimate

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// people are rows of three features with a target, of a fixed seed: within [-1, 1], or 0 and 1 where it is a class.
func people(n int, class bool) (rows [][]float64, target []float64) {
	draw := rand.New(rand.NewPCG(25, 6))
	for range n {
		row := []float64{2*draw.Float64() - 1, 2*draw.Float64() - 1, 2*draw.Float64() - 1}
		score := 0.5*row[0] - 0.25*row[1] + 0.2*draw.NormFloat64()
		if class {
			score = math.Round(1 / (1 + math.Exp(-5*score)))
		}
		rows, target = append(rows, row), append(target, math.Max(-1, math.Min(1, score)))
	}
	return rows, target
}

// raw is a fit without noise, so that what is done to each row shows exactly.
func raw(t *testing.T, f Fit, class bool, rows [][]float64, target []float64) Fitted {
	t.Helper()
	f.Epsilon = math.Inf(1)
	return fitted(t, f, class, rows, target)
}

func fitted(t *testing.T, f Fit, class bool, rows [][]float64, target []float64) Fitted {
	t.Helper()
	f.Level = 0.95
	fit := f.Linear
	if class {
		fit = f.Logistic
	}
	out, err := fit(rows, target)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A value outside its column's bounds counts as the bound: no row moves a fit by more than one within them, however far
// out it is. Without it one row of 1e6 moves every coefficient. It holds for features and target, at both ends, in both
// regressions, and for rows that are noised one by one.
func TestValuesOutsideTheBoundsCountAsTheBounds(t *testing.T) {
	bounds := []Range{{-0.75, 0.5}, {-1, 1}, {-0.25, 1}}
	for _, class := range []bool{false, true} {
		for _, local := range []bool{false, true} {
			f := Fit{Features: bounds, Target: Range{-0.5, 0.25}, Local: local}
			rows, target := people(400, class)
			far, farTarget := make([][]float64, len(rows)), slices.Clone(target)
			outside := 0
			away := func(r Range, v *float64, size float64) {
				switch {
				case *v < r.Low:
					*v, outside = r.Low-size, outside+1
				case *v > r.High:
					*v, outside = r.High+size, outside+1
				}
			}
			for i, row := range rows {
				far[i] = slices.Clone(row)
				for j := range row {
					away(bounds[j], &far[i][j], 1e6*float64(i+1))
				}
				if !class {
					away(f.Target, &farTarget[i], 1e9)
				}
			}
			if outside < 100 {
				t.Fatalf("%d values lie outside", outside)
			}
			if near, other := raw(t, f, class, rows, target), raw(t, f, class, far, farTarget); !reflect.DeepEqual(near,
				other) {
				t.Errorf("class %v, local %v: values far outside the bounds count otherwise than values near them: "+
					"%+v, %+v",
					class, local, near, other)
			}
		}
	}
}

// The order of the rows changes nothing, to the last digit: what a row adds to the sums lies on the grid, so that they
// are exact, and one row moves them by its own vector only. Sums of unrounded products differ in their last digits with
// the order, in one of 100 orders of 2000 rows at least.
func TestTheOrderOfRowsChangesNothing(t *testing.T) {
	for _, class := range []bool{false, true} {
		f := Fit{Features: []Range{{-1, 1}, {-1, 1}, {-1, 1}}, Target: Range{-1, 1}}
		rows, target := people(2000, class)
		want := raw(t, f, class, rows, target)
		draw := rand.New(rand.NewPCG(6, 25))
		for range 10 {
			draw.Shuffle(len(rows), func(i, j int) {
				rows[i], rows[j], target[i], target[j] = rows[j], rows[i], target[j], target[i]
			})
			if got := raw(t, f, class, rows, target); !reflect.DeepEqual(got, want) {
				t.Fatalf("class %v: the same rows in another order give %+v, not %+v", class, got, want)
			}
		}
	}
}

// farthest is the largest distance of the vectors of rows whose features are all 1 or -1, half of them unlike the other
// row's: of two such rows the outer products are orthogonal.
func farthest(vectors [][]float64) (largest float64) {
	for _, a := range vectors {
		for _, b := range vectors {
			squares := 0.0
			for i := range a {
				squares += (a[i] - b[i]) * (a[i] - b[i])
			}
			largest = math.Max(largest, math.Sqrt(squares))
		}
	}
	return largest
}

// corners are rows (1, z) of so many numbers in all, each with the first so many of them 1 and the others -1.
func corners(n int) (rows [][]float64) {
	for ones := 1; ones <= n; ones++ {
		row := make([]float64, n)
		for i := range row {
			row[i] = 1
			if i >= ones {
				row[i] = -1
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// rounded is the most by which rounding to the grid moves two vectors apart, found over random pairs: a part of
// sqrt(dim) of the grid.
func rounded(dim int, vector func() (exact, onGrid []float64)) (most float64) {
	for range 2000 {
		a, atA := vector()
		b, atB := vector()
		var exact, after float64
		for i := range dim {
			exact += (a[i] - b[i]) * (a[i] - b[i])
			after += (atA[i] - atB[i]) * (atA[i] - atB[i])
		}
		most = math.Max(most, math.Sqrt(after)-math.Sqrt(exact))
	}
	return most
}

// What a row moves is what its exact products move, and the rounding to the grid on top: a bound that counts the
// largest exact move, which rows at the corners of the bounds reach, has room for the rounding too.
func TestTheGridCountsInWhatARowMoves(t *testing.T) {
	draw := rand.New(rand.NewPCG(25, 7))
	for _, k := range []int{2, 4, 8, 14} {
		var reached [][]float64
		for _, u := range corners(k + 2) {
			reached = append(reached, products(u, 1))
		}
		dim := len(reached[0])
		grid := rounded(dim, func() (exact, onGrid []float64) {
			u := make([]float64, k+2)
			for i := range u {
				u[i] = 2*draw.Float64() - 1
			}
			u[0] = 1
			return products(u, 1), secondMoments(nil, u)
		})
		if moved, stated := farthest(reached)+grid, momentsMove(k); dim != stated.Dim || grid < 0.2*rowGrid ||
			stated.L2 < moved {
			t.Errorf("%d features: rows move the moments by %.12f with %.3g of rounding, stated are %.12f", k, moved,
				grid,
				stated.L2)
		}
		// The gradient's largest move, 2 sqrt(d), is the limit of long points only; the proof of newtonMove has it.
		d, theta := k+1, make([]float64, k+1)
		for i := range theta {
			theta[i] = draw.NormFloat64() / 4
		}
		grid = rounded(newtonMove(k).Dim, func() (exact, onGrid []float64) {
			w, y := make([]float64, d), float64(draw.IntN(2))
			for i := range w {
				w[i] = 2*draw.Float64() - 1
			}
			w[0] = 1
			p, z := 0.0, 0.0
			for i, v := range w {
				z += v * theta[i]
			}
			p = 1 / (1 + math.Exp(-z))
			for _, v := range w {
				exact = append(exact, (y-p)*v)
			}
			exact = append(exact, triangle(w, p*(1-p))...)
			return exact, newtonRow(nil, w, theta, y)
		})
		if moved, stated := 2*math.Sqrt(float64(d))+grid, newtonMove(k).L2; grid < 0.2*rowGrid || stated < moved {
			t.Errorf("%d features: a row moves a round by %.12f with %.3g of rounding, stated are %.12f", k, moved,
				grid, stated)
		}
	}
}

// triangle is a weighted outer product, its upper triangle row by row with entries off the diagonal times sqrt 2.
func triangle(u []float64, weight float64) (out []float64) {
	for i, a := range u {
		out = append(out, weight*a*a)
		for _, b := range u[i+1:] {
			out = append(out, math.Sqrt2*weight*a*b)
		}
	}
	return out
}

// products are what secondMoments rounds to the grid.
func products(u []float64, weight float64) []float64 { return triangle(u, weight)[1:] }

// With many features a row moves the Hessian by more than the gradient: at points where all probabilities are one half,
// two rows whose features are half alike are farther apart than 2 sqrt(d), which is all that up to 15 features count.
func TestManyFeaturesMoveTheHessianMore(t *testing.T) {
	for _, k := range []int{15, 31, 63, 99} {
		theta := make([]float64, k+1)
		var reached [][]float64
		for _, w := range corners(k + 1) {
			reached = append(reached, newtonRow(nil, w, theta, 0), newtonRow(nil, w, theta, 1))
		}
		moved, stated, few := farthest(reached), newtonMove(k).L2, 2*math.Sqrt(float64(k+1))
		if moved > stated || k > 31 && moved < 0.8*stated {
			t.Errorf("%d features: rows at probability 1/2 are %v apart, stated are %v", k, moved, stated)
		}
		if k >= 63 && moved < few {
			t.Errorf("%d features: rows are %v apart, no more than few features count: %v", k, moved, few)
		}
	}
}

// Noise of every kind of fit is added, and counts in the standard error or in a wider interval: without an epsilon a
// fit is what it was, with one it is another each time.
func TestEveryFitIsNoised(t *testing.T) {
	for _, of := range []struct {
		name         string
		class, local bool
		encode       func(privacy.Vector, []float64, int) ([]protocol.Encoding, privacy.Guarantee, error)
	}{{"linear", false, false, nil}, {"local", false, true, nil}, {"logistic", true, false, nil},
		{"logistic, local", true, true, nil}, {"integers", false, false, coarse}, {"logistic, integers", true, false,
			coarse}} {
		f := Fit{Features: []Range{{-1, 1}, {-1, 1}, {-1, 1}}, Target: Range{-1, 1}, Local: of.local}
		rows, target := people(400, of.class)
		exact := raw(t, f, of.class, rows, target)
		f.Epsilon, f.Delta, f.Encode = 1, 1e-6, of.encode
		var last []Coefficient
		for seed := range byte(3) {
			f.Noise = rand.NewChaCha8([32]byte{seed, 25})
			out := fitted(t, f, of.class, rows, target)
			for i, c := range out.Coefficients {
				counted := c.Noise > 0 || c.High-c.Low > exact.Coefficients[i].High-exact.Coefficients[i].Low
				if c.Value == exact.Coefficients[i].Value || last != nil && c.Value == last[i].Value || !counted {
					t.Errorf("%s: coefficient %d is %+v, without noise %+v", of.name, i, c, exact.Coefficients[i])
				}
			}
			if last = out.Coefficients; !out.Guarantee.Promises() {
				t.Errorf("%s: a guarantee of %+v", of.name, out.Guarantee)
			}
		}
	}
	if g := (mechanism.None{}).Guarantee(momentsMove(3)); g.Promises() {
		t.Errorf("no noise promises %+v", g)
	}
}

// With the literal factor off the diagonal of a triangle, and of one after other numbers, all else stays as it was, and
// no announcement can carry it.
func TestTheLiteralFactorIsOffTheDiagonalOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 9))
	const d = 3
	n, err := NewNormalization(identity(d), 0.1)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []statistic.Kind{statistic.Normalization, statistic.ReweightedLinear} {
		s, err := n.Statistic(kind, family.Linear{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		literal, first := withFactor(s, d, 1), s.Dim()-symmetric.Dim(d)
		if s.Data == nil || withFactor(s, d, isometric).Data == nil || literal.Data != nil {
			t.Errorf("%s: the wrong one can be announced", kind)
		}
		for range 100 {
			r := learn.Record{Arm: []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}, Reward: 1}
			v, w := s.Vector([]float64{7}, r), literal.Vector([]float64{7}, r)
			if len(v) != 1+s.Dim() || len(w) != len(v) || v[0] != 7 || w[0] != 7 {
				t.Fatalf("%s: %v and %v are not appended", kind, v, w)
			}
			for j, x := range w[1:] {
				want := v[1+j]
				if k := j - first; k == 1 || k == 2 || k == 4 {
					want /= math.Sqrt2
				}
				if math.Abs(x-want) > 1e-15 || x < literal.Lower[j] || x > literal.Upper[j] {
					t.Errorf("%s: number %d is %v, want %v in [%v, %v]", kind, j, x, want, literal.Lower[j],
						literal.Upper[j])
				}
			}
		}
	}
}

// The curator's points stay in the ball of the radius, so that a record moves a step by 2(R+1)/n at most: short
// features with a large reward would carry the point to 10, and one long one with the opposite reward would then move
// it by 11/n.
func TestTheImproperCuratorsPointsStayInTheirBall(t *testing.T) {
	const radius, people, steps = 2.0, 10, 600
	run := func(last learn.Record) []float64 {
		var all []learn.Answer
		for k := range steps {
			a := learn.Answer{People: people}
			for i := range people {
				r := learn.Record{Arm: []float64{0.1, 0}, Reward: 1}
				if k == steps-1 && i == 0 {
					r = last
				}
				a.Records = append(a.Records, r)
			}
			all = append(all, a)
		}
		theta, err := improperDescent(2, radius, all)
		if err != nil {
			t.Fatal(err)
		}
		return theta
	}
	one := run(learn.Record{Arm: []float64{1, 0}, Reward: -1})
	for _, other := range []learn.Record{{Arm: []float64{0, 1}, Reward: -1}, {Arm: []float64{0.1, 0}, Reward: 1}} {
		theta := run(other)
		if moved := math.Hypot(one[0]-theta[0], one[1]-theta[1]); moved > 2*(radius+1)/people {
			t.Errorf("one record moves the point by %v, stated are %v", moved, 2*(radius+1)/people)
		}
	}
}

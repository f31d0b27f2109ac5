package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// A row that takes another row's place moves the sums of all groups by no more than the guarantee counts, whether it is
// in the same group or in another, and by nearly as much if it goes to another. Sums are those that are released, but
// for the noise.
func TestGroupsMoveAsStated(t *testing.T) {
	draw := rand.New(rand.NewPCG(29, 1))
	for _, k := range []int{0, 1, 3, 20} {
		f := Fit{Groups: 3, Target: Range{-1, 1}, Features: slices.Repeat([]Range{{-1, 1}}, k)}
		for _, logistic := range []bool{false, true} {
			v := f.momentsVector()
			if logistic {
				v = f.newtonVector()
			}
			planned := oneRelease(v.moved, mechanism.None{})
			planned.blocks, planned.moved.Dim = 3, 3*v.moved.Dim
			if len(v.lower) != v.moved.Dim || len(v.upper) != v.moved.Dim {
				t.Fatalf("%d features: a block of %d, bounds of %d and %d", k, v.moved.Dim, len(v.lower), len(v.upper))
			}
			theta := make([][]float64, 3)
			sums := func(row []float64, y float64, g int) []float64 {
				w := append([]float64{1}, row...)
				out, err := f.release(planned, 0, 1, func(int) int { return g }, func(dst []float64, _ int) []float64 {
					if logistic {
						return newtonRow(dst, w, theta[g], y)
					}
					return f.momentsOf([][]float64{row}, []float64{2*y - 1})(dst, 0)
				})
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			worst := 0.0
			for range 2000 {
				length := 8 * draw.Float64()
				for g := range theta {
					theta[g] = make([]float64, k+1)
					for i := range theta[g] {
						theta[g][i] = length * draw.NormFloat64()
					}
				}
				row := func() []float64 {
					out := make([]float64, k)
					for i := range out {
						out[i] = math.Copysign(1, draw.Float64()-0.5)
					}
					return out
				}
				a := sums(row(), float64(draw.IntN(2)), draw.IntN(3))
				b := sums(row(), float64(draw.IntN(2)), draw.IntN(3))
				squares := 0.0
				for i := range a {
					squares += (a[i] - b[i]) * (a[i] - b[i])
					if low, high := v.lower[i%planned.block], v.upper[i%planned.block]; a[i] != 0 &&
						!(a[i] >= low-rowGrid && a[i] <= high+rowGrid) {
						t.Fatalf("%d features, logistic %v: coordinate %d is %v, stated are %v to %v", k, logistic, i,
							a[i], low, high)
					}
				}
				worst = math.Max(worst, math.Sqrt(squares))
			}
			if worst > v.moved.L2 || !logistic && worst < 0.999*v.moved.L2 {
				t.Errorf("%d features, logistic %v: moved by %v, stated %v", k, logistic, worst, v.moved.L2)
			}
		}
	}
}

// Only the row's own group sees it: the sums of the others are those of no row at all.
func TestARowIsInItsGroupOnly(t *testing.T) {
	f := Fit{Groups: 2, Target: Range{-1, 1}, Features: []Range{{-1, 1}}}
	v := f.momentsVector()
	planned := oneRelease(v.moved, mechanism.None{})
	planned.blocks, planned.moved.Dim = 2, 2*v.moved.Dim
	rows, target := [][]float64{{0.5}, {-0.25}, {1}}, []float64{1, 0.5, -1}
	for _, local := range []bool{false, true} {
		f.Local = local
		all, err := f.release(planned, 0, 3, groupOf([]int{0, 1, 0}), f.momentsOf(rows, target))
		if err != nil {
			t.Fatal(err)
		}
		for g, want := range [][2]float64{{2, 1.5}, {1, -0.25}} { // number of rows, and sum of the feature
			o := f.unpack(all[g*planned.block:][:planned.block], 3, 0)
			if o.rows != int(want[0]) || math.Abs(o.m.At(0, 1)-want[1]) > 1e-6 {
				t.Errorf("local %v, group %d: %d rows, the feature sums to %v", local, g, o.rows, o.m.At(0, 1))
			}
		}
	}
}

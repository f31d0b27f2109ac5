package estimate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// The replacement of one row moves the statistic by no more than the guarantee counts, over corners of the range and
// random rows, and by nearly as much for some.
func TestSecondMomentsMoveAsStated(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 3))
	for _, k := range []int{1, 2, 3, 6} {
		moved, worst := momentsMove(k), 0.0
		row := func() []float64 {
			u := make([]float64, k+2)
			corner := draw.IntN(2) == 0
			for i := range u {
				if u[i] = 2*draw.Float64() - 1; corner {
					u[i] = math.Copysign(1, u[i])
				}
			}
			u[0] = 1
			return secondMoments(nil, u)
		}
		for range 20_000 {
			a, b, squares := row(), row(), 0.0
			for i := range a {
				squares += (a[i] - b[i]) * (a[i] - b[i])
			}
			if worst = math.Max(worst, math.Sqrt(squares)); len(a) != moved.Dim {
				t.Fatalf("%d coordinates, want %d", len(a), moved.Dim)
			}
		}
		if worst > moved.L2 || worst < 0.9*moved.L2 {
			t.Errorf("%d features: moved by %v, stated %v", k, worst, moved.L2)
		}
	}
}

// The same for a round of the logistic fit, at many points.
func TestNewtonRowsMoveAsStated(t *testing.T) {
	draw := rand.New(rand.NewPCG(5, 3))
	for _, k := range []int{1, 2, 4, 20} {
		moved, worst := newtonMove(k), 0.0
		for range 20_000 {
			theta, length := make([]float64, k+1), draw.Float64()*4
			for i := range theta {
				theta[i] = length * draw.NormFloat64()
			}
			row := func() []float64 {
				w := make([]float64, k+1)
				for i := range w {
					w[i] = math.Copysign(1, draw.Float64()-0.5)
				}
				w[0] = 1
				return newtonRow(nil, w, theta, float64(draw.IntN(2)))
			}
			a, b, squares := row(), row(), 0.0
			for i := range a {
				squares += (a[i] - b[i]) * (a[i] - b[i])
			}
			if worst = math.Max(worst, math.Sqrt(squares)); len(a) != moved.Dim {
				t.Fatalf("%d coordinates, want %d", len(a), moved.Dim)
			}
		}
		if worst > moved.L2 || worst < 0.5*moved.L2 {
			t.Errorf("%d features: moved by %v, stated %v", k, worst, moved.L2)
		}
	}
}

// oneRelease is a release with the noise, whatever the budget.
func oneRelease(moved mechanism.Sensitivity, noise mechanism.Noise) releases {
	return releases{block: moved.Dim, blocks: 1, moved: moved, noises: []mechanism.Noise{noise}}
}

// coarse encodes vectors to few levels, with 400 noise bits of each row: a channel for which nothing is planned.
func coarse(v privacy.Vector, shares []float64, _ int) (out []protocol.Encoding, g privacy.Guarantee, err error) {
	for range shares {
		e, err := privacy.EncodingAt(v, 4, 400, protocol.BiasHalf)
		if err != nil {
			return nil, privacy.NoGuarantee(), err
		}
		out = append(out, e)
	}
	return out, privacy.Guarantee{Mu: 1}, nil
}

// sumsOf are the noised sums of a linear fit, and the variance of a coordinate's noise.
func sumsOf(t *testing.T, f Fit, rows [][]float64, target []float64, noise mechanism.Noise) ([]float64, float64) {
	t.Helper()
	planned := oneRelease(momentsMove(len(f.Features)), noise)
	sums, err := f.release(planned, 0, len(rows), groupOf(nil), f.momentsOf(rows, target))
	if err != nil {
		t.Fatal(err)
	}
	return sums, f.variance(planned, 0, len(rows))
}

// A fit spends its budget and not more: the guarantee is that of the noise that was added, of which half would exceed
// it.
func TestFitKeepsItsBudget(t *testing.T) {
	draw := rand.New(rand.NewPCG(4, 3))
	f := Fit{Features: []Range{{-1, 1}}, Target: Range{-1, 1}, Epsilon: 1.5, Delta: 1e-6, Level: 0.9,
		Noise: rand.NewChaCha8([32]byte{1})}
	rows, target := make([][]float64, 100), make([]float64, 100)
	for i := range rows {
		rows[i], target[i] = []float64{draw.Float64()}, draw.Float64()
	}
	out, err := f.Linear(rows, target)
	if err != nil {
		t.Fatal(err)
	}
	if e := out.Guarantee.Epsilon(f.Delta); !(e <= 1.5) || e < 1.4999 {
		t.Errorf("the guarantee is %+v, epsilon %v", out.Guarantee, e)
	}
	rho, err := mechanism.Budget(f.Epsilon, f.Delta)
	if err != nil {
		t.Fatal(err)
	}
	noise, err := mechanism.ForRho(momentsMove(1), rho)
	if err != nil {
		t.Fatal(err)
	}
	for i := range target {
		target[i] = float64(i % 2)
	}
	if out, err = f.Logistic(rows, target); err != nil {
		t.Fatal(err)
	}
	if e := out.Guarantee.Epsilon(f.Delta); !(e <= 1.5) || e < 1.4999 {
		t.Errorf("the guarantee of six rounds is %+v, epsilon %v", out.Guarantee, e)
	}
	// The noise that is in the sums: those of many fits of one file, of which the exact part is the same.
	const runs = 4000
	var sum, squares float64
	for range runs {
		sums, variance := sumsOf(t, f, rows[:2], target[:2], noise)
		z := sums[2] / math.Sqrt(variance)
		sum, squares = sum+z, squares+z*z
	}
	if v := squares/runs - sum/runs*sum/runs; math.Abs(v-1) > 5.5*math.Sqrt(2.0/runs) {
		t.Errorf("the noise has %v of the variance that it should have", v)
	}
	half := mechanism.Gaussian{Sigma: noise.Deviation() / 2}
	if e := half.Guarantee(momentsMove(1)).Epsilon(f.Delta); !(e > 1.5) {
		t.Errorf("half of the noise has epsilon %v", e)
	}
}

// The noise is in what every row sends (Local, Encode), and in what every round of the logistic fit releases, with the
// deviation that the guarantee is computed from. A variance of 3000 draws is within 14 % but for one run in 1e7.
func TestFitAddsItsNoise(t *testing.T) {
	f := Fit{Features: make([]Range, 4), Target: Range{-1, 1}, Noise: rand.NewChaCha8([32]byte{3})}
	for i := range f.Features {
		f.Features[i] = Range{-1, 1}
	}
	rows, target := [][]float64{{0.5, 0, -0.5, 1}, {0.25, 1, 0, 0}}, []float64{0, 1}
	noise := mechanism.Gaussian{Sigma: 3}
	const runs = 200
	check := func(what string, draws []float64, deviation float64) {
		t.Helper()
		squares := 0.0
		for _, z := range draws {
			squares += z * z / float64(len(draws))
		}
		if v := squares / (deviation * deviation); len(draws) < 2800 || math.Abs(v-1) > .14 {
			t.Errorf("%s: the noise has %v of its variance, in %d draws", what, v, len(draws))
		}
	}
	for _, local := range []bool{false, true} {
		f.Local = local
		exact, _ := sumsOf(t, f, rows, target, mechanism.None{})
		var draws []float64
		stated := 0.0
		for range runs {
			sums, variance := sumsOf(t, f, rows, target, noise)
			stated = variance
			for i, v := range sums {
				draws = append(draws, v-exact[i])
			}
		}
		deviation := 3.0
		if local {
			deviation *= math.Sqrt(float64(len(rows)))
		}
		if math.Abs(math.Sqrt(stated)/deviation-1) > 1e-6 {
			t.Errorf("local %v: a stated deviation of %v, not %v", local, math.Sqrt(stated), deviation)
		}
		check("linear", draws, deviation)
	}
	f.Local = false
	// Integers: the rounding of a row adds at most a quarter of a level, and the noise bits their own variance.
	planned := oneRelease(momentsMove(4), nil)
	planned.noises = nil
	var err error
	if planned.encodings, _, err = coarse(privacy.Vector{Name: "moments", Lower: f.momentsVector().lower,
		Upper: f.momentsVector().upper, Diameter: planned.moved.L2}, []float64{1}, len(rows)); err != nil {
		t.Fatal(err)
	}
	exactly, _ := sumsOf(t, f, rows, target, mechanism.None{})
	var ones []float64
	for range runs {
		sums, err := f.release(planned, 0, len(rows), groupOf(nil), f.momentsOf(rows, target))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range sums {
			ones = append(ones, v-exactly[i])
		}
	}
	// Two rows of 400 noise bits: the rounding is less than a part in 400 of it.
	check("integers", ones, math.Sqrt(f.variance(planned, 0, len(rows))))
	step := func(noise mechanism.Noise) newtonStep {
		steps := []newtonStep{{to: make([]float64, 5)}}
		if err := f.newton(oneRelease(newtonMove(4), noise), 0, steps, rows, target, nil); err != nil {
			t.Fatal(err)
		}
		return steps[0]
	}
	exact := step(mechanism.None{})
	var draws []float64
	for range runs {
		got := step(noise)
		for i := range 5 {
			for j := i; j < 5; j++ {
				scale := math.Sqrt2
				if i == j {
					scale = 1
				}
				draws = append(draws, scale*(got.hessian.At(i, j)-exact.hessian.At(i, j)))
			}
		}
	}
	check("logistic", draws, 3)
}

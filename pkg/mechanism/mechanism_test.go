package mechanism_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/mechanism"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

func source(n byte) protocol.Source { return rand.NewChaCha8([32]byte{n, 7}) }

// The noise that a budget gives spends all of it and no more, whatever the sizes, and half of the noise exceeds it.
func TestNoiseMeetsItsBudgetExactly(t *testing.T) {
	sizes := rand.New(rand.NewPCG(1, 2))
	draw := func(least, most float64) float64 { return least * math.Pow(most/least, sizes.Float64()) }
	for range 2000 {
		s := mechanism.Sensitivity{Dim: 1 + sizes.IntN(400), L2: draw(1e-9, 1e9), L1: draw(1e-9, 1e9)}
		rho, epsilon := draw(1e-4, 1e3), draw(1e-3, 1e2)
		noise, err := mechanism.ForRho(s, rho)
		if err != nil {
			t.Fatal(err)
		}
		if g := noise.Guarantee(s); !(g.Rho <= rho) || g.Rho < rho*(1-1e-4) || g.Mu != 0 || g.Pure != 0 ||
			g.TailDelta != 0 {
			t.Fatalf("%+v: rho %v of %v", s, g, rho)
		}
		gaussian := noise.(mechanism.Gaussian)
		half := mechanism.Gaussian{Sigma: gaussian.Sigma / 2}
		if g := half.Guarantee(s); !(g.Rho > 3.9*rho) {
			t.Fatalf("%+v: half of the noise has %+v, the budget is rho %v", s, g, rho)
		}
		noise, err = mechanism.ForEpsilon(s, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		if g := noise.Guarantee(s); !(g.Pure <= epsilon) || g.Pure < epsilon*(1-1e-2) || g.Rho != 0 ||
			g.TailDelta != 0 {
			t.Fatalf("%+v: %+v, the budget is epsilon %v", s, g, epsilon)
		}
		less := mechanism.Laplace{Scale: noise.(mechanism.Laplace).Scale / 2}
		if g := less.Guarantee(s); !(g.Pure > 1.9*epsilon) {
			t.Fatalf("%+v: half of the noise has %+v, the budget is epsilon %v", s, g, epsilon)
		}
	}
}

// Rounding to the grid moves two vectors apart. The distance in steps, found with vectors that lie next to the border
// between two steps, is at most the one that the guarantee counts, and more than the sensitivity alone.
func TestRoundingCountsInTheSensitivity(t *testing.T) {
	const dim, sigma = 6, 1.0
	noise := mechanism.Gaussian{Sigma: sigma}
	grid := noise.Grid()
	low, high := make([]float64, dim), make([]float64, dim)
	for i := range low {
		low[i], high[i] = 2.4999*grid, 3.5001*grid
	}
	s := mechanism.Sensitivity{Dim: dim, L2: 1.0002 * grid * math.Sqrt(dim), L1: 1.0002 * grid * dim}
	noise.Add(low, source(4)) // the same draws for both
	noise.Add(high, source(4))
	var squares, sum float64
	for i := range low {
		if low[i] != math.Trunc(low[i]/grid)*grid {
			t.Errorf("%v is no multiple of the grid %v", low[i], grid)
		}
		squares += (high[i] - low[i]) * (high[i] - low[i])
		sum += math.Abs(high[i] - low[i])
	}
	exactly := squares / (2 * sigma * sigma) // zCDP of the integers that the vectors became
	if g := noise.Guarantee(s); !(exactly <= g.Rho) {
		t.Errorf("rounded vectors cost rho %v, the guarantee counts %v", exactly, g.Rho)
	}
	if unrounded := s.L2 * s.L2 / (2 * sigma * sigma); !(exactly > unrounded) {
		t.Errorf("the vectors do not move apart: rho %v, unrounded %v", exactly, unrounded)
	}
	if g := (mechanism.Laplace{Scale: sigma}).Guarantee(s); !(sum/sigma <= g.Pure) || !(sum > s.L1) {
		t.Errorf("rounded vectors cost epsilon %v, the guarantee counts %v", sum/sigma, g.Pure)
	}
}

// Draws have the mean and the variance that are stated, and are on the grid around the vector. False alarm below 1e-6
// each (five and a half standard errors); a variance wrong by 3 % would be noticed.
func TestNoiseHasItsDeviation(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	const draws = 100_000
	for name, noise := range map[string]mechanism.Noise{"Gaussian": mechanism.Gaussian{Sigma: 2.7},
		"small Gaussian": mechanism.Gaussian{Sigma: 1e-12}, "Laplace": mechanism.Laplace{Scale: 31},
		"Gaussian of a power of two": mechanism.Gaussian{Sigma: 4}} {
		x, at, src := make([]float64, draws), 12.5*noise.Deviation(), source(3)
		for i := range x {
			x[i] = at
		}
		noise.Add(x, src)
		var sum, squares, fourths float64
		for _, v := range x {
			z := (v - at) / noise.Deviation()
			sum, squares, fourths = sum+z, squares+z*z, fourths+z*z*z*z
		}
		spread := math.Sqrt((fourths/draws - 1) / draws)
		if z := sum / math.Sqrt(draws); math.Abs(z) > 5.5 {
			t.Errorf("%s: the mean is %v standard errors off", name, z)
		}
		if z := (squares/draws - 1) / spread; math.Abs(z) > 5.5 {
			t.Errorf("%s: the variance is %v of what is stated", name, squares/draws)
		}
		kurtosis := 3.0
		if name == "Laplace" {
			kurtosis = 6
		}
		if math.Abs(fourths/draws-kurtosis) > 0.1*kurtosis {
			t.Errorf("%s: the fourth moment is %v, want %v", name, fourths/draws, kurtosis)
		}
	}
}

// What zCDP costs, against the tightest calibration of continuous Gaussian noise for one release: at usual targets at
// most a fifth more variance.
func TestConcentratedCalibrationAgainstTheAnalyticGaussian(t *testing.T) {
	for _, c := range []struct{ epsilon, delta, most float64 }{{0.1, 1e-6, 1.19}, {1, 1e-6, 1.16}, {1, 1e-9, 1.11},
		{3, 1e-6, 1.14}, {8, 1e-6, 1.12}, {8, 1e-5, 1.13}} {
		rho, err := mechanism.Budget(c.epsilon, c.delta)
		if err != nil {
			t.Fatal(err)
		}
		s := mechanism.Sensitivity{Dim: 20, L2: math.Sqrt2}
		noise, err := mechanism.ForRho(s, rho)
		if err != nil {
			t.Fatal(err)
		}
		mu, err := privacy.MuFor(c.epsilon, c.delta)
		if err != nil {
			t.Fatal(err)
		}
		ratio := math.Pow(noise.Deviation()*mu/s.L2, 2)
		if t.Logf("epsilon %v, delta %v: variance ratio %.4f", c.epsilon, c.delta, ratio); !(ratio >= 1) ||
			ratio > c.most {
			t.Errorf("epsilon %v, delta %v: %v times the variance of the analytic Gaussian, at most %v", c.epsilon,
				c.delta,
				ratio, c.most)
		}
		if d := noise.Guarantee(s).Delta(c.epsilon); !(d <= c.delta) || d < c.delta*0.99 {
			t.Errorf("epsilon %v: delta %v of %v", c.epsilon, d, c.delta)
		}
	}
}

// What cannot be noised is refused, and what was not refused promises nothing and releases nothing.
func TestRefusals(t *testing.T) {
	good := mechanism.Sensitivity{Dim: 3, L2: 1, L1: 2}
	nan, inf := math.NaN(), math.Inf(1)
	for _, rho := range []float64{0, -1, nan, 1e-20, 5e-324} {
		if n, err := mechanism.ForRho(good, rho); !errors.Is(err, mechanism.ErrNoise) || n != nil {
			t.Errorf("rho %v: %v, %v", rho, n, err)
		}
		if n, err := mechanism.ForEpsilon(good, rho); !errors.Is(err, mechanism.ErrNoise) || n != nil {
			t.Errorf("epsilon %v: %v, %v", rho, n, err)
		}
	}
	for _, s := range []mechanism.Sensitivity{{Dim: 3}, {L2: 1, L1: 1}, {Dim: 3, L2: nan, L1: nan},
		{Dim: 3, L2: inf, L1: inf}, {Dim: 3, L2: -1, L1: -1}, {Dim: 3, L2: 1e300, L1: 1e300},
		{Dim: 3, L2: 1e-300, L1: 1e-300}} {
		if n, err := mechanism.ForRho(s, 1); !errors.Is(err, mechanism.ErrNoise) {
			t.Errorf("%+v: %v, %v", s, n, err)
		}
		if n, err := mechanism.ForEpsilon(s, 1); !errors.Is(err, mechanism.ErrNoise) {
			t.Errorf("%+v: %v, %v", s, n, err)
		}
	}
	for _, size := range []float64{0, -1, nan, inf, 1e-200, 1e200} {
		for _, n := range []mechanism.Noise{mechanism.Gaussian{Sigma: size}, mechanism.Laplace{Scale: size}} {
			x := []float64{0, 1}
			if n.Add(x, source(1)); !math.IsNaN(x[0]) || !math.IsNaN(x[1]) ||
				n.Guarantee(good) != privacy.NoGuarantee() {
				t.Errorf("%+v: released %v, promised %+v", n, x, n.Guarantee(good))
			}
		}
	}
	if g := (mechanism.Laplace{Scale: 1}).Guarantee(mechanism.Sensitivity{Dim: 1, L2: 1}); g.Promises() {
		t.Errorf("without an l1 distance: %+v", g)
	}
	if g := (mechanism.Gaussian{Sigma: 1e-140}).Guarantee(mechanism.Sensitivity{Dim: 1, L2: 1e200}); g.Promises() {
		t.Errorf("an infinite rho: %+v", g)
	}
	x := []float64{1.25}
	none, err := mechanism.ForRho(good, inf)
	if none.Add(x, nil); err != nil || x[0] != 1.25 || none.Deviation() != 0 || none.Guarantee(good).Promises() {
		t.Errorf("no noise: %v, %+v, %v", x, none, err)
	}
	if none, err = mechanism.ForEpsilon(good, inf); err != nil || none != (mechanism.None{}) {
		t.Errorf("no noise: %+v, %v", none, err)
	}
	if rho, err := mechanism.Budget(inf, 0); err != nil || !math.IsInf(rho, 1) {
		t.Errorf("the budget of no noise is %v, %v", rho, err)
	}
	if _, err := mechanism.Budget(1, 0); !errors.Is(err, privacy.ErrTarget) {
		t.Errorf("delta 0: %v", err)
	}
	if far := []float64{math.MaxFloat64, -math.MaxFloat64}; true { // clamped, and not infinite in steps
		mechanism.Gaussian{Sigma: 1}.Add(far, source(1))
		if math.IsInf(far[0], 0) || far[0] != -far[1] {
			t.Errorf("very large coordinates became %v", far)
		}
	}
}

// Sums of quantized vectors are the same in every order, unlike those of the vectors themselves.
func TestQuantizedSumsAreExact(t *testing.T) {
	const n, grid = 1000, 1.0 / (1 << 30)
	draw := rand.New(rand.NewPCG(5, 6))
	x := make([]float64, n)
	for i := range x {
		x[i] = draw.Float64() - 0.5
	}
	unrounded := append([]float64(nil), x...)
	mechanism.Quantize(x, grid)
	sums := func(x []float64) (up, down float64) {
		for i := range x {
			up, down = up+x[i], down+x[n-1-i]
		}
		return up, down
	}
	if up, down := sums(x); up != down {
		t.Errorf("%v and %v", up, down)
	}
	if up, down := sums(unrounded); up == down {
		t.Error("the test's numbers have the same sum in both orders without rounding")
	}
	for i := range x {
		if math.Abs(x[i]-unrounded[i]) > grid/2 {
			t.Fatalf("%v became %v", unrounded[i], x[i])
		}
	}
}

package family_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

type familyCase struct {
	name string
	r    float64
}

// familyCases covers every family, the bounded ones at a small, a moderate and a large R.
var familyCases = []familyCase{
	{"logistic", 1}, {"probit", 1},
	{"poisson", 1}, {"poisson", 5}, {"poisson", 40},
	{"gaussian", 0.01}, {"gaussian", 1}, {"gaussian", 5}, {"gaussian", 60},
	{"linear", 1},
}

func (c familyCase) build(t testing.TB) family.Family {
	t.Helper()
	f, err := family.New(c.name, c.r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s = %.12g, want %.12g within %g", what, got, want, tol)
	}
}

// Means, variances and log-partitions equal independently computed values, given to ten digits.
func TestFamiliesHaveTheirGoldenValues(t *testing.T) {
	logistic := familyCase{"logistic", 1}.build(t)
	near(t, "logistic mu(1)", logistic.Mean(1), 0.7310585786, 6e-11)
	near(t, "logistic mu'(1)", logistic.Variance(1), 0.1966119332, 6e-11)
	probit := familyCase{"probit", 1}.build(t)
	near(t, "Phi(1)", probit.Mean(1), 0.8413447461, 6e-11)
	near(t, "phi(1)", probit.Variance(1), 0.2419707245, 6e-11)
	near(t, "probit m(0)", probit.LogPartition(0), 0.3989422804, 6e-11)
	near(t, "probit m(1)", probit.LogPartition(1), 1.0833154706, 6e-11)
	poisson := familyCase{"poisson", 5}.build(t)
	near(t, "poisson m(1)", poisson.LogPartition(1), 2.6583064851, 6e-11)
	near(t, "poisson mu(1)", poisson.Mean(1), 2.4827238559, 6e-11)
	near(t, "poisson mu'(1)", poisson.Variance(1), 1.8897593911, 6e-11)
	gaussian := familyCase{"gaussian", 1}.build(t)
	near(t, "gaussian R=1 mu(1)", gaussian.Mean(1), 0.7215042497, 6e-11)
	near(t, "gaussian R=1 mu'(0)", gaussian.Variance(0), 0.25, 6e-11)
	gaussian5 := familyCase{"gaussian", 5}.build(t)
	near(t, "gaussian R=5 mu(0)", gaussian5.Mean(0), 2.5, 1e-14)
	near(t, "gaussian R=5 mu(-3)", gaussian5.Mean(-3), 0.4846260278, 6e-11)
	near(t, "gaussian R=5 mu'(-3)", gaussian5.Variance(-3), 0.1968830858, 6e-11)
	linear := familyCase{"linear", 1}.build(t)
	near(t, "linear m(-0.6)", linear.LogPartition(-.6), .18, 1e-15)
	near(t, "linear mu(-0.6)", linear.Mean(-.6), -.6, 0)
}

// Mean is the derivative of LogPartition and Variance that of Mean, by central differences.
func TestFamilyDerivativesAgreeWithDifferences(t *testing.T) {
	for _, c := range familyCases {
		f := c.build(t)
		scale := math.Max(1, c.r)
		for z := -6.0; z <= 6; z += 0.173 {
			const h = 1e-5
			near(t, c.name+" m'", (f.LogPartition(z+h)-f.LogPartition(z-h))/(2*h), f.Mean(z), 1e-6*scale)
			near(t, c.name+" dmu", (f.Mean(z+h)-f.Mean(z-h))/(2*h), f.Variance(z), 1e-6*scale)
		}
	}
}

// The matching loss is sound because Phi(1-Phi) <= phi; the ratio is largest at 0.
func TestProbitVarianceIsAtMostItsDensity(t *testing.T) {
	f := familyCase{"probit", 1}.build(t)
	largest, at := 0.0, 0.0
	for z := -8.0; z <= 8; z += 1.0 / 128 {
		// Phi(-z) rather than 1-Phi(z): exact in the upper tail.
		if q := f.Mean(z) * f.Mean(-z) / f.Variance(z); q > largest {
			largest, at = q, z
		}
	}
	near(t, "max Phi(1-Phi)/phi", largest, 0.6266570687, 6e-11)
	near(t, "its place", at, 0, 1e-12)
}

// The second derivative of mu, by central differences, is at most M mu' on |z| <= S; it and the third obey Smoothness.
func TestSelfConcordanceBoundsTheSecondDerivative(t *testing.T) {
	for _, c := range familyCases {
		f := c.build(t)
		for _, S := range []float64{1, 2, 5} {
			m := f.SelfConcordance(S)
			second, third := f.Smoothness(S)
			for z := -S; z <= S; z += S / 200 {
				const h = 1e-4
				up, mid, down := f.Variance(z+h), f.Variance(z), f.Variance(z-h)
				d2, d3 := (up-down)/(2*h), (up-2*mid+down)/(h*h)
				noise := 1e-7*math.Max(1, c.r*c.r)*mid + 1e-6*math.Abs(d2) // of the differences
				if math.Abs(d2) > m*mid+noise {
					t.Errorf("%s R=%v S=%v z=%v: |mu''| = %v > %v * mu'", c.name, c.r, S, z, d2, m)
				}
				if math.Abs(d2) > second+noise || math.Abs(d3) > third*(1+1e-4)+noise+1e-6 {
					t.Errorf("%s R=%v S=%v z=%v: derivatives %v, %v above Smoothness %v, %v",
						c.name, c.r, S, z, d2, d3, second, third)
				}
			}
		}
	}
}

// MaxVariance bounds mu' on a fine grid, and is tight.
func TestMaxVarianceIsATightBound(t *testing.T) {
	for _, c := range familyCases {
		f := c.build(t)
		for _, S := range []float64{0, 0.3, 1, 3, 10, 50} {
			bound, largest := f.MaxVariance(S), 0.0
			for i := -4000; i <= 4000; i++ {
				largest = math.Max(largest, f.Variance(S*float64(i)/4000))
			}
			if largest > bound {
				t.Errorf("%s R=%v S=%v: mu' reaches %v, the bound is %v", c.name, c.r, S, largest, bound)
			}
			if bound > largest*(1+1e-3) {
				t.Errorf("%s R=%v S=%v: the bound %v is loose, mu' reaches %v", c.name, c.r, S, bound, largest)
			}
		}
	}
}

// Means increase in [0, R], variances are not negative and nothing is NaN, for |z| up to 50 and beyond.
func TestMeansIncreaseAndVariancesAreNotNegative(t *testing.T) {
	for _, c := range familyCases {
		f := c.build(t)
		if f.Name() != c.name || f.MaxReward() != c.r {
			t.Errorf("%v: built %s with R = %v", c, f.Name(), f.MaxReward())
		}
		least, most := f.MinReward(), c.r
		if low, high := family.RewardRange(c.name, c.r); low != least || high != most {
			t.Errorf("%v: range [%v, %v] by name, [%v, %v] by the family", c, low, high, least, most)
		}
		ceiling := c.r*c.r/4 + 0.2
		if c.name == "linear" { // its mean leaves the range of rewards, and mu' only bounds the variance
			least, most, ceiling = -60, 60, 1
		}
		previous := least
		for z := -60.0; z <= 60; z += 0.25 {
			mean := f.Mean(z)
			if !(mean >= previous-1e-12*c.r && mean <= most) {
				t.Errorf("%v: mu(%v) = %v after %v", c, z, mean, previous)
			}
			previous = mean
			if v := f.Variance(z); !(v >= 0 && v <= ceiling) {
				t.Errorf("%v: mu'(%v) = %v", c, z, v)
			}
			if f.Symmetric() {
				near(t, c.name+" symmetry", f.Mean(-z), f.MinReward()+c.r-mean, 1e-13)
			}
		}
		for _, z := range []float64{-1e6, -1e3, 1e3, 1e6} {
			for what, v := range map[string]float64{"m": f.LogPartition(z), "mu": f.Mean(z), "mu'": f.Variance(z)} {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("%v: %s(%v) = %v", c, what, z, v)
				}
			}
		}
		nan := math.NaN()
		for what, v := range map[string]float64{"m": f.LogPartition(nan), "mu": f.Mean(nan), "mu'": f.Variance(nan)} {
			if !math.IsNaN(v) {
				t.Errorf("%v: %s(NaN) = %v, a NaN must not be hidden", c, what, v)
			}
		}
	}
}

// Tails agree with their expansions: far below 0 the reward in standard deviations is nearly exponential of rate
// b = a|z|/2 - 2, with mean 1/b - 2/b^3 + 10/b^5 and variance 1/b^2 - 6/b^4 + 50/b^6.
func TestGaussianTailsAgreeWithTheirExpansions(t *testing.T) {
	const r = 5
	f := familyCase{"gaussian", r}.build(t)
	a := f.MaxReward() / 2 / f.Dispersion()
	for _, b := range []float64{20, 35, 50} {
		z := -(2*b + 4) / a
		near(t, "mean", f.Mean(z)*4/r*b, 1-2/(b*b)+10/math.Pow(b, 4), 80/math.Pow(b, 6))
		near(t, "variance", f.Variance(z)*8/(a*r)*b*b, 1-6/(b*b)+50/math.Pow(b, 4), 550/math.Pow(b, 6))
		near(t, "reflected mean", f.Mean(-z), r-f.Mean(z), 1e-14)
		near(t, "reflected variance", f.Variance(-z), f.Variance(z), 1e-15)
	}
}

// What a score means does not depend on the range of rewards: the mean as a position in it, and what a cohort tells of
// the score.
func TestGaussianScoresAreOfAnyRange(t *testing.T) {
	unit := familyCase{"gaussian", 1}.build(t)
	rapid.Check(t, func(t *rapid.T) {
		r := math.Exp(rapid.Float64Range(-5, 13).Draw(t, "log R"))
		z := rapid.Float64Range(-60, 60).Draw(t, "z")
		f, err := family.New("gaussian", r)
		if err != nil {
			t.Fatal(err)
		}
		for what, pair := range map[string][2]float64{
			"mean":        {f.Mean(z) / r, unit.Mean(z)},
			"information": {f.Variance(z) / f.Dispersion(), unit.Variance(z) / unit.Dispersion()},
			"most":        {f.MaxVariance(10) / r, unit.MaxVariance(10)},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-12*math.Abs(pair[1]) {
				t.Errorf("%s of score %v: %v for R = %v, %v for R = 1", what, z, pair[0], r, pair[1])
			}
		}
	})
}

// Dispersion times mu' is the variance of the reward, of draws from the exponential families: 40000 rewards, a relative
// error of 0.05, 7 standard errors of the variance of a normal law and more of the others.
func TestDispersionTimesSlopeIsTheVariance(t *testing.T) {
	const n = 40000
	for _, c := range []familyCase{{"logistic", 1}, {"poisson", 5}, {"gaussian", 1}, {"gaussian", 60}} {
		f := c.build(t)
		env, src := family.Environment{Family: f, Theta: []float64{1}}, rand.NewChaCha8([32]byte{7})
		for _, z := range []float64{-1, 0, 1.5} {
			var sum, square float64
			for range n {
				r := env.Reward([]float64{z}, src)
				sum, square = sum+r, square+r*r
			}
			mean := sum / n
			near(t, fmt.Sprint(c, " mean at ", z), mean, f.Mean(z), 0.03*c.r)
			variance := square/n - mean*mean
			near(t, fmt.Sprint(c, " variance at ", z), variance/(f.Dispersion()*f.Variance(z)), 1, 0.05)
		}
	}
}

// Counts in {0, 1} have the logistic law.
func TestPoissonOneIsLogistic(t *testing.T) {
	p, l := familyCase{"poisson", 1}.build(t), familyCase{"logistic", 1}.build(t)
	rapid.Check(t, func(t *rapid.T) {
		z := rapid.Float64Range(-40, 40).Draw(t, "z")
		for what, d := range map[string]float64{
			"m":   p.LogPartition(z) - l.LogPartition(z),
			"mu":  p.Mean(z) - l.Mean(z),
			"mu'": p.Variance(z) - l.Variance(z),
		} {
			if math.Abs(d) > 1e-14*(1+math.Abs(z)) {
				t.Errorf("%s(%v) differs by %v", what, z, d)
			}
		}
	})
}

func TestNewFamilyRefusesUnknownNamesAndRewards(t *testing.T) {
	_, err := family.New("normal", 1)
	if !errors.Is(err, family.ErrUnknown) {
		t.Fatalf("got %v", err)
	}
	for _, name := range []string{"logistic", "probit", "poisson", "gaussian", "linear", `"normal"`} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %s", err, name)
		}
	}
	for _, c := range []familyCase{
		{"logistic", 2}, {"logistic", 0}, {"linear", 2}, {"linear", .5}, {"linear", math.NaN()}, {"probit", math.NaN()},
		{"poisson", 0}, {"poisson", 2.5},
		{"poisson", math.Inf(1)}, {"poisson", family.MaxPoissonReward + 1}, {"poisson", math.NaN()},
		{"gaussian", 0}, {"gaussian", -1}, {"gaussian", math.NaN()}, {"gaussian", math.Inf(1)},
	} {
		if _, err := family.New(c.name, c.r); !errors.Is(err, family.ErrMaxReward) {
			t.Errorf("%v: got %v", c, err)
		}
	}
}

// With r = mu(z0) the loss m(z) - r z is least at z0.
func TestLossIsLeastAtTheMean(t *testing.T) {
	for _, c := range familyCases {
		f := c.build(t)
		rapid.Check(t, func(t *rapid.T) {
			z0 := rapid.Float64Range(-5, 5).Draw(t, "z0")
			z := rapid.Float64Range(-8, 8).Draw(t, "z")
			r := f.Mean(z0)
			if family.Loss(f, z, r) < family.Loss(f, z0, r)-1e-11*math.Max(1, c.r) {
				t.Errorf("%v: loss at %v below the loss at %v", c, z, z0)
			}
		})
	}
}

func BenchmarkFamily(b *testing.B) {
	for _, c := range []familyCase{{"logistic", 1}, {"probit", 1}, {"poisson", 5}, {"gaussian", 5}} {
		f := c.build(b)
		b.Run(c.name+"/Mean", func(b *testing.B) {
			sum, z := 0.0, -3.0
			for b.Loop() {
				sum += f.Mean(z)
				z = -z * 0.999
			}
			_ = sum
		})
		b.Run(c.name+"/MaxVariance", func(b *testing.B) {
			for b.Loop() {
				f.MaxVariance(5)
			}
		})
	}
}

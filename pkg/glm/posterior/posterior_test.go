package posterior_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/posterior"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// far is a radius that no draw of these tests reaches.
const far = 1e6

func draws(t testing.TB, theta []float64, c symmetric.Packed, scale, radius float64, m, epoch int) [][]float64 {
	t.Helper()
	out, err := posterior.Draws(theta, c, scale, radius, m, epoch)
	if err != nil || len(out) != m {
		t.Fatalf("%d draws, %v", len(out), err)
	}
	return out
}

// The same arguments give these numbers on every machine: an auditor computes what the analyzer announced. The numbers
// of the identity were computed apart, from SHA-256 and the quantile of Python's statistics.NormalDist.
func TestDrawsAreTheseNumbers(t *testing.T) {
	identity := symmetric.Packed{1, 0, 1}
	for name, c := range map[string]struct {
		got, want [][]float64
	}{
		"identity": {draws(t, []float64{0, 0}, identity, 1, far, 4, 0), [][]float64{
			{1.1592284812792, -0.004903002658408529},
			{-1.1592284812792, 0.004903002658408529},
			{1.0781792823137162, 0.5451858671888863},
			{-1.0781792823137162, -0.5451858671888863},
		}},
		"epoch 7": {draws(t, []float64{0, 0}, identity, 1, far, 2, 7), [][]float64{
			{-1.7534800478630959, -0.4343260131651507},
			{1.7534800478630959, 0.4343260131651507},
		}},
		"theta, covariance, scale and ball": {
			draws(t, []float64{0.5, -1}, symmetric.Packed{4, 1, 2}, 0.5, 1.25, 3, 1), [][]float64{
				{0.26653200734699484, -0.1986926427134127},
				{0.47140173611494046, -1.1577047996738288},
				{0.5, -1},
			}},
	} {
		for i := range c.want {
			if !slices.EqualFunc(c.got[i], c.want[i], func(x, y float64) bool {
				return scalar.EqualWithinAbsOrRel(x, y, 1e-14, 1e-14) // fused multiplications differ in the last bit
			}) {
				t.Errorf("%s: draw %d is %.17g, want %.17g", name, i, c.got[i], c.want[i])
			}
		}
	}
}

// Two calls give the same bits, share no memory, and leave their arguments alone; another epoch gives others.
func TestDrawsAreAFunctionOfTheirArguments(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(1, 6).Draw(r, "d")
		theta, c := drawTheta(r, d), drawCovariance(r, d)
		m, epoch := rapid.IntRange(1, glm.MaxDraws).Draw(r, "m"), rapid.IntRange(0, 1000).Draw(r, "epoch")
		before, beforeC := slices.Clone(theta), slices.Clone(c)
		first, err := posterior.Draws(theta, c, 0.7, 3, m, epoch)
		if err != nil {
			r.Fatal(err)
		}
		kept := make([][]float64, m)
		for i := range first {
			kept[i] = slices.Clone(first[i])
			first[i][0] = math.NaN()
		}
		again, err := posterior.Draws(theta, c, 0.7, 3, m, epoch)
		if err != nil || !slices.EqualFunc(again, kept, slices.Equal) || !slices.Equal(theta, before) ||
			!slices.Equal(c, beforeC) {
			r.Fatalf("%v, then %v, %v", kept, again, err)
		}
		if other, err := posterior.Draws(theta, c, 0.7, 3, m, epoch+1); err != nil ||
			m > 1 && c[0] > 1e-3 && slices.EqualFunc(other, kept, slices.Equal) {
			r.Fatalf("two epochs have the same draws, %v", err)
		}
	})
}

func drawTheta(r *rapid.T, d int) []float64 {
	theta := rapid.SliceOfN(rapid.Float64Range(-1, 1), d, d).Draw(r, "theta")
	for j := range theta {
		theta[j] *= 3 / math.Sqrt(float64(d)) * (1 - 1e-12)
	}
	return theta
}

// drawCovariance is B B' for a random B, possibly singular.
func drawCovariance(r *rapid.T, d int) symmetric.Packed {
	rank := rapid.IntRange(0, d).Draw(r, "rank")
	b := mat.NewDense(d, max(1, rank), nil)
	for i := range d {
		for k := range rank {
			b.Set(i, k, rapid.Float64Range(-1, 1).Draw(r, "root"))
		}
	}
	m := mat.NewSymDense(d, nil)
	m.SymOuterK(1, b)
	return symmetric.Pack(m)
}

// Whatever the arguments, a policy accepts its draws; where none is projected, their mean is theta, and an odd one is
// theta itself.
func TestThePolicyAcceptsItsDrawsAndTheirMeanIsTheta(t *testing.T) {
	projected, free := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.IntRange(1, 6).Draw(r, "d")
		theta, c := drawTheta(r, d), drawCovariance(r, d)
		m, epoch := rapid.IntRange(1, glm.MaxDraws).Draw(r, "m"), rapid.IntRange(0, 9).Draw(r, "epoch")
		scale := rapid.SampledFrom([]float64{0, 0.01, 1, 100, 1e50}).Draw(r, "scale")
		for _, radius := range []float64{3, 1e60} {
			all, err := posterior.Draws(theta, c, scale, radius, m, epoch)
			if err != nil {
				r.Fatal(err)
			}
			p := glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: d, Radius: radius,
				Theta: theta, Play: glm.PlaySampled, Draws: all}
			if err := p.Validate(); err != nil {
				r.Fatal(err)
			}
			inside, largest := true, 0.0
			mean := make([]float64, d)
			for _, draw := range all {
				inside = inside && convex.Norm(draw) < radius*(1-1e-9)
				largest = math.Max(largest, convex.MaxAbs(draw))
				for j, v := range draw {
					mean[j] += v / float64(m)
				}
			}
			if !inside {
				projected++
				continue
			}
			free++
			for j, v := range mean {
				if math.Abs(v-theta[j]) > 1e-12*(1+largest) {
					r.Fatalf("mean %v, theta %v", mean, theta)
				}
			}
			if m%2 == 1 && !slices.Equal(all[m-1], theta) {
				r.Fatalf("the odd draw is %v, theta %v", all[m-1], theta)
			}
		}
	})
	if projected == 0 || free == 0 {
		t.Errorf("%d sets of draws with projection, %d without: one case was not tried", projected, free)
	}
}

// Over 400 epochs of 32 pairs, 12 800 independent draws, every entry of the empirical covariance is within 5 of its
// standard errors, sqrt((c_ii c_jj + c_ij^2) / n). So are those of draws of one epoch and of neighbouring epochs, which
// must be uncorrelated. Over both matrices a false alarm has probability below 2e-4; an entry that is off by a tenth of
// sqrt(c_ii c_jj) is found with probability above 0.998.
func TestDrawsHaveTheirCovariance(t *testing.T) {
	const epochs, d, n = 400, 4, 400 * glm.MaxDraws / 2
	for name, c := range map[string]symmetric.Packed{
		"identity": symmetric.Pack(mat.NewDiagDense(d, []float64{1, 1, 1, 1})),
		"another":  {2, 0.5, -0.3, 0, 1, 0.2, 0.1, 0.5, -0.1, 0.2},
	} {
		const scale = 1.5
		theta := []float64{1, -2, 0, 0.5}
		want := c.Dense(d)
		want.ScaleSym(scale*scale, want)
		got, within, across := mat.NewDense(d, d, nil), mat.NewDense(d, d, nil), mat.NewDense(d, d, nil)
		add := func(to *mat.Dense, x, y []float64) {
			for i := range d {
				for j := range d {
					to.Set(i, j, to.At(i, j)+(x[i]-theta[i])*(y[j]-theta[j])/n)
				}
			}
		}
		before := draws(t, theta, c, scale, far, glm.MaxDraws, epochs)
		for epoch := range epochs {
			now := draws(t, theta, c, scale, far, glm.MaxDraws, epoch)
			for k := 0; k < glm.MaxDraws; k += 2 { // the second of a pair mirrors the first
				add(got, now[k], now[k])
				add(within, now[k], now[(k+2)%glm.MaxDraws])
				add(across, now[k], before[k])
			}
			before = now
		}
		for i := range d {
			for j := range d {
				both := want.At(i, i) * want.At(j, j)
				for what, x := range map[string][2]float64{
					"covariance":       {got.At(i, j) - want.At(i, j), both + want.At(i, j)*want.At(i, j)},
					"within one epoch": {within.At(i, j), both},
					"of two epochs":    {across.At(i, j), both},
				} {
					if math.Abs(x[0]) > 5*math.Sqrt(x[1]/n) {
						t.Errorf("%s: %s of %d and %d is off by %v, standard error %v", name, what, i, j, x[0],
							math.Sqrt(x[1]/n))
					}
				}
			}
		}
	}
}

// The largest distance between the empirical distribution of 12 800 draws of one coordinate and the normal one is below
// 2.3/sqrt(n): a false alarm has probability 5e-5 (Kolmogorov), and a distribution that is off by 0.04 somewhere is
// found with probability above 0.999.
func TestDrawsAreNormal(t *testing.T) {
	var all []float64
	for epoch := range 400 {
		for k, draw := range draws(t, []float64{0}, symmetric.Packed{4}, 0.5, far, glm.MaxDraws, epoch) {
			if k%2 == 0 {
				all = append(all, draw[0])
			}
		}
	}
	slices.Sort(all)
	n, worst := float64(len(all)), 0.0
	for i, x := range all {
		p := math.Erfc(-x/math.Sqrt2) / 2
		worst = math.Max(worst, math.Max(p-float64(i)/n, float64(i+1)/n-p))
	}
	if worst*math.Sqrt(n) > 2.3 {
		t.Errorf("distance %v of %v draws", worst, n)
	}
}

// A projected draw lies on the sphere, in the direction that it had.
func TestDrawsOutsideAreProjected(t *testing.T) {
	theta, c := []float64{1, 0.5}, symmetric.Packed{2, 0.3, 1}
	near, wide := draws(t, theta, c, 3, 2, glm.MaxDraws, 4), draws(t, theta, c, 3, far, glm.MaxDraws, 4)
	outside := 0
	for k, x := range wide {
		n := convex.Norm(x)
		if n <= 2 {
			if !slices.Equal(near[k], x) {
				t.Errorf("draw %d is inside and was moved: %v, %v", k, x, near[k])
			}
			continue
		}
		outside++
		for j, v := range near[k] {
			if !scalar.EqualWithinAbs(v, x[j]*2/n, 1e-12) {
				t.Errorf("draw %d at %v is projected to %v", k, x, near[k])
			}
		}
	}
	if outside == 0 || outside == len(wide) {
		t.Errorf("%d of %d draws are outside: the test is blind", outside, len(wide))
	}
}

// Covariances of every rank and size are drawn from: a singular one stays in its range up to the slack, zero gives
// theta alone, and entries near the ends of the range neither overflow nor vanish.
func TestSingularAndExtremeCovariances(t *testing.T) {
	theta := []float64{0.25, -0.5}
	for _, draw := range draws(t, theta, symmetric.Packed{0, 0, 0}, 5, 3, 6, 0) {
		if !slices.Equal(draw, theta) {
			t.Errorf("a covariance of zero: %v", draw)
		}
	}
	for _, draw := range draws(t, theta, symmetric.Packed{1, 1, 1}, 1, far, glm.MaxDraws, 0) {
		if along, off := draw[0]-0.25, draw[1]+0.5; math.Abs(along-off) > 1e-3 || along == 0 {
			t.Errorf("a covariance of rank 1: %v", draw)
		}
	}
	plain := draws(t, []float64{0, 0}, symmetric.Packed{1, 0.5, 2}, 1, far, 8, 0)
	for _, size := range []float64{1e-200, 1e99} {
		root := math.Sqrt(size)
		for k, draw := range draws(t, []float64{0, 0}, symmetric.Packed{size, size / 2, 2 * size}, 1, 1e60, 8, 0) {
			for j, v := range draw {
				if !scalar.EqualWithinRel(v, plain[k][j]*root, 1e-12) {
					t.Errorf("entries of %v: draw %v, want %v times %v", size, draw, plain[k], root)
				}
			}
		}
	}
	largest := draws(t, []float64{0}, symmetric.Packed{symmetric.MaxEntry}, symmetric.MaxEntry, 1, 2, 0)
	if math.Abs(largest[0][0]) != 1 {
		t.Errorf("the largest scale: %v", largest)
	}
}

func TestDrawsThatCannotBeMade(t *testing.T) {
	type arguments struct {
		theta         []float64
		c             symmetric.Packed
		scale, radius float64
		m, epoch      int
	}
	nan := math.NaN()
	for name, spoil := range map[string]func(a *arguments){
		"none":                  func(a *arguments) { a.m = 0 },
		"negative":              func(a *arguments) { a.m = -1 },
		"too many":              func(a *arguments) { a.m = glm.MaxDraws + 1 },
		"epoch":                 func(a *arguments) { a.epoch = -1 },
		"scale":                 func(a *arguments) { a.scale = -0.1 },
		"scale NaN":             func(a *arguments) { a.scale = nan },
		"infinite scale":        func(a *arguments) { a.scale = math.Inf(1) },
		"large scale":           func(a *arguments) { a.scale = 2 * symmetric.MaxEntry },
		"radius":                func(a *arguments) { a.theta, a.radius = []float64{0, 0}, 0 },
		"radius NaN":            func(a *arguments) { a.radius = nan },
		"infinite radius":       func(a *arguments) { a.radius = math.Inf(1) },
		"theta outside":         func(a *arguments) { a.theta = []float64{2, 0.1} },
		"theta NaN":             func(a *arguments) { a.theta[1] = nan },
		"theta infinite":        func(a *arguments) { a.theta[0] = math.Inf(-1) },
		"no theta":              func(a *arguments) { a.theta, a.c = nil, nil },
		"covariance length":     func(a *arguments) { a.c = a.c[:2] },
		"covariance NaN":        func(a *arguments) { a.c[1] = nan },
		"covariance indefinite": func(a *arguments) { a.c = symmetric.Packed{1, 2, 1} },
	} {
		a := arguments{[]float64{0, 2}, symmetric.Packed{1, 0, 1}, 1, 2, glm.MaxDraws, 0}
		if _, err := posterior.Draws(a.theta, a.c, a.scale, a.radius, a.m, a.epoch); err != nil {
			t.Fatal(err)
		}
		spoil(&a)
		got, err := posterior.Draws(a.theta, a.c, a.scale, a.radius, a.m, a.epoch)
		if !errors.Is(err, posterior.ErrDraws) || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

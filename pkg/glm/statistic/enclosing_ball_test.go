package statistic_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// The diameter equals independently computed ones in two dimensions or more. The bound may be above by its margin,
// never below.
func TestEnclosingBallHasItsGoldenDiameters(t *testing.T) {
	for _, c := range []struct {
		family         familyCase
		size, diameter float64
		centre         float64 // 0: not given
		digits         float64 // half a unit of the last digit given
	}{
		{familyCase{"logistic", 1}, 0.5, 1.029109170, 0, 6e-10},
		{familyCase{"logistic", 1}, 1, 1.099095477, 0.211022, 6e-10},
		{familyCase{"logistic", 1}, 2, 1.269841090, 0, 6e-10},
		{familyCase{"logistic", 1}, 3, 1.418958302, 0.373411, 6e-10},
		{familyCase{"logistic", 1}, 5, 1.617278089, 0, 6e-10},
		{familyCase{"probit", 1}, 2, 1.4589177, 0.39364, 6e-8},
		{familyCase{"poisson", 5}, 1, 8.1963403, 0.79167, 6e-8},
		// The width of a limacon: (1 + cos phi) sin phi is largest at 60 degrees.
		{familyCase{"linear", 1}, 1, 2.598076211, 0.75, 6e-10},
	} {
		centre, radius := statistic.EnclosingBall(c.family.build(t), c.size)
		if d := 2 * radius; d < c.diameter-c.digits || d > c.diameter+c.digits+2e-9*c.diameter {
			t.Errorf("%v |theta|=%v: diameter %.10f, want %.10f", c.family, c.size, d, c.diameter)
		}
		if c.centre != 0 && math.Abs(centre-c.centre) > 3e-5 {
			t.Errorf("%v |theta|=%v: centre %.6f, want %.6f", c.family, c.size, centre, c.centre)
		}
	}
}

// Two records realise the diameter, so no smaller ball and no other set would give a smaller
// sensitivity, for every family and size here. The pair is the same arm at angle phi from theta, on either side.
func TestEnclosingBallIsExact(t *testing.T) {
	for _, c := range familyCases {
		f := c.build(t)
		for _, size := range []float64{0, 0.1, 0.5, 1, 2, 3, 5, 10, 50} {
			_, radius := statistic.EnclosingBall(f, size)
			widest := 0.0
			for i := 1; i < 20000; i++ {
				phi := math.Pi * float64(i) / 20000
				a := size * math.Cos(phi)
				widest = math.Max(widest, math.Sin(phi)*math.Max(f.Mean(a)-f.MinReward(), c.r-f.Mean(-a)))
			}
			if radius < widest || radius > widest*(1+1e-5) {
				t.Errorf("%v |theta|=%v: radius %.9g, two records are %.9g apart", c, size, radius, 2*widest)
			}
		}
	}
}

// The radius covers the set around the returned centre, on random arms.
func TestEnclosingBallHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := rapid.SampledFrom(familyCases).Draw(rt, "family")
		size := rapid.Float64Range(0, 20).Draw(rt, "size")
		f := c.build(t)
		centre, radius := statistic.EnclosingBall(f, size)
		for range 200 {
			along := rapid.Float64Range(-1, 1).Draw(rt, "along")
			across := math.Sqrt(1-along*along) * rapid.Float64Range(0, 1).Draw(rt, "across")
			r := f.MinReward() + (c.r-f.MinReward())*rapid.Float64Range(0, 1).Draw(rt, "r")
			m := f.Mean(size*along) - r
			if dist := math.Hypot(m*along-centre, m*across); dist > radius*(1+1e-12) {
				rt.Fatalf("a gradient is %v from the centre, the radius is %v", dist, radius)
			}
		}
	})
}

// Along theta the gradients spread less than across it.
func TestRangesAreTighterThanTheBall(t *testing.T) {
	f := familyCase{"logistic", 1}.build(t)
	s, err := statistic.NewGradient(f, []float64{3, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	b := bounds(t, s)
	// The exact spread along theta: mu(3) upwards, and max_a a mu(-3a) downwards.
	down := 0.0
	for a := 0.0; a <= 1; a += 1e-4 {
		down = math.Max(down, a*f.Mean(-3*a))
	}
	near(t, "upper", b.Upper[0], f.Mean(3), 0.01)
	near(t, "lower", b.Lower[0], -down, 0.01)
	near(t, "across", b.Upper[1]-b.Lower[1], b.Diameter, 0.01)
}

// The diameter of Hessians is never below that of a fine grid of pairs of angles, and at most 4 % above.
func TestHessianDiameterIsTight(t *testing.T) {
	for _, c := range boundedFamilies {
		f := c.build(t)
		for _, size := range []float64{0.5, 1, 2, 3, 5} {
			for _, d := range []int{2, 3} {
				th := make([]float64, d)
				th[0] = size
				s, err := statistic.NewHessian(f, th)
				if err != nil {
					t.Fatal(err)
				}
				got, want := bounds(t, s).Diameter, gridDiameter(f, size, d)
				if got < want || got > want*1.04 {
					t.Errorf("%v d=%d |theta|=%v: diameter %v, a grid finds %v", c, d, size, got, want)
				}
			}
		}
	}
}

func gridDiameter(f family.Family, size float64, d int) float64 {
	const n = 240
	var length [n + 1]float64
	for i := range length {
		y := size * math.Cos(math.Pi*float64(i)/n)
		for k := 1; k <= 50; k++ {
			u := float64(k) / 50
			length[i] = math.Max(length[i], u*u*family.Curvature(f, u*y))
		}
	}
	largest := 0.0
	for i, a := range length {
		for j, b := range length {
			p, q := math.Pi*float64(i)/n, math.Pi*float64(j)/n
			sum, diff := math.Cos(p+q), math.Cos(p-q)
			overlap := math.Min(sum*sum, diff*diff)
			if d > 2 && math.Abs(p-q) <= math.Pi/2 && math.Min(p+q, 2*math.Pi-p-q) >= math.Pi/2 {
				overlap = 0
			}
			largest = math.Max(largest, a*a+b*b-2*a*b*overlap)
		}
	}
	return math.Sqrt(largest)
}

// Rotating theta leaves the diameters alone and moves the ranges.
func TestBoundsRotateWithTheta(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, c := range boundedFamilies {
		f := c.build(t)
		a, b := statistics(t, f, theta(rng, 4, 2)), statistics(t, f, theta(rng, 4, 2))
		for i := range a {
			near(t, string(a[i].Kind)+" diameter", bounds(t, a[i]).Diameter, bounds(t, b[i]).Diameter, 1e-9*c.r*c.r)
		}
	}
}

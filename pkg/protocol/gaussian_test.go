package protocol_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// gaussianPMF is P(x) for |x| <= reach, and the rest of the mass in the last place.
func gaussianPMF(g protocol.DiscreteGaussian, reach int) []float64 {
	sigma := float64(g.Sigma)
	mass := func(x int) float64 { return math.Exp(-float64(x) * float64(x) / (2 * sigma * sigma)) }
	total := 0.0
	for x := -40*int(g.Sigma) - 40; x <= 40*int(g.Sigma)+40; x++ {
		total += mass(x)
	}
	pmf, rest := make([]float64, 2*reach+2), 1.0
	for x := -reach; x <= reach; x++ {
		pmf[x+reach] = mass(x) / total
		rest -= pmf[x+reach]
	}
	pmf[2*reach+1] = max(0, rest)
	return pmf
}

// The samples have the law, by chi-square. A right sampler fails with probability falseAlarm over the choice of seeds,
// which are fixed. A coin of the wrong probability anywhere in the sampler moves cells by several per cent, which these
// samples show with a power of nearly 1.
func TestDiscreteGaussianHasItsLaw(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	const samples = 200_000
	var findings []finding
	for _, sigma := range []uint64{1, 2, 3, 7, 40} {
		g, src := protocol.DiscreteGaussian{Sigma: sigma}, seeded("gaussian", int(sigma))
		reach := 7 * int(sigma)
		seen := make([]int, 2*reach+2)
		for range samples {
			x := g.Sample(src)
			if at := x + int64(reach); at >= 0 && at <= int64(2*reach) {
				seen[at]++
			} else {
				seen[2*reach+1]++
			}
		}
		expected := gaussianPMF(g, reach)
		for k := range expected {
			expected[k] *= samples
		}
		findings = append(findings, finding{name: fmt.Sprintf("deviation %d", sigma), p: chiSquare(seen, expected)})
	}
	if p, name := worst(findings); p < falseAlarm {
		t.Errorf("the samples do not have the law: %s", name)
	}
}

// At deviations with more values than can be counted the samples follow the normal distribution function, by
// Kolmogorov and Smirnov, and have its moments: the discrete law's differ by less than 1e-5. False alarm: 1e-6 for the
// distance (sqrt(n) D above 2.7), the moments' at falseAlarm. A deviation wrong by 1 % would fail.
func TestWideDiscreteGaussianIsNormal(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	const samples = 200_000
	for _, sigma := range []uint64{1 << 20, 1<<28 + 12345, protocol.MaxGaussian} {
		g, src := protocol.DiscreteGaussian{Sigma: sigma}, seeded("wide", int(sigma%97))
		z := make([]float64, samples)
		var sum, squares, cubes, fourths float64
		for i := range z {
			z[i] = float64(g.Sample(src)) / float64(sigma)
			square := z[i] * z[i]
			sum, squares, cubes, fourths = sum+z[i], squares+square, cubes+square*z[i], fourths+square*square
		}
		slices.Sort(z)
		distance := 0.0
		for i, v := range z {
			f := 0.5 * math.Erfc(-v/math.Sqrt2)
			distance = max(distance, f-float64(i)/samples, float64(i+1)/samples-f)
		}
		if k := distance * math.Sqrt(samples); k > 2.7 {
			t.Errorf("deviation %d: the distribution function is off by %v, %v in units of its error", sigma, distance,
				k)
		}
		p, name := worst([]finding{{"mean", twoSided(sum / math.Sqrt(samples))},
			{"variance", twoSided((squares - samples) / math.Sqrt(2*samples))},
			{"third moment", twoSided(cubes / math.Sqrt(15*samples))},
			{"fourth moment", twoSided((fourths - 3*samples) / math.Sqrt(96*samples))}})
		if p < falseAlarm {
			t.Errorf("deviation %d: %s", sigma, name)
		}
	}
}

// The draws of a seed do not change: a run of an experiment can be repeated with a later version.
func TestDiscreteGaussianDrawsAreKept(t *testing.T) {
	for _, c := range []struct {
		sigma uint64
		want  []int64
	}{
		{1, []int64{1, -1, 0, 0, 0, 0, -1, -1}},
		{7, []int64{2, 5, -7, 11, 1, 2, 8, -9}},
		{1 << 20, []int64{334559, 861014, 1591268, 418435, -884690, -589305, 1039749, -1431404}},
		{protocol.MaxGaussian, []int64{342588483, 881678543, 1629458817, 428477749, -905922560, -603448581, 1064703079,
			-1465758547}},
	} {
		g, src := protocol.DiscreteGaussian{Sigma: c.sigma}, rand.NewChaCha8([32]byte{'g'})
		got := make([]int64, 8)
		for i := range got {
			got[i] = g.Sample(src)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("deviation %d: drew %v, want %v", c.sigma, got, c.want)
		}
	}
}

// Whatever the deviation and the random words, a draw ends and lies where the law has mass.
func FuzzDiscreteGaussian(f *testing.F) {
	f.Add(uint64(1), uint64(1))
	f.Add(uint64(protocol.MaxGaussian), uint64(2))
	f.Add(uint64(12345), uint64(3))
	f.Fuzz(func(t *testing.T, sigma, seed uint64) {
		g, src := protocol.DiscreteGaussian{Sigma: sigma}, rand.New(rand.NewPCG(seed, 9))
		if sigma < 1 || sigma > protocol.MaxGaussian {
			t.Skip()
		}
		if x := g.Sample(src); math.Abs(float64(x)) > 40*float64(sigma) { // of probability e^-800
			t.Errorf("deviation %d: drew %d", sigma, x)
		}
	})
}

func BenchmarkDiscreteGaussian(b *testing.B) {
	for _, sigma := range []uint64{1, 7, 1 << 20, protocol.MaxGaussian} {
		b.Run(fmt.Sprint(sigma), func(b *testing.B) {
			law, src := protocol.DiscreteGaussian{Sigma: sigma}, rand.NewChaCha8([32]byte{1})
			for b.Loop() {
				law.Sample(src)
			}
		})
	}
}

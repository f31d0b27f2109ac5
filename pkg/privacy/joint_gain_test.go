package privacy_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// TestJointGain measures what the joint certificate frees in the practical profile: Hessian and gradient of one record
// at one theta, d = 5, 2000 honest devices with 6 noise bits each, epsilon 1 at delta 1e-6. The gain is in the noise
// variance of both sums against separate certificates at the same shares of mu^2.
func TestJointGain(t *testing.T) {
	if testing.Short() { // nothing of it runs at the same time as anything else
		t.Skip("without a second goroutine")
	}
	budget, err := privacy.MuFor(1, 0.98e-6)
	if err != nil {
		t.Fatal(err)
	}
	c, err := privacy.NewCertifier(12000, 0.5, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	sizes := []float64{0, 1, 3}
	for _, q := range []struct{ share, least float64 }{{0.15, 1.07}, {0.3, 1.11}} {
		line := fmt.Sprintf("Hessian share %.2f:", q.share)
		for _, size := range sizes {
			theta := []float64{size, 0, 0, 0, 0}
			h, err := statistic.NewHessian(family.Logistic{}, theta)
			if err != nil {
				t.Fatal(err)
			}
			g, err := statistic.NewGradient(family.Logistic{}, theta)
			if err != nil {
				t.Fatal(err)
			}
			spread, err := statistic.JointSpread(h, g)
			if err != nil {
				t.Fatal(err)
			}
			var releases []privacy.Release
			var scales []float64
			for i, s := range []statistic.Statistic{h, g} {
				b, err := s.Bounds()
				if err != nil {
					t.Fatal(err)
				}
				blocks := []privacy.Block{{Count: s.Dim(), Levels: math.Inf(1)}}
				scale, err := c.LargestScale(b.Diameter, blocks, budget*math.Sqrt([]float64{q.share, 1 - q.share}[i]))
				if err != nil {
					t.Fatal(err)
				}
				releases = append(releases, privacy.Release{Name: string(s.Kind), Blocks: blocks,
					Shift: b.Diameter * scale, Noise: 12000, Bias: 0.5, TailDelta: 1e-9})
				scales = append(scales, scale)
			}
			f := privacy.LargestJointFactor(t, releases, scales, spread, budget)
			if f*f < q.least {
				t.Errorf("share %v, |theta| %v: gain %v, want %v at least", q.share, size, f*f, q.least)
			}
			line += fmt.Sprintf("  |theta|=%v: %.3f", size, f*f)
		}
		t.Log(line)
	}
}

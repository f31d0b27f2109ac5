package privacy

import (
	"fmt"
	"math"
	"testing"
)

// BenchmarkCalibrate finds the largest scale for epsilon 1, delta 1e-6 and 15 coordinates, tables included: what a
// planner or a device does per release.
func BenchmarkCalibrate(b *testing.B) {
	for _, n := range []uint64{50 * 6, 2000 * 6, 1e5 * 6, 1e6 * 6, 1e9} {
		for _, p := range []float64{0.5, 0.05} {
			b.Run(fmt.Sprintf("N=%d/p=%v", n, p), func(b *testing.B) {
				target, err := MuFor(1, 0.98e-6)
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					c, err := NewCertifier(n, p, 0.02e-6/15)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := c.LargestScale(1, []Block{{15, math.Inf(1)}}, target); err != nil {
						b.Skip(err)
					}
				}
			})
		}
	}
}

// BenchmarkCertify checks one announced plan, tables included.
func BenchmarkCertify(b *testing.B) {
	for _, n := range []uint64{2000 * 6, 1e6 * 6, 1e9} {
		b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
			r := Release{Blocks: []Block{{5, math.Inf(1)}, {10, 13}}, Shift: 0.236 * math.Sqrt(float64(n)) / 2,
				Noise: n, Bias: 0.5, TailDelta: 1e-9}
			for b.Loop() {
				if _, err := Certify(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEpsilon(b *testing.B) {
	g := Guarantee{Mu: 0.2365, TailDelta: 2e-8}
	for b.Loop() {
		g.Epsilon(1e-6)
	}
}

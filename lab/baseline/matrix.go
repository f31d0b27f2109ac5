package baseline

import (
	"math"

	"github.com/riffle-dp/riffle/internal/population"
)

// growing is a positive definite matrix that grows by rank-one terms, with its inverse and the logarithm of its
// determinant kept up to date (Sherman and Morrison). The errors of some ten thousand updates of well-conditioned
// matrices stay far below what a bandit sees.
type growing struct {
	d       int
	inverse []float64 // row-major
	log     float64   // ln det
	y       []float64 // scratch
}

// newGrowing starts at ridge times the identity.
func newGrowing(d int, ridge float64) *growing {
	g := &growing{d: d, inverse: make([]float64, d*d), log: float64(d) * math.Log(ridge), y: make([]float64, d)}
	for i := range d {
		g.inverse[i*d+i] = 1 / ridge
	}
	return g
}

func (g *growing) clone() *growing {
	return &growing{d: g.d, inverse: append([]float64(nil), g.inverse...), log: g.log, y: make([]float64, g.d)}
}

// solve writes V^-1 x.
func (g *growing) solve(dst, x []float64) {
	for i := range dst {
		dst[i] = population.Dot(g.inverse[i*g.d:(i+1)*g.d], x)
	}
}

// square is x'V^-1 x.
func (g *growing) square(x []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += v * population.Dot(g.inverse[i*g.d:(i+1)*g.d], x)
	}
	return math.Max(0, sum)
}

// norm is ||x|| in the metric of V^-1.
func (g *growing) norm(x []float64) float64 { return math.Sqrt(g.square(x)) }

// add does V += w x x'.
func (g *growing) add(w float64, x []float64) {
	g.solve(g.y, x)
	denominator := 1 + w*population.Dot(g.y, x)
	factor := w / denominator
	for i, v := range g.y {
		row := g.inverse[i*g.d : (i+1)*g.d]
		for j, u := range g.y {
			row[j] -= factor * v * u
		}
	}
	g.log += math.Log(denominator)
}

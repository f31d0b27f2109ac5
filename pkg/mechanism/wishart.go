package mechanism

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Wishart is the noise that "On the optimal regret of locally private linear contextual bandit" adds to symmetric
// matrices (Algorithm 3, after Jiang, Xie and Zhang, "Wishart mechanism for differentially private principal components
// analysis", 2016): Factor (W - E W), with W the sum of Degrees outer products of draws from N(0, Variance I).
//
// It is no private noise. W is never negative, so the noised matrix of features x is never below x x' - Factor E W, and
// whoever sees a matrix below that knows that the features are others. No epsilon bounds the ratio of two likelihoods
// of which one is 0. It is here to repeat and to audit the paper's algorithm; a simulation may use it, a device may
// not.
type Wishart struct {
	Dim      int     // d: vectors are concatenated upper triangles, by rows, of d x d matrices
	Degrees  int     // m, at least 1
	Variance float64 // of a coordinate of the draws; positive
	Factor   float64
}

// Add implements Noise. It is not rounded to a grid.
func (w Wishart) Add(x []float64, src protocol.Source) {
	law, unit := protocol.DiscreteGaussian{Sigma: steps}, math.Sqrt(w.Variance)/steps
	draw := make([]float64, w.Dim)
	size := w.Dim * (w.Dim + 1) / 2
	for at := 0; at+size <= len(x); at += size {
		for range w.Degrees {
			for j := range draw {
				draw[j] = unit * float64(law.Sample(src))
			}
			w.each(func(k, i, j int) {
				x[at+k] += w.Factor * draw[i] * draw[j]
				if i == j {
					x[at+k] -= w.Factor * w.Variance
				}
			})
		}
	}
}

// AddSum adds the sum of so many independent draws, from the Gaussian law with the variances of its coordinates, which
// are uncorrelated: close where the draws are many, by the central limit theorem.
func (w Wishart) AddSum(x []float64, draws int, src protocol.Source) {
	size := w.Dim * (w.Dim + 1) / 2
	for at := 0; at+size <= len(x); at += size {
		w.each(func(k, i, j int) {
			sigma := w.Deviation() * math.Sqrt(float64(draws))
			if i != j {
				sigma /= math.Sqrt2
			}
			Gaussian{Sigma: sigma}.Add(x[at+k:at+k+1], src)
		})
	}
}

// each visits the upper triangle.
func (w Wishart) each(visit func(k, i, j int)) {
	k := 0
	for i := range w.Dim {
		for j := i; j < w.Dim; j++ {
			visit(k, i, j)
			k++
		}
	}
}

// Deviation implements Noise: that of the diagonal, the largest.
func (w Wishart) Deviation() float64 { return w.Factor * w.Variance * math.Sqrt(2*float64(w.Degrees)) }

// Guarantee implements Noise: there is none.
func (Wishart) Guarantee(Sensitivity) privacy.Guarantee { return privacy.NoGuarantee() }

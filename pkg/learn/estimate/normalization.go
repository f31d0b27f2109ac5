package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// Normalization is a matrix U and a lambda with 1/2 I <= E[U x x' U/||U x||] + lambda U <= 2 I (Eq. 2 of "Near-optimal
// private learning in linear contextual bandits"), up to the failure of the noise. It is public.
type Normalization struct {
	U      *mat.SymDense // positive definite
	Lambda float64
	rows   [][]float64 // of U
}

// NewNormalization is a normalization that is known, such as an earlier one.
func NewNormalization(u *mat.SymDense, lambda float64) Normalization {
	return Normalization{U: u, Lambda: lambda, rows: rowsOf(u)}
}

// Apply appends U x to dst[:0].
func (n Normalization) Apply(dst, x []float64) []float64 { return multiply(dst, n.rows, x) }

// Norm is ||U x||.
func (n Normalization) Norm(x []float64) float64 {
	sum := 0.0
	for _, row := range n.rows {
		v := 0.0
		for i, u := range row {
			v += u * x[i]
		}
		sum += v * v
	}
	return math.Sqrt(sum)
}

// tiny is the ||U x|| below which a record counts as x = 0, whose vector is zero: nothing is divided by it.
const tiny = 1e-12

// slack covers the rounding of a statistic's arithmetic in its diameter.
const slack = 1 + 1e-9

// isometric is the factor off the diagonal with which norms of triangles are Frobenius norms: see
// symmetric.AppendOuter.
const isometric = math.Sqrt2

// NormalizationStatistic is V = U^(1/2) x x' U^(1/2)/||U x|| of a record, for a positive definite U, as a triangle with
// the factor off for its entries off the diagonal (sqrt 2 makes it isometric; the paper's SymPriv has 1).
//
// Bounds. V is positive semidefinite of rank one and Frobenius norm x'Ux/||Ux|| <= ||x|| <= 1 (Lemma A.5 of the paper),
// which is its trace, too. For two such matrices <V, W> >= 0, so ||V - W||^2 <= ||V||^2 + ||W||^2 <= 2: the diameter is
// sqrt 2, where the paper takes 2. Two eigenvectors of U reach it. With a factor off below sqrt 2 distances are
// smaller. For a U of very large condition rounding makes ||Ux|| too small; the weight is kept to what bounds the norm.
func NormalizationStatistic(u *mat.SymDense, off float64) (learn.Statistic, error) {
	half, err := root(u)
	if err != nil {
		return learn.Statistic{}, fmt.Errorf("estimate: the normalization's root: %w", err)
	}
	d, n, rows := u.SymmetricDim(), NewNormalization(u, 0), rowsOf(half)
	s := learn.Statistic{Name: "normalization", Diameter: math.Sqrt2 * slack}
	s.Lower, s.Upper = triangleBounds(d, off)
	s.Vector = func(dst []float64, r learn.Record) []float64 {
		x := clipped(r.Arm, d)
		norm := n.Norm(x)
		if !(norm > tiny) {
			return append(dst, make([]float64, len(s.Lower))...)
		}
		var room [16]float64
		y := multiply(room[:0], rows, x)
		weight := 1 / norm
		if n := convex.Norm(y); weight*n*n > 1 {
			weight = 1 / (n * n)
		}
		return symmetric.AppendOuter(dst, weight, y, off)
	}
	return s, nil
}

// Schedule is the lambda of step k = 0 .. K-1, of so many people, given the standard deviation of the noise of the
// mean's coordinates; at k = K, that of the result.
type Schedule func(k, people int, deviation float64) float64

// NoiseSchedule is the practical schedule: a constant multiple of a bound of the noise matrix's operator norm, at least
// 1/horizon. Any lambda above the norm of the noise will do for Eq. (2), as long as batches are not so small that their
// sampling error matters, which is relative (Lemma A.3 of the paper).
//
// The bound. The noise Z has independent entries of deviation s on the diagonal and s/sqrt 2 off it: a Gaussian vector
// in the isometric coordinates. E ||Z|| <= sqrt 2 s sqrt d for the largest eigenvalue and for the smallest (Sudakov and
// Fernique), and the norm is s-Lipschitz in the standard Gaussian, so that with probability 1 - p over K steps
//
//	||Z|| <= s (sqrt(2 d) + sqrt(2 ln(2 K/p))).
func NoiseSchedule(multiple float64, d, steps, horizon int, failure float64) Schedule {
	bound := math.Sqrt(2*float64(d)) + math.Sqrt(2*math.Log(2*float64(steps)/failure))
	return func(_, _ int, deviation float64) float64 {
		return math.Max(multiple*bound*deviation, 1/float64(horizon))
	}
}

// Normalize learns a normalization from so many people, in so many steps of disjoint people. "Near-optimal private
// learning in linear contextual bandits" by Chen, Li, Rakhlin and Simchi-Levi, 2025: Algorithm 1 (joint privacy) where
// the channel adds noise once per step, Algorithm 9 (local privacy) where every device does; and over the channels
// shuffle and shares an algorithm that has no name.
//
//	U <- I
//	repeat: H <- mean of U^(1/2) x x' U^(1/2)/||U x||, with noise; S <- U^(1/2) H U^(1/2) + lambda U;
//	        U <- sym(S^(-1/2) U) = (U S^-1 U)^(1/2)
//
// What differs: H loses its negative eigenvalues, which only noise gives it, before it is used (without that an
// eigenvalue below -lambda makes S^-1 explode); and S^-1 is taken apart as U^(-1/2) (H + lambda I)^-1 U^(-1/2), so that
// U S^-1 U = U^(1/2) (H + lambda I)^-1 U^(1/2) needs no inverse of U. Both are functions of what was released.
//
// noise, if not nil, replaces the channel's.
func Normalize(d, people, steps int, schedule Schedule, off float64, noise mechanism.Noise, ask learn.Asker) (
	Normalization, error,
) {
	u, deviation := identity(d), 0.0
	for k := range steps {
		statistic, err := NormalizationStatistic(u, off)
		if err != nil {
			return Normalization{}, err
		}
		statistic.Noise = noise
		size := part(people, steps, k)
		answer, err := ask(learn.Question{Form: learn.Sums, People: size, Statistics: []learn.Statistic{statistic}})
		if err != nil {
			return Normalization{}, err
		}
		var mean []float64
		mean, deviation = answer.Mean(0)
		if u, err = normalized(u, symmetric.FromTriangle(mean, d, off), schedule(k, size, deviation)); err != nil {
			return Normalization{}, fmt.Errorf("estimate: step %d of the normalization: %w", k, err)
		}
	}
	return NewNormalization(u, schedule(steps, people/steps, deviation)), nil
}

// normalized is the next U: (U S^-1 U)^(1/2) for S = U^(1/2) H U^(1/2) + lambda U.
func normalized(u, h *mat.SymDense, lambda float64) (*mat.SymDense, error) {
	inverse, err := convex.MapSpectrum(h, func(v, _ float64) float64 { return 1 / (math.Max(0, v) + lambda) })
	if err != nil {
		return nil, err
	}
	half, err := root(u)
	if err != nil {
		return nil, err
	}
	return root(congruence(half, inverse))
}

// part is the size of the k-th of n parts of so many people, which differ by at most one.
func part(people, n, k int) int { return people*(k+1)/n - people*k/n }

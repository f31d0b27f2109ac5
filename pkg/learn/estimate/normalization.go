package estimate

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/mechanism"
)

// Normalization is a matrix U and a lambda with 1/2 I <= E[U x x' U/||U x||] + lambda U <= 2 I (Eq. 2 of "Near-optimal
// private learning in linear contextual bandits"), up to the failure of the noise. It is public.
type Normalization struct {
	U      *mat.SymDense // positive definite
	Lambda float64
	// matrix is U, and root its root, as devices are told it.
	matrix, root symmetric.Packed
}

// NewNormalization is a normalization that is known, such as an earlier one. The error is of a matrix without a
// spectrum.
func NewNormalization(u *mat.SymDense, lambda float64) (Normalization, error) {
	half, err := root(u)
	if err != nil {
		return Normalization{}, fmt.Errorf("estimate: the normalization's root: %w", err)
	}
	return Normalization{U: u, Lambda: lambda, matrix: symmetric.Pack(u), root: symmetric.Pack(half)}, nil
}

// Apply appends U x to dst[:0].
func (n Normalization) Apply(dst, x []float64) []float64 { return n.matrix.Times(dst[:0], x) }

// Norm is ||U x||.
func (n Normalization) Norm(x []float64) float64 { return convex.Norm(n.Apply(nil, x)) }

// Statistic is one of the kinds that are reweighted by U; theta only where the kind is evaluated at a point.
func (n Normalization) Statistic(kind statistic.Kind, f family.Family, theta []float64) (learn.Statistic, error) {
	return learn.Announced(statistic.Statistic{Kind: kind, Family: f, Theta: theta, ArmDim: n.U.SymmetricDim(),
		Normalization: n.root})
}

// isometric is the factor off the diagonal with which norms of triangles are Frobenius norms: see
// symmetric.AppendOuter. The paper's SymPriv has 1.
const isometric = math.Sqrt2

// withFactor is a statistic that ends in the triangle of a d x d matrix, with another factor off the diagonal, which is
// at most sqrt 2: then distances are no larger. Where it is another one no announcement can carry it.
func withFactor(s learn.Statistic, d int, off float64) learn.Statistic {
	if off == isometric {
		return s
	}
	exact, first := s.Vector, s.Dim()-symmetric.Dim(d)
	shrink := func(v []float64) {
		for i := range d {
			for j := range d - i {
				if j > 0 {
					v[j] *= off / isometric
				}
			}
			v = v[d-i:]
		}
	}
	s.Data, s.Lower, s.Upper = nil, slices.Clone(s.Lower), slices.Clone(s.Upper)
	shrink(s.Lower[first:])
	shrink(s.Upper[first:])
	s.Vector = func(dst []float64, r learn.Record) []float64 {
		at := len(dst)
		dst = exact(dst, r)
		shrink(dst[at+first:])
		return dst
	}
	return s
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
	deviation := 0.0
	n, err := NewNormalization(identity(d), 0)
	if err != nil {
		return Normalization{}, err
	}
	for k := range steps {
		matrix, err := n.Statistic(statistic.Normalization, nil, nil)
		if err != nil {
			return Normalization{}, err
		}
		matrix = withFactor(matrix, d, off)
		matrix.Noise = noise
		size := part(people, steps, k)
		answer, err := ask(learn.Question{Form: learn.Sums, People: size, Statistics: []learn.Statistic{matrix}})
		if err != nil {
			return Normalization{}, err
		}
		var mean []float64
		mean, deviation = answer.Mean(0)
		if n, err = n.next(symmetric.FromTriangle(mean, d, off), schedule(k, size, deviation)); err != nil {
			return Normalization{}, fmt.Errorf("estimate: step %d of the normalization: %w", k, err)
		}
	}
	n.Lambda = schedule(steps, people/steps, deviation)
	return n, nil
}

// next has the matrix (U S^-1 U)^(1/2) for S = U^(1/2) H U^(1/2) + lambda U.
func (n Normalization) next(h *mat.SymDense, lambda float64) (Normalization, error) {
	inverse, err := convex.MapSpectrum(h, func(v, _ float64) float64 { return 1 / (math.Max(0, v) + lambda) })
	if err != nil {
		return Normalization{}, err
	}
	u, err := root(congruence(n.root.Dense(n.U.SymmetricDim()), inverse))
	if err != nil {
		return Normalization{}, err
	}
	return NewNormalization(u, lambda)
}

// part is the size of the k-th of n parts of so many people, which differ by at most one.
func part(people, n, k int) int { return people*(k+1)/n - people*k/n }

package design

import (
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// conditionFloor is the ratio of a Cholesky pivot to its diagonal entry at which reduceRank turns to an
// orthonormal basis, which distinguishes small directions from absent ones.
const conditionFloor = 1e-8

// reduceRank returns the non-zero arms in coordinates of their own span (row-major, rank columns), whitened so that the
// uniform distribution over them has V = I, together with their indices in arms. rank is 0 when all arms are zero.
// Leverages are invariant under invertible linear maps of the span, so the design of
// these points is the design of the arms themselves; whitening only keeps the arithmetic well scaled.
func reduceRank(arms [][]float64) (points []float64, index []int, rank int) {
	d := len(arms[0])
	largest := 0.0
	for _, x := range arms {
		largest = math.Max(largest, convex.MaxAbs(x))
	}
	if largest == 0 {
		return nil, nil, 0
	}
	index = make([]int, 0, len(arms))
	points = make([]float64, 0, len(arms)*d)
	for i, x := range arms {
		if !slices.ContainsFunc(x, func(v float64) bool { return v != 0 }) {
			continue
		}
		index = append(index, i)
		for _, v := range x {
			points = append(points, v/largest) // no overflow or underflow below, in any units
		}
	}
	n := len(index)
	if n >= d {
		if whiten(points, n, d) {
			return points, index, d
		}
	}
	reduced := orthonormal(points, n, d)
	return reduced, index, len(reduced) / n
}

// whiten replaces each row x by L^-1 x with L L' = (1/n) sum x x'. It leaves the rows as they are and reports false
// when that matrix is too badly conditioned to be trusted.
func whiten(points []float64, n, d int) bool {
	l := make([]float64, d*d)
	if isMany(n, d) {
		weights := make([]float64, n)
		for i := range weights {
			weights[i] = 1 / float64(n)
		}
		gram(l, points, weights)
	} else {
		for i := range n {
			p := points[i*d : (i+1)*d]
			for j, v := range p {
				row := l[j*d:]
				for k := 0; k <= j; k++ {
					row[k] += v * p[k] / float64(n)
				}
			}
		}
	}
	if !symmetric.Cholesky(l, d, conditionFloor) {
		return false
	}
	solveLower(points, l, d)
	return true
}

// orthonormal returns sqrt(n) times an orthonormal basis of the span of the columns of the n x d arm matrix, as its
// rows (Gram and Schmidt with pivots). A column whose rest is at most rankTolerance of the largest column counts as
// none.
func orthonormal(points []float64, n, d int) []float64 {
	rest := make([][]float64, d) // the columns, without what the basis so far spans
	for j := range rest {
		for i := range n {
			rest[j] = append(rest[j], points[i*d+j])
		}
	}
	var basis [][]float64
	for largest := 0.0; len(rest) > 0; {
		pivot, norm := 0, 0.0
		for j, column := range rest {
			if l := convex.Norm(column); l > norm {
				pivot, norm = j, l
			}
		}
		if largest = math.Max(largest, norm); norm <= rankTolerance*largest {
			break
		}
		next := rest[pivot]
		rest = slices.Delete(rest, pivot, pivot+1)
		for _, q := range basis { // rounding may have left a part of them
			subtract(next, q)
		}
		norm = convex.Norm(next)
		for i := range next {
			next[i] /= norm
		}
		for _, column := range rest {
			subtract(column, next)
		}
		basis = append(basis, next)
	}
	reduced := make([]float64, 0, n*len(basis))
	for i := range n {
		for _, q := range basis {
			reduced = append(reduced, q[i]*math.Sqrt(float64(n)))
		}
	}
	return reduced
}

// subtract takes from v its part along q, of norm 1.
func subtract(v, q []float64) {
	along := convex.Dot(v, q)
	for i := range v {
		v[i] -= along * q[i]
	}
}

// spanningStart puts equal weights on as many arms as the rank, which span the space: each is the arm with the largest
// component orthogonal to the arms chosen before it. It replaces the random directions of Kumar and Yildirim (2005),
// keeps the design a pure function of the arms, and saves the O(K) steps that would empty a uniform start over
// thousands of arms.
func (s *search) spanningStart() {
	residual := append([]float64(nil), s.points...)
	direction := make([]float64, s.r)
	for range s.r {
		best, bestNorm := 0, -1.0
		for i := range s.n {
			row := residual[i*s.r : (i+1)*s.r]
			if norm := convex.Dot(row, row); norm > bestNorm {
				best, bestNorm = i, norm
			}
		}
		s.weights[best] = 1 / float64(s.r)
		copy(direction, residual[best*s.r:(best+1)*s.r])
		scale := 1 / math.Sqrt(bestNorm)
		for j := range direction {
			direction[j] *= scale
		}
		for i := range s.n {
			row := residual[i*s.r : (i+1)*s.r]
			dot := convex.Dot(row, direction)
			for j := range row {
				row[j] -= dot * direction[j]
			}
		}
	}
}

// start sets the weights from which run starts when nothing better is known.
func (s *search) start() {
	if s.n > uniformStartLimit*s.r {
		s.spanningStart()
		return
	}
	for i := range s.weights {
		s.weights[i] = 1 / float64(s.n)
	}
}

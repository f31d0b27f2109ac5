package design

import (
	"math"
)

// SpannerTolerance is the default of Options.Tolerance for Spanner: coefficients of at most 2. The regret bound of
// "Near-optimal private learning in linear contextual bandits" (Theorem D.2) then loses a factor 2.
const SpannerTolerance = 1

// Spanner picks arms of which all arms are combinations with coefficients of absolute value at most 1 + Tolerance, as
// many as the arms' rank: an approximate barycentric spanner, Definition 7 and Lemma D.1 of the same paper, computed as
// Awerbuch and Kleinberg do ("Online linear optimization and adaptive routing", 2008). It returns their indices; the
// first arm where all are 0. A tolerance of 0 means SpannerTolerance. The result is a function of the arguments.
//
// The arms' coordinates in a basis of their span are a matrix whose columns stand for the basis. An exchange of a
// column's vector for an arm with a coefficient g there multiplies the volume of the basis by |g|. First every column
// gets the arm with the largest coefficient, then arms with a coefficient above the limit come in, until there is none.
//
// For n arms that are not 0, of rank r, and a limit of 2 this takes at most r + (r/2) log2 n exchanges. Proof.
// reduceRank gives coordinates P with P'P = n I, in which by Cauchy and Binet the squared volumes of all bases sum to
// n^r, so that none is above n^(r/2). In the i-th of the first r exchanges the column is P b, where b has the i-th
// coordinate 1; its squared norm n |b|^2 >= n is that of n coefficients, the largest of which is therefore at least 1.
// So the volume is at least 1 after r exchanges, and each further one more than doubles it. Limits near 1 take more:
// after MaxSteps exchanges, which were never seen, a coefficient of 2 will do.
//
// Arms and errors are those of Optimal.
func Spanner(arms [][]float64, opts Options) ([]int, error) {
	picked, _, err := spanner(arms, opts)
	return picked, err
}

// spanner counts the exchanges.
func spanner(arms [][]float64, opts Options) (picked []int, exchanges int, err error) {
	if err := CheckArms(arms); err != nil {
		return nil, 0, err
	}
	if opts.Tolerance == 0 {
		opts.Tolerance = SpannerTolerance
	}
	if opts, err = opts.resolve(); err != nil {
		return nil, 0, err
	}
	g, index, r := reduceRank(arms)
	if r == 0 {
		return []int{0}, 0, nil
	}
	picked = make([]int, r)
	for i := range r {
		best := i
		for at := i; at < len(g); at += r {
			if math.Abs(g[at]) > math.Abs(g[best]) {
				best = at
			}
		}
		picked[i] = index[best/r]
		exchange(g, r, best)
	}
	for exchanges = r; ; exchanges++ {
		limit := 1 + math.Max(opts.Tolerance, spannerRounding)
		if exchanges >= opts.MaxSteps {
			limit = 2
		}
		best := 0
		for at, v := range g {
			if math.Abs(v) > math.Abs(g[best]) {
				best = at
			}
		}
		if !(math.Abs(g[best]) > limit) {
			return picked, exchanges, nil
		}
		picked[best%r] = index[best/r]
		exchange(g, r, best)
	}
}

// spannerRounding is how far above 1 a coefficient of a perfect spanner may come out.
const spannerRounding = 1e-9

// exchange makes the arm of a coefficient the vector of its column: the arm's row becomes a unit row. g has rows of
// length r.
func exchange(g []float64, r, at int) {
	column, from := at%r, at-at%r
	row := append([]float64(nil), g[from:from+r]...)
	pivot := row[column]
	row[column]--
	for start := 0; start < len(g); start += r {
		x := g[start : start+r]
		factor := x[column] / pivot
		if factor == 0 {
			continue
		}
		for i, v := range row {
			x[i] -= factor * v
		}
	}
	clear(g[from : from+r]) // exactly
	g[at] = 1
}

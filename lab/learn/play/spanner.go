package play

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// SpannerFactor is the default of Spanner.Factor: at 2 few exchanges are needed, and the regret bound loses a factor 2.
const SpannerFactor = 2

// dependent is the length, relative to the longest arm, at which what is left of an arm counts as 0.
const dependent = 1e-8

// BarycentricSpanner picks arms of which all arms are combinations with coefficients of absolute value at most factor
// (at least 1), as many as the arms' rank: Definition 7 and Lemma D.1 of "Near-optimal private learning in linear
// contextual bandits", computed as Awerbuch and Kleinberg do ("Online linear optimization and adaptive routing", 2008).
// It returns their indices, ascending in the order of picking; the first arm where all are 0. The result is a function
// of the arguments.
//
// The arms' coordinates in a basis of their span are a matrix whose columns stand for the basis. An exchange of a
// column's vector for an arm with a coefficient g there multiplies the volume of the basis by |g|. First every column
// gets the arm with the largest coefficient, then arms with a coefficient above the factor come in, until there is
// none; the volume rises each time, so that it ends. At factor 1 a rounding of 1e-9 is allowed.
func BarycentricSpanner(arms [][]float64, factor float64) []int {
	g := coordinates(arms)
	if len(g[0]) == 0 {
		return []int{0}
	}
	rank := len(g[0])
	picked := make([]int, rank)
	for i := range rank {
		best := 0
		for j := range g {
			if math.Abs(g[j][i]) > math.Abs(g[best][i]) {
				best = j
			}
		}
		picked[i] = best
		exchange(g, i, best)
	}
	for {
		arm, column, largest := 0, 0, 0.0
		for j := range g {
			for i, v := range g[j] {
				if math.Abs(v) > largest {
					arm, column, largest = j, i, math.Abs(v)
				}
			}
		}
		if !(largest > math.Max(1, factor)+1e-9) {
			return picked
		}
		picked[column] = arm
		exchange(g, column, arm)
	}
}

// coordinates are the arms' in an orthonormal basis of their span, found by Gram and Schmidt's method with the longest
// remainder first. Each remainder is made orthogonal twice, which is enough.
func coordinates(arms [][]float64) [][]float64 {
	rest, out, longest := make([][]float64, len(arms)), make([][]float64, len(arms)), 0.0
	for j, x := range arms {
		rest[j] = append([]float64(nil), x...)
		longest = math.Max(longest, convex.Norm(x))
	}
	var basis [][]float64
	for len(basis) < len(arms[0]) {
		best, length := 0, 0.0
		for j, x := range rest {
			if n := convex.Norm(x); n > length {
				best, length = j, n
			}
		}
		if !(length > dependent*longest) {
			break
		}
		q := append([]float64(nil), rest[best]...)
		for range 2 {
			for _, b := range basis {
				subtract(q, convex.Dot(q, b), b)
			}
		}
		n := convex.Norm(q)
		for i := range q {
			q[i] /= n
		}
		basis = append(basis, q)
		for _, x := range rest {
			subtract(x, convex.Dot(x, q), q)
		}
	}
	for j, x := range arms {
		for _, q := range basis {
			out[j] = append(out[j], convex.Dot(x, q))
		}
	}
	return out
}

func subtract(x []float64, factor float64, y []float64) {
	for i := range x {
		x[i] -= factor * y[i]
	}
}

// exchange makes the arm the vector of a column: its row becomes a unit row.
func exchange(g [][]float64, column, arm int) {
	row := append([]float64(nil), g[arm]...)
	row[column]--
	pivot := g[arm][column]
	for _, x := range g {
		factor := x[column] / pivot
		for i, v := range row {
			x[i] -= factor * v
		}
	}
	for i := range g[arm] { // exactly
		g[arm][i] = 0
	}
	g[arm][column] = 1
}

// Spanner draws uniformly from a barycentric spanner of the arms: the last line of Algorithm 4 of "Near-optimal private
// learning in linear contextual bandits".
type Spanner struct {
	Factor float64 // 0: SpannerFactor
	// Exploit is the probability to play the arm with the largest Score instead. The paper has 0. Its regret bound
	// (Theorem D.2) then holds up to a factor 1/(1 - Exploit), since every arm of the spanner keeps so much of its
	// probability.
	Exploit float64
	Score   Score // nil, if Exploit is 0
}

// Decide implements learn.Policy. The propensity is the probability of the arm by either way.
func (s Spanner) Decide(arms [][]float64, src protocol.Source) (learn.Choice, error) {
	factor := s.Factor
	if factor == 0 {
		factor = SpannerFactor
	}
	picked, best := BarycentricSpanner(arms, factor), -1
	if s.Exploit > 0 {
		best = Best(arms, s.Score)
	}
	arm := picked[Index(len(picked), src)]
	if s.Exploit > 0 && protocol.Uniform(src) < s.Exploit {
		arm = best
	}
	propensity := 0.0
	if arm == best {
		propensity = s.Exploit
	}
	for _, a := range picked {
		if a == arm {
			propensity += (1 - s.Exploit) / float64(len(picked))
		}
	}
	return learn.Choice{Arm: arm, Propensity: propensity}, nil
}

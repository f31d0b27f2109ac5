package statistic

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// JointSpread bounds the distance that an outer-product statistic (Hessian or Covariance) and the Gradient of one
// record can move together: the returned function takes two nonnegative weights a and b and gives at least the largest
// a*|H-H'|^2 + b*|g-g'|^2 over all pairs of records (squared Euclidean distances of the vectors), in three dimensions
// or more at most a relative 2e-3 more. It has the signature of privacy.Spread. Records that are farthest apart in the
// gradient are nearly parallel or opposite, and outer products of such arms hardly differ; the sum is therefore well
// below the sum of the squared diameters. A Hessian must share the gradient's family and theta.
//
// Proof. (1) The sum is convex in each reward and each weight of Covariance, so rewards are the smallest or the largest
// and weights 0 or the bound. As in EnclosingBall, r = R at x is the point m e with e = -x and m = R - mu(-<e,theta>),
// and xx' = ee'; so both records are points (w ee', m e) with e in the ball. A negative m is counted as 0: its point
// lies between (w ee', 0) and the other branch's point at -e, and the sum is convex in m. (2) Fix <e,theta>,
// <e',theta> and the inner product t of the components across theta. The sum
//
//	a [w^2|e|^4 + w'^2|e'|^4 - 2ww'(e.e')^2] + b [m^2|e|^2 + m'^2|e'|^2 - 2mm' e.e'],   e.e' = zz' + t,
//
// then increases in |e| and |e'|, and in three dimensions a longer component across theta can keep t; lower dimensions
// embed in three. So e and e' are unit vectors, at angles phi and phi' from theta, and e.e' lies between cos(phi+phi')
// and cos(phi-phi'). (3) On a box of angles the sum is convex in each of w, w', m, m', which range over known
// intervals, so their ends suffice; in c = e.e' it is a concave parabola with a known vertex. Boxes are halved until
// their bounds are within the tolerance of the best value seen.
//
// Where arms lie in disjoint runs, two records of one run are bounded so at the largest |theta_b| (see runs.go), and
// two of different runs have e.e' = 0: the sum is a w^2 + b m^2 of the one and the same of the other, each bounded cell
// by cell.
func JointSpread(outer, gradient Statistic) (func(weights []float64) float64, error) {
	if err := outer.Validate(); err != nil {
		return nil, err
	}
	if err := gradient.Validate(); err != nil {
		return nil, err
	}
	if gradient.Kind != Gradient || outer.Kind == Gradient || outer.ArmDim != gradient.ArmDim {
		return nil, fmt.Errorf("%w: joint spread of %s (d=%d) and %s (d=%d), want an outer product and a gradient of "+
			"equal dimension",
			ErrInvalid, outer.Kind, outer.ArmDim, gradient.Kind, gradient.ArmDim)
	}
	if !slices.Equal(outer.Structure, gradient.Structure) {
		return nil, fmt.Errorf("%w: joint spread of statistics of different structures", ErrInvalid)
	}
	if outer.Kind == Hessian {
		same := outer.Family.Name() == gradient.Family.Name() && outer.Family.MaxReward() == gradient.Family.MaxReward()
		if !same || !slices.Equal(outer.Theta, gradient.Theta) {
			return nil, fmt.Errorf("%w: joint spread of a hessian and a gradient of different points or families",
				ErrInvalid)
		}
	}
	runs := gradient.disjoint()
	first, second := convex.Norm(gradient.Theta), 0.0
	if runs != nil {
		first, second = largest(runs)
	}
	s := newJointSet(outer, gradient.Family, first)
	other := s
	if runs != nil && first != second {
		other = newJointSet(outer, gradient.Family, second)
	}
	return func(weights []float64) float64 {
		if len(weights) != 2 || !(weights[0] >= 0) || !(weights[1] >= 0) || math.IsInf(weights[0]+weights[1], 1) {
			return math.Inf(1)
		}
		a, b := weights[0], weights[1]
		apart := s.spread(a, b)
		if runs != nil {
			apart = math.Max(apart, (s.length(a, b)+other.length(a, b))*(1+boundsSlack)) // NaN stays NaN
		}
		if math.IsNaN(apart) {
			return math.Inf(1)
		}
		return apart
	}, nil
}

const (
	// jointTolerance is the relative accuracy of JointSpread.
	jointTolerance = 1e-3
	// jointCells is the number of cells of [0, pi] at the finest level: a power of two.
	jointCells = 1 << 12
	// jointCoarse is the number of cells at the coarsest.
	jointCoarse = 1 << 4
)

// interval is a range of a nonnegative quantity.
type interval struct{ lo, hi float64 }

// jointSet tabulates weight and length over cells of the angle, level by level: branches[b][l][i] is cell i of
// jointCoarse*2^l on branch b.
type jointSet struct {
	branches [][][]jointCell
	cos      []float64 // at the borders of the finest cells
}

type jointCell struct{ w, m interval }

// newJointSet is that of a gradient of the family at a theta of norm size, and the outer product's weights there.
func newJointSet(outer Statistic, f family.Response, size float64) *jointSet {
	g := newGradientSet(f, size)
	s := &jointSet{cos: make([]float64, jointCells+1)}
	for i := range s.cos {
		s.cos[i] = math.Cos(math.Pi * float64(i) / jointCells)
	}
	largest := f.MaxVariance(size)
	_, third := f.Smoothness(size)
	for b, length := range g.branches() {
		side := size // z of the record is side*cos(phi)
		if b == 1 {
			side = -size
		}
		finest := make([]jointCell, jointCells)
		for i := range finest {
			near, far := s.cos[i], s.cos[i+1]
			// increases with the cosine
			c := jointCell{m: interval{math.Max(0, length(far)), math.Max(0, length(near))}}
			if _, clipped := family.ClipOf(f); clipped && outer.Kind == Hessian {
				c.w = interval{0, largest}
			} else if outer.Kind == Hessian {
				k := third * size * size * (near - far) * (near - far)
				from, to := f.Variance(side*near), f.Variance(side*far)
				c.w = interval{math.Max(0, -convex.CellBound(-from, -to, k)),
					math.Min(largest, convex.CellBound(from, to, k))}
			} else {
				c.w = interval{0, outer.WeightBound}
			}
			finest[i] = c
		}
		levels := [][]jointCell{finest}
		for len(levels[0]) > jointCoarse {
			below := levels[0]
			level := make([]jointCell, len(below)/2)
			for i := range level {
				x, y := below[2*i], below[2*i+1]
				level[i] = jointCell{
					w: interval{math.Min(x.w.lo, y.w.lo), math.Max(x.w.hi, y.w.hi)},
					m: interval{math.Min(x.m.lo, y.m.lo), math.Max(x.m.hi, y.m.hi)},
				}
			}
			levels = append([][]jointCell{level}, levels...)
		}
		s.branches = append(s.branches, levels)
	}
	return s
}

// length is the largest a w^2 + b m^2 of a record.
func (s *jointSet) length(a, b float64) float64 {
	longest := 0.0
	for _, levels := range s.branches {
		for _, c := range levels[len(levels)-1] {
			longest = math.Max(longest, a*c.w.hi*c.w.hi+b*c.m.hi*c.m.hi)
		}
	}
	return longest
}

// spread maximises over pairs of cells by branch and bound.
func (s *jointSet) spread(a, b float64) float64 {
	type box struct{ first, second, level, i, j int }
	var stack []box
	for first := range s.branches {
		for second := range s.branches[:first+1] {
			for i := range jointCoarse {
				for j := range jointCoarse {
					if first != second || j <= i {
						stack = append(stack, box{first, second, 0, i, j})
					}
				}
			}
		}
	}
	best, bound := 0.0, 0.0
	finest := len(s.branches[0]) - 1
	for len(stack) > 0 {
		x := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		p, q := s.branches[x.first][x.level][x.i], s.branches[x.second][x.level][x.j]
		// Borders are counted in finest cells.
		width := jointCells / (jointCoarse << x.level)
		lo, hi := s.cosines(x.i*width, x.j*width, width)
		u := jointUpper(a, b, p, q, lo, hi)
		if !(u <= math.MaxFloat64) { // a sum that overflows bounds nothing, and NaN would drop no box
			return math.Inf(1)
		}
		if u <= best*(1+jointTolerance) {
			continue
		}
		best = math.Max(best, s.near(a, b, x.first, x.second, x.i*width+width/2, x.j*width+width/2))
		if x.level == finest {
			bound = math.Max(bound, u)
			continue
		}
		for k := range 4 {
			i, j := 2*x.i+k/2, 2*x.j+k%2
			if x.first != x.second || j <= i {
				stack = append(stack, box{x.first, x.second, x.level + 1, i, j})
			}
		}
	}
	return math.Max(bound, best*(1+jointTolerance)) * (1 + boundsSlack)
}

// cosines returns the range of e.e' for angles in the cells that start at borders i and j and have the given width.
func (s *jointSet) cosines(i, j, width int) (lo, hi float64) {
	apart := max(0, i-j-width, j-i-width) // least |phi - phi'|
	hi = s.cos[apart]
	from, to := i+j, i+j+2*width // phi + phi'
	switch {
	case from <= jointCells && jointCells <= to:
		lo = -1
	case to < jointCells:
		lo = s.cos[to]
	default:
		lo = s.cos[2*jointCells-from]
	}
	return lo, hi
}

// jointUpper bounds the sum on a box: the largest at all ends of the weights and lengths, NaN if one of them is. Most
// of the time of planning is spent here, and comparisons take less of it than max and min.
func jointUpper(a, b float64, p, q jointCell, lo, hi float64) float64 {
	largest := 0.0
	for _, w := range p.w.ends(&[2]float64{}) {
		for _, v := range q.w.ends(&[2]float64{}) {
			weights, x := a*(w*w+v*v), a*w*v
			for _, m := range [2]float64{p.m.hi, p.m.lo} {
				for _, n := range [2]float64{q.m.hi, q.m.lo} {
					if sum := jointSum(weights+b*(m*m+n*n), x, b*m*n, lo, hi); !(sum <= largest) {
						if math.IsNaN(sum) {
							return sum
						}
						largest = sum
					}
				}
			}
		}
	}
	return largest
}

// ends are the ends of a range, in place: one where both are the same, as the weights of a linear model.
func (r interval) ends(place *[2]float64) []float64 {
	if place[0], place[1] = r.hi, r.lo; r.lo == r.hi {
		return place[:1]
	}
	return place[:]
}

// jointSum is the largest squares - 2xc^2 - 2yc over cosines c in [lo, hi].
func jointSum(squares, x, y, lo, hi float64) float64 {
	c := lo // the linear part falls in c
	if x > 0 {
		switch vertex := -y / (2 * x); {
		case vertex >= hi:
			c = hi
		case !(vertex <= lo):
			c = vertex // or NaN
		}
	}
	return squares - 2*x*c*c - 2*y*c
}

// near is the sum close to one pair of angles, up to the width of the finest cells. It only decides which boxes are
// dropped: every dropped box is below the final bound, whatever near returns.
func (s *jointSet) near(a, b float64, first, second, i, j int) float64 {
	finest := len(s.branches[0]) - 1
	i, j = min(i, jointCells-1), min(j, jointCells-1)
	p, q := s.branches[first][finest][i], s.branches[second][finest][j]
	lo, hi := s.cosines(i, j, 0)
	return jointUpper(a, b, p, q, lo, hi)
}

package statistic

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// hessianBounds encloses {mu'(<x,theta>) xx' : |x| <= 1} in its scaled-triangle form; mu' stands for family.Curvature
// here and below, of which the same bounds hold. Weights lie in [0, w] with w the largest mu' for |z| <= |theta|, so
// outerBounds holds; the dependence of the weight on theta makes it tighter.
//
// Coordinates. With u a unit vector at angle psi from the line of theta and phi the angle with
// cos(phi) = <x,theta>/|theta|, folded to [0, pi/2]: |<x,u>| <= cos(phi-psi), hence mu' <x,u>^2 <= B(u), the largest
// mu'(|theta| cos phi) cos(phi-psi)^2. A diagonal entry is mu' <x,e_i>^2; an off-diagonal one is
// sqrt2 mu' x_i x_j = (mu' <x,s>^2 - mu' <x,t>^2)/sqrt2 with s, t = (e_i +- e_j)/sqrt2, between -B(t)/sqrt2 and
// B(s)/sqrt2.
func hessianBounds(f family.Response, theta []float64) Bounds {
	d, size := len(theta), convex.Norm(theta)
	if _, clipped := family.ClipOf(f); clipped {
		return outerBounds(d, f.MaxVariance(size))
	}
	h := newHessianSet(f, size)
	b := outerBounds(d, h.largest)
	at := func(j int) float64 { return direction(theta, size, j) }
	k := 0
	for i := range d {
		b.Upper[k] = h.square(at(i))
		k++
		for j := i + 1; j < d; j++ {
			b.Upper[k] = h.square((at(i)+at(j))/math.Sqrt2) / math.Sqrt2
			b.Lower[k] = -h.square((at(i)-at(j))/math.Sqrt2) / math.Sqrt2
			k++
		}
	}
	if d == 1 {
		b.Diameter = b.Upper[0]
		return b
	}
	b.Diameter = math.Min(b.Diameter, h.diameter(d))
	return b
}

// hessianSet holds upper bounds on each cell of the angle phi between arm and theta.
type hessianSet struct {
	angles  *angles
	largest float64             // of mu' over |z| <= |theta|
	weight  [angleCells]float64 // of mu'(|theta| cos phi)
	length  [angleCells]float64 // of the Frobenius norm of mu' xx' for arms x of any norm <= 1 at angle phi
	// folded is the larger weight of phi and pi - phi.
	folded [angleCells / 2]float64
	// asked and answer are of the last call of square: where theta is 0, as in the first epoch, all directions are
	// alike.
	asked, answer float64
}

func newHessianSet(f family.Response, size float64) *hessianSet {
	h := &hessianSet{largest: f.MaxVariance(size), asked: -1}
	_, third := f.Smoothness(size)
	t := newAngles()
	h.angles = t
	previous := family.Curvature(f, size)
	for i := range angleCells {
		next := family.Curvature(f, size*t.cos[i+1])
		width := size * (t.cos[i] - t.cos[i+1])
		h.weight[i] = math.Min(h.largest, convex.CellBound(previous, next, third*width*width))
		previous = next
	}
	for i := range h.folded {
		h.folded[i] = max(h.weight[i], h.weight[angleCells-1-i])
	}
	// An arm of norm s < 1 at angle phi has the norm s^2 mu'(s y), y = |theta| cos phi: s y runs through the cells
	// between the right angle and phi. With L the bound at the inner end y' of a cell and y its outer end, either s y
	// is in the cell, and the norm at most the cell's weight, or it is s = s'y'/y, and the norm at most (y'/y)^2 L.
	for _, half := range [2]struct{ from, step int }{{angleCells/2 - 1, -1}, {angleCells / 2, 1}} {
		inner := h.weight[half.from]
		for i := half.from; i >= 0 && i < angleCells; i += half.step {
			h.length[i] = math.Max(h.weight[i], inner)
			near, far := math.Abs(t.cos[i]), math.Abs(t.cos[i+1])
			if near > far {
				near, far = far, near
			}
			inner = math.Max(h.weight[i], inner*(near/far)*(near/far))
		}
	}
	return h
}

// square is an upper bound of mu' <x,u>^2 where u is a unit vector whose cosine with theta is c.
func (h *hessianSet) square(c float64) float64 {
	c = math.Min(1, math.Abs(c))
	if c == h.asked {
		return h.answer
	}
	s, largest := math.Sqrt(1-c*c), 0.0
	for i, w := range h.folded {
		if w > largest {
			v := h.angles.maximum(i, c, s)
			largest = max(largest, w*v*v)
		}
	}
	h.asked, h.answer = c, math.Min(h.largest, largest)
	return h.answer
}

// diameter bounds the Frobenius distance of a xx'/|x|^2 and b yy'/|y|^2, a and b up to their lengths at the angles phi
// and phi' of x and y. Its square a^2 + b^2 - 2ab cos(gamma)^2, gamma the angle between x and y, is convex in a and in
// b: its maximum is at the ends, either one of them 0 or both largest. gamma is between |phi - phi'| and phi + phi'
// (beyond pi: 2 pi minus that), in two dimensions one of the two.
func (h *hessianSet) diameter(d int) float64 {
	cos2 := h.angles.cos
	for i, c := range cos2 {
		cos2[i] = c * c
	}
	// least is the smallest cos^2 between two cell borders.
	least := func(from, to int) float64 {
		switch {
		case to <= angleCells/2:
			return cos2[to]
		case from >= angleCells/2:
			return cos2[from]
		}
		return 0
	}
	largest := h.largest * h.largest
	for i, a := range h.length {
		for j := i; j < angleCells; j++ {
			b := h.length[j]
			if a*a+b*b <= largest {
				continue
			}
			low := max(0, j-i-1)
			sum, sumTo := i+j, i+j+2 // cells of phi + phi', folded at pi
			if sum >= angleCells {
				sum, sumTo = 2*angleCells-sumTo, 2*angleCells-sum
			} else if sumTo > angleCells {
				sum, sumTo = min(sum, 2*angleCells-sumTo), angleCells
			}
			var overlap float64
			if d == 2 {
				overlap = math.Min(least(low, j-i+1), least(sum, sumTo))
			} else {
				overlap = least(low, sumTo)
			}
			largest = math.Max(largest, a*a+b*b-2*a*b*overlap)
		}
	}
	return math.Sqrt(largest)
}

package statistic

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Bounds hold for the vector of every record, the null record included.
type Bounds struct {
	// Lower and Upper enclose each coordinate; Lower <= 0 <= Upper.
	Lower, Upper []float64
	// Diameter is at least the Euclidean distance of the vectors of any two records: the sensitivity of a sum when one
	// record is replaced by another.
	Diameter float64
	// Diameter1 is at least the same in the l1 norm; 0 where no bound is known but Diameter times the root of the
	// number of coordinates.
	Diameter1 float64
}

// rowBounds encloses (x, r, explored) with |x| <= 1 and r between the family's least and largest reward. The distance
// of two is at most sqrt(2^2 + (largest - least)^2 + 1), attained by opposite arms.
func rowBounds(f family.Response, d int) Bounds {
	least, most := f.MinReward(), f.MaxReward()
	b := Bounds{Lower: make([]float64, d+2), Upper: make([]float64, d+2),
		Diameter: math.Sqrt(5 + (most-least)*(most-least))}
	for j := range d {
		b.Lower[j], b.Upper[j] = -1, 1
	}
	b.Lower[d], b.Upper[d], b.Upper[d+1] = least, most, 1
	return b
}

// pairBounds encloses (x, r) with |x| <= 1 and r between the family's least and largest reward, and (0, 0). Two are at
// most sqrt(2^2 + (largest - least)^2) apart, as arms are at most 2 apart and rewards by the range, which holds 0. It
// is attained by opposite arms with the two rewards: sqrt 8 for rewards in [-1, 1], sqrt 5 for rewards in [0, 1].
func pairBounds(f family.Response, d int) Bounds {
	least, most := f.MinReward(), f.MaxReward()
	b := Bounds{Lower: make([]float64, d+1), Upper: make([]float64, d+1), Diameter: math.Hypot(2, most-least)}
	for j := range d {
		b.Lower[j], b.Upper[j] = -1, 1
	}
	b.Lower[d], b.Upper[d] = least, most
	return b
}

// outerBounds encloses the scaled triangles of a xx' with 0 <= a <= w and |x| <= 1.
//
// Diameter: ||a xx' - b yy'||_F^2 = a^2|x|^4 + b^2|y|^4 - 2ab(x.y)^2 <= 2w^2, attained by orthogonal x and y; in one
// dimension it is w. Coordinates: x_i^2 in [0, 1]; |sqrt2 x_i x_j| <= 1/sqrt2.
func outerBounds(d int, w float64) Bounds {
	n := symmetric.Dim(d)
	b := Bounds{Lower: make([]float64, n), Upper: make([]float64, n), Diameter: math.Sqrt2 * w}
	if d == 1 {
		b.Diameter = w
	}
	k := 0
	for i := range d {
		b.Upper[k] = w
		k++
		for range d - i - 1 {
			b.Lower[k], b.Upper[k] = -w/math.Sqrt2, w/math.Sqrt2
			k++
		}
	}
	return b
}

package statistic

import "math"

// angleCells is the number of cells into which the angle phi between arm and theta, in [0, pi], is cut for the bounds
// of single coordinates and for the diameter of Hessians. It is even, so that no cell straddles the right angle.
const angleCells = 256

// angles holds the cosine and the sine at the cell borders i pi/angleCells.
type angles struct{ cos, sin [angleCells + 1]float64 }

func newAngles() *angles {
	t := new(angles)
	for i := range t.cos {
		t.sin[i], t.cos[i] = math.Sincos(math.Pi * float64(i) / angleCells)
	}
	t.cos[angleCells/2], t.sin[angleCells] = 0, 0
	return t
}

// maximum is the largest cos(phi - psi) for phi in cell i, where psi in [0, pi] has cosine c and sine s: 1 if psi is in
// the cell, else the value at the nearer end, because phi - psi stays in [-pi, pi].
func (t *angles) maximum(i int, c, s float64) float64 {
	if t.cos[i+1] <= c && c <= t.cos[i] {
		return 1
	}
	return max(t.cos[i]*c+t.sin[i]*s, t.cos[i+1]*c+t.sin[i+1]*s)
}

// direction is the cosine of the angle between theta and coordinate axis j; any value serves for theta = 0, where no
// direction is special.
func direction(theta []float64, size float64, j int) float64 {
	if size == 0 {
		return 0
	}
	return math.Max(-1, math.Min(1, theta[j]/size))
}

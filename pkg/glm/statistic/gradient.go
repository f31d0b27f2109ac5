package statistic

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// gradientBounds encloses {(mu(<x,theta>) - r) x : |x| <= 1, L <= r <= R}: the diameter is that of EnclosingBall, each
// coordinate lies within the tighter of the ball and the support bound below.
//
// Support bound. With u a coordinate direction, psi its angle from theta and cos(phi) = <x,theta>/|theta|, every arm
// has <x,u> <= cos(phi-psi), so the points m x that span the set (see EnclosingBall) have
// <m x, u> <= m(cos phi) cos(phi-psi). On a cell of phi, m is largest at its smaller end, because the mean reward
// increases with <x,theta>. Along theta itself the set is far narrower than the ball, which is as wide as the set is
// across theta.
func gradientBounds(f family.Response, theta []float64) Bounds {
	d, size := len(theta), convex.Norm(theta)
	centre, radius := EnclosingBall(f, size)
	b := Bounds{Lower: make([]float64, d), Upper: make([]float64, d), Diameter: 2 * radius}
	g := newGradientSet(f, size)
	t := newAngles()
	reach := g.reach(t)
	for j := range theta {
		c := direction(theta, size, j)
		b.Upper[j] = math.Min(centre*c+radius, support(t, reach, c))
		b.Lower[j] = math.Max(centre*c-radius, -support(t, reach, -c))
	}
	if d == 1 {
		b.Diameter = math.Min(b.Diameter, b.Upper[0]-b.Lower[0])
	}
	return b
}

// reach[i] is the largest m on cell i of the angle.
func (g *gradientSet) reach(t *angles) []float64 {
	var mean [angleCells + 1]float64
	for i, c := range t.cos {
		mean[i] = g.low(c)
	}
	reach := make([]float64, angleCells)
	for i := range reach { // high(cos phi) = R - L - low(cos(pi - phi))
		reach[i] = math.Max(mean[i], g.high(t.cos[i]))
	}
	return reach
}

// support is an upper bound of m(cos phi) cos(phi-psi) over phi in [0, pi], with cos(psi) = c. It is never negative,
// because the null record is in the set.
func support(t *angles, reach []float64, c float64) float64 {
	s, largest := math.Sqrt(1-c*c), 0.0
	for i, m := range reach {
		if m > largest {
			largest = math.Max(largest, m*t.maximum(i, c, s))
		}
	}
	return largest
}

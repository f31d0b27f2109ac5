package privacy

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Losses is a discrete privacy-loss distribution that dominates all mechanisms with given guarantees: a bound like they
// are, in a form that other accountants compose. It is symmetric: that of P against Q is that of Q against P.
type Losses struct {
	Step     float64   // distance of the losses
	First    int       // Mass[i] is at the loss (First+i)*Step
	Mass     []float64 // probabilities, which with Infinite add up to 1
	Infinite float64   // probability of an infinite loss
}

// ErrLosses means guarantees that no distribution of finite size dominates closely.
var ErrLosses = errors.New("privacy: no distribution of losses")

const (
	// commonStep is the distance of losses that dp_accounting uses by default: only distributions of one step compose.
	commonStep = 1e-4
	// lossSteps is how many steps the standard deviation of a loss must have, so that delta is exact to 1 % as far as
	// 12 deviations out: straight lines between the steps exceed the curve by about (deviations out/steps)^2/8.
	lossSteps = 50
	// maxLosses bounds the losses above 0. Where they are too few for the common step, it is ten times as long.
	maxLosses = 1 << 18
	// lossTail is the share of the probability that is given up, and lossLeast the probability, below which what is
	// left beyond the largest loss counts as infinite.
	lossTail, lossLeast = 1e-3, 1e-18
	// lossSafety raises the curve to cover the rounding of the masses.
	lossSafety = 1e-9
)

// DominatingLosses makes a distribution that dominates the guarantees, of which a person gets one and it is not known
// which. Every delta of it is at least that of Guarantee.Delta at multiples of its step, and above between them; below
// 1e-16 it is not close.
//
// Proof sketch. What a mechanism reveals is, as a function of x = e^epsilon, a convex curve delta(x) that is 1 at x =
// 0, and for a pair of records in both orders delta(1/x) = 1 - 1/x + delta'(x)/x, where delta' is the curve of the
// other order (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the dots", 2022). Given bounds at some x, the
// largest convex curve below them, straight between them, is a bound everywhere: the true curve is convex and below
// them, too. A curve of straight pieces is that of a discrete distribution whose mass at a corner x is x times the
// change of its slope. That what is given up happens with the largest of the probabilities, and the rest is the largest
// of the rests, is above each guarantee.
func DominatingLosses(gs ...Guarantee) (Losses, error) {
	if len(gs) == 0 || slices.ContainsFunc(gs, func(g Guarantee) bool { return !g.promises() }) {
		return Losses{}, fmt.Errorf("%w: there is no guarantee, or one that bounds nothing", ErrLosses)
	}
	tail, deviation := 0.0, 0.0
	without := slices.Clone(gs)
	for i, g := range gs {
		tail = math.Max(tail, g.TailDelta)
		deviation = math.Max(deviation, math.Sqrt(g.Mu*g.Mu+2*g.Rho))
		without[i].TailDelta = 0
	}
	rests := undominated(without)
	rest := func(epsilon float64) float64 {
		delta := 0.0
		for _, g := range rests {
			delta = math.Max(delta, g.Delta(epsilon))
		}
		return math.Min(1, delta*(1+lossSafety))
	}
	least := math.Max(lossLeast, tail*lossTail)
	largest := 1.0
	for rest(largest) > least && largest < 1e6 {
		largest *= 1.25
	}
	for rest(largest/1.25) <= least && largest > 1e-12 {
		largest /= 1.25
	}
	step := commonStep
	for step > deviation/lossSteps && deviation > 0 && largest/step < maxLosses/10 {
		step /= 10
	}
	for largest/step > maxLosses {
		step *= 10
	}
	if !(largest < 1e6) {
		return Losses{}, fmt.Errorf("%w: losses up to %v", ErrLosses, largest)
	}
	n := int(math.Ceil(largest / step))
	deltas := make([]float64, n+1)
	for i := range deltas {
		deltas[i] = rest(float64(i) * step)
	}
	return corners(deltas, step, tail), nil
}

// undominated leaves out guarantees that another one is above in everything.
func undominated(gs []Guarantee) (out []Guarantee) {
	for i, g := range gs {
		if !slices.ContainsFunc(gs, func(o Guarantee) bool {
			return o != g && o.Mu >= g.Mu && o.Pure >= g.Pure && o.Rho >= g.Rho
		}) && !slices.Contains(gs[:i], g) {
			out = append(out, g)
		}
	}
	return out
}

// corner is a point of the curve.
type corner struct {
	at   int // step; below 0 for its mirror image
	x, y float64
}

// corners is the distribution of the largest symmetric convex curve below the deltas at 0, step, 2 step and so on,
// after an event of probability tail.
func corners(deltas []float64, step, tail float64) Losses {
	n := len(deltas) - 1
	var hull []corner
	add := func(c corner) {
		for len(hull) > 1 {
			a, b := hull[len(hull)-2], hull[len(hull)-1]
			if (b.y-a.y)*(c.x-b.x) < (c.y-b.y)*(b.x-a.x) {
				break
			}
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, c)
	}
	add(corner{-n - 1, 0, 1})
	for i := n; i >= 1; i-- {
		x := math.Exp(-float64(i) * step)
		add(corner{-i, x, 1 - x + x*deltas[i]})
	}
	for i := range deltas {
		add(corner{i, math.Exp(float64(i) * step), deltas[i]})
	}
	l := Losses{Step: step, First: -n, Mass: make([]float64, 2*n+1), Infinite: tail + (1-tail)*hull[len(hull)-1].y}
	rest := 1 - l.Infinite
	for k, c := range hull {
		if c.at <= 0 {
			continue
		}
		before, after := (c.y-hull[k-1].y)/(c.x-hull[k-1].x), 0.0
		if k+1 < len(hull) {
			after = (hull[k+1].y - c.y) / (hull[k+1].x - c.x)
		}
		// The mirror image has e^-loss of the mass: that is what a loss is.
		up := math.Max(0, (1-tail)*c.x*(after-before))
		down := up / c.x
		l.Mass[n+c.at], l.Mass[n-c.at] = up, down
		rest -= up + down
	}
	l.Mass[n] = math.Max(0, rest)
	return l
}

// Package mechanism adds noise to vectors of real numbers, exactly: a vector is rounded to a grid, and integer noise is
// added in steps of the grid, so that no floating-point sampling decides anything (pkg/protocol has the laws). Each
// kind of noise says what it gives to a vector that one record moves by at most so much.
//
// The channels of a deployment have binomial noise of their own (pkg/privacy). This noise is for a trusted curator who
// releases what is no sum over a cohort (a node of a tree, a gradient over all records), and for devices of the channel
// local in simulations.
//
// What the vector's own computation rounds is not counted here: a sum of n numbers in floating point may differ from
// the exact one by n roundings. Whoever needs that counted rounds each record's numbers to a grid first ([Quantize]).
package mechanism

import (
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// ErrNoise wraps every reason to refuse a kind of noise.
var ErrNoise = errors.New("mechanism: bad noise")

// Sensitivity says how far the replacement of one record can move a vector.
type Sensitivity struct {
	Dim int
	L2  float64 // in the l2 norm
	L1  float64 // in the l1 norm; 0: not known
}

// Noise is added to every coordinate of a vector, independently.
type Noise interface {
	// Add rounds each coordinate to the grid of the noise and adds a draw to it. The vector is finite. Noise that
	// promises nothing because its parameter is out of range leaves NaN.
	Add(x []float64, src protocol.Source)
	// Deviation is the standard deviation of one draw, data units.
	Deviation() float64
	// Guarantee is what the noised vector reveals of a record that can move the vector by so much, rounding included.
	Guarantee(s Sensitivity) privacy.Guarantee
}

// The grid of a noise is a power of two, so that a float64 divides by it without rounding. The deviation of Gaussian
// noise, and the scale of Laplace noise, are at least so many steps of it, and a whole number: so many that rounding to
// the grid changes no result that anyone reads, and neither does rounding the number of steps up.
const (
	steps = 1 << 28
	// least and most bound deviations and scales, so that a grid is a normal number.
	least, most = 0x1p-500, 0x1p500
	// outermost bounds coordinates in steps: beyond it they are clamped, which moves no two of them apart.
	outermost = 0x1p900
)

// gridOf is the grid of a deviation or scale, and how many steps it has, rounded up; it reports whether that exists.
func gridOf(scale float64) (grid float64, count uint64, ok bool) {
	if !(scale >= least && scale <= most) {
		return 0, 0, false
	}
	_, exponent := math.Frexp(scale) // scale is in [2^(exponent-1), 2^exponent)
	grid = math.Ldexp(1.0/steps, exponent-1)
	return grid, uint64(math.Ceil(scale / grid)), true
}

// add rounds and adds. Proof that this is the exact mechanism on integers, followed by post-processing: the division
// and the rounding give the exact nearest integer (outermost clamps it), hence two vectors at distance D have integer
// vectors at distance D/grid + sqrt(dim) at most. What follows is a function of the exact integer sum: a float64
// addition is the exact sum, rounded, and multiplication by a power of two is exact or rounds again.
func add(x []float64, grid float64, draw func() int64) {
	for i, v := range x {
		whole := math.Round(math.Max(-outermost, math.Min(outermost, v/grid)))
		x[i] = (whole + float64(draw())) * grid
	}
}

func spoil(x []float64) {
	for i := range x {
		x[i] = math.NaN()
	}
}

// Gaussian is discrete Gaussian noise: zCDP.
type Gaussian struct{ Sigma float64 } // standard deviation, data units; 2^-500 to 2^500

// Add implements Noise.
func (g Gaussian) Add(x []float64, src protocol.Source) {
	grid, count, ok := gridOf(g.Sigma)
	if !ok {
		spoil(x)
		return
	}
	law := protocol.DiscreteGaussian{Sigma: count}
	add(x, grid, func() int64 { return law.Sample(src) })
}

// Grid is the step of the grid, data units: every released coordinate is a multiple of it. It is 0 where Sigma is out
// of range.
func (g Gaussian) Grid() float64 {
	grid, _, _ := gridOf(g.Sigma)
	return grid
}

// Deviation implements Noise. It is Sigma, rounded up to the grid.
func (g Gaussian) Deviation() float64 {
	grid, count, _ := gridOf(g.Sigma)
	return grid * float64(count)
}

// Guarantee implements Noise. A vector that moves by D in the l2 norm moves by at most D + sqrt(dim) grid when it is
// rounded to the grid, and (D + sqrt(dim) grid)^2 / (2 deviation^2) is its zCDP (Canonne, Kamath and Steinke, "The
// Discrete Gaussian for Differential Privacy", 2020, Theorem 14). Rounded up.
func (g Gaussian) Guarantee(s Sensitivity) privacy.Guarantee {
	grid, _, ok := gridOf(g.Sigma)
	if !ok || !(s.L2 >= 0) || s.Dim < 1 {
		return privacy.NoGuarantee()
	}
	moved := (s.L2 + math.Sqrt(float64(s.Dim))*grid) / g.Deviation()
	return privacy.Guarantee{Rho: moved * moved / 2 * (1 + 1e-12)}
}

// Laplace is discrete Laplace noise: pure differential privacy.
type Laplace struct{ Scale float64 } // data units; 2^-500 to 2^500

// Add implements Noise.
func (l Laplace) Add(x []float64, src protocol.Source) {
	grid, count, ok := gridOf(l.Scale)
	if !ok {
		spoil(x)
		return
	}
	law := protocol.DiscreteLaplace{Numerator: count, Denominator: 1}
	add(x, grid, func() int64 { return law.Sample(src) })
}

// Deviation implements Noise. It is that of the continuous law, of which the discrete one's falls short by less than
// 1e-17.
func (l Laplace) Deviation() float64 {
	grid, count, _ := gridOf(l.Scale)
	return math.Sqrt2 * grid * float64(count)
}

// Guarantee implements Noise: likelihood ratios multiply over the coordinates, so that the epsilon is the distance in
// the l1 norm over the scale. Rounding to the grid adds dim steps to the distance. Rounded up.
func (l Laplace) Guarantee(s Sensitivity) privacy.Guarantee {
	grid, count, ok := gridOf(l.Scale)
	if !ok || !(s.L1 > 0) || s.Dim < 1 {
		return privacy.NoGuarantee()
	}
	return privacy.Guarantee{Pure: (s.L1 + float64(s.Dim)*grid) / (grid * float64(count)) * (1 + 1e-12)}
}

// None adds nothing and promises nothing.
type None struct{}

// Add implements Noise.
func (None) Add([]float64, protocol.Source) {}

// Deviation implements Noise.
func (None) Deviation() float64 { return 0 }

// Guarantee implements Noise.
func (None) Guarantee(Sensitivity) privacy.Guarantee { return privacy.NoGuarantee() }

// ForRho is the Gaussian noise that gives rho-zCDP. An infinite rho gives None.
func ForRho(s Sensitivity, rho float64) (Noise, error) {
	if math.IsInf(rho, 1) {
		return None{}, nil
	}
	if !(rho > 0) || !(s.L2 > 0) || math.IsInf(s.L2, 0) || s.Dim < 1 {
		return nil, fmt.Errorf("%w: rho %v for a vector of %d coordinates that moves by %v", ErrNoise, rho, s.Dim, s.L2)
	}
	// sigma sqrt(2 rho) = L2 + sqrt(dim) grid, and the grid is at most sigma/steps
	root := math.Sqrt(2*rho)*(1-1e-11) - math.Sqrt(float64(s.Dim))/steps
	if !(root > 0) {
		return nil, fmt.Errorf("%w: rho %v is too small for %d coordinates", ErrNoise, rho, s.Dim)
	}
	sigma := s.L2 / root
	if _, _, ok := gridOf(sigma); !ok {
		return nil, fmt.Errorf("%w: rho %v for a vector that moves by %v needs a deviation of %v", ErrNoise, rho, s.L2,
			sigma)
	}
	return Gaussian{Sigma: sigma}, nil
}

// ForEpsilon is the Laplace noise that gives (epsilon, 0)-differential privacy. An infinite epsilon gives None.
func ForEpsilon(s Sensitivity, epsilon float64) (Noise, error) {
	if math.IsInf(epsilon, 1) {
		return None{}, nil
	}
	root := epsilon*(1-1e-11) - float64(s.Dim)/steps
	if !(root > 0) || !(s.L1 > 0) || math.IsInf(s.L1, 0) || s.Dim < 1 {
		return nil, fmt.Errorf("%w: epsilon %v for a vector of %d coordinates that moves by %v in l1", ErrNoise,
			epsilon,
			s.Dim, s.L1)
	}
	scale := s.L1 / root
	if _, _, ok := gridOf(scale); !ok {
		return nil, fmt.Errorf("%w: epsilon %v for a vector that moves by %v in l1 needs a scale of %v", ErrNoise,
			epsilon,
			s.L1, scale)
	}
	return Laplace{Scale: scale}, nil
}

// Quantize rounds each coordinate to the nearest multiple of the grid, which is a power of two. Sums of such vectors
// are exact in floating point as long as they stay below 2^53 grids, so that one record moves them by no more than its
// own vector: by at most sqrt(dim) grid more than unrounded in the l2 norm, and dim grid more in the l1 norm.
func Quantize(x []float64, grid float64) {
	for i, v := range x {
		x[i] = math.Round(v/grid) * grid
	}
}

// Budget is the rho of an (epsilon, delta), +Inf for an infinite epsilon.
func Budget(epsilon, delta float64) (float64, error) {
	if math.IsInf(epsilon, 1) {
		return math.Inf(1), nil
	}
	return privacy.RhoFor(epsilon, delta)
}

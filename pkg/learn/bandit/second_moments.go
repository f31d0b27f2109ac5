package bandit

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// SecondMoments is the confidence set of a linear model from noisy second moments, which the joint, the local and the
// shuffle baselines of "Improved rate for locally differentially private linear bandits" have in common (Shariff and
// Sheffet, "Differentially private contextual linear bandits", 2018, section 4).
//
// Let V = sum xx' + H and u = sum xy + h with noise, of standard deviation s in each entry of H off the diagonal (and
// at most sqrt 2 times that on it), and t in each of h. A shift of 2Y, for a bound Y of the norm of H, makes V positive
// definite:
//
//	theory:    Y = s (4 sqrt d + 2 ln(2T/alpha)),
//	           beta = R sqrt(2 ln(2/alpha) + ln det V - d ln Y) + S sqrt(3Y)
//	                  + t (sqrt d + sqrt(2 ln(2T/alpha)))/sqrt Y
//	practical: Y = 2 s sqrt d, which is the norm's expectation; beta = sqrt(2Y) + R sqrt(d ln T).
//
// Y is at least 1/2, so that V grows by 1 at least.
//
// Where it differs: eigenvalues that the noise has left below Y count as Y, which the papers do not need under their
// events; and the center is the point of the ball of radius S that is nearest to V^-1 u in the norm of V. The set still
// holds what it held: the ball is convex and holds theta*, so that the nearest point is at most as far from theta*.
type SecondMoments struct {
	Setting learn.Setting
	Noise   float64 // R
	Theory  bool
}

// Confidence is the set for sums xx' and xy with noise of the standard deviations s and t. It changes second.
func (m SecondMoments) Confidence(second *mat.SymDense, first []float64, s, t float64) (glm.Stage, error) {
	d := second.SymmetricDim()
	root, horizon := math.Sqrt(float64(d)), float64(m.Setting.Horizon)
	tail := math.Log(2 * horizon / m.Setting.Failure)
	y := 2 * s * root
	if m.Theory {
		y = s * (4*root + 2*tail)
	}
	y = max(y, 0.5) // a shift of 1 without noise
	for i := range d {
		second.SetSym(i, i, second.At(i, i)+2*y)
	}
	values, basis, err := convex.Spectrum(second)
	if err != nil {
		return glm.Stage{}, fmt.Errorf("bandit: %w", err)
	}
	logDet, inverses := 0.0, make([]float64, d)
	for i, value := range values {
		values[i] = max(value, y)
		logDet += math.Log(values[i])
		inverses[i] = 1 / values[i]
	}
	inverse := convex.FromSpectrum(inverses, basis)
	center := make([]float64, d)
	mat.NewVecDense(d, center).MulVec(inverse, mat.NewVecDense(d, first))
	if convex.Norm(center) > m.Setting.Radius {
		center, err = convex.MinimizeQuadratic(convex.FromSpectrum(values, basis), first, m.Setting.Radius)
		if err != nil {
			return glm.Stage{}, fmt.Errorf("bandit: %w", err)
		}
	}
	width := math.Sqrt(2*y) + m.Noise*math.Sqrt(float64(d)*math.Log(horizon))
	if m.Theory {
		width = m.Noise*math.Sqrt(2*math.Log(2/m.Setting.Failure)+max(0, logDet-float64(d)*math.Log(y))) +
			m.Setting.Radius*math.Sqrt(3*y) + t*(root+math.Sqrt(2*tail))/math.Sqrt(y)
	}
	return glm.Stage{Theta: center, Covariance: symmetric.Pack(inverse), Width: width}, nil
}

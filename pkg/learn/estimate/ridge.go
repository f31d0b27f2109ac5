package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// momentsDiameter is the largest l2 distance between the vectors of [Moments] of two records, sqrt(9/2).
//
// Proof sketch: let the records have features of squared norm a and b, an angle of cosine c between them, and rewards y
// and z. The squared distance a^2 + b^2 - 2abc^2 + ay^2 + bz^2 - 2yz sqrt(ab)c is convex in (y, z), so |y| = |z| = 1
// and the sign of yz is against c. Then it grows in a and in b (its derivative 2a + 1 + sqrt(b/a)|c| - 2bc^2 is concave
// in |c|, positive at |c| = 0, and at least 2a + 1/sqrt(a) - 1 > 0 at |c| = 1 for b = 1, which is the worst b), so both
// are 1. What is left, 4 - 2c^2 + 2|c|, is largest at |c| = 1/2.
const momentsDiameter = 2.1213203435596426 * (1 + 1e-12)

// Moments is the statistic of least squares: the matrix xx' of the features, its upper triangle row by row with entries
// off the diagonal times sqrt(2) so that distances are those of the Frobenius norm, and then the vector yx. Features
// are scaled down to norm 1, rewards clipped to [-1, 1]; see unitArm and clipReward for records that are no numbers.
func Moments(d int) learn.Statistic {
	m := d*(d+1)/2 + d
	s := learn.Statistic{Name: "moments", Lower: make([]float64, m), Upper: make([]float64, m),
		Diameter: momentsDiameter, Diameter1: momentsDiameter * math.Sqrt(float64(m))}
	at := 0
	for i := range d {
		s.Lower[at], s.Upper[at] = 0, 1
		for j := i + 1; j < d; j++ {
			at++
			s.Lower[at], s.Upper[at] = -math.Sqrt2/2, math.Sqrt2/2
		}
		at++
	}
	for ; at < m; at++ {
		s.Lower[at], s.Upper[at] = -1, 1
	}
	s.Vector = func(dst []float64, r learn.Record) []float64 {
		x, y := unitArm(r.Arm, d), clipReward(r.Reward)
		for i, v := range x {
			dst = append(dst, v*v)
			for _, w := range x[i+1:] {
				dst = append(dst, math.Sqrt2*v*w)
			}
		}
		for _, v := range x {
			dst = append(dst, y*v)
		}
		return dst
	}
	return s
}

// unitArm is the arm of a record in the unit ball, rounding included; zeros for one that is not finite or of another
// dimension: a sum of which it is a part must stay one that noise can hide. It does not change x.
func unitArm(x []float64, d int) []float64 {
	n := convex.Norm(x)
	if len(x) != d || !convex.IsFinite(n) {
		return make([]float64, d)
	}
	if n <= 1 {
		return x
	}
	out := make([]float64, d)
	for i, v := range x {
		out[i] = v / n * (1 - 1e-15)
	}
	return out
}

// clipReward brings a reward into [-1, 1]; 0 for one that is not a number.
func clipReward(y float64) float64 {
	if math.IsNaN(y) {
		return 0
	}
	return math.Max(-1, math.Min(1, y))
}

// releasedMoments are the released sums of Moments.
type releasedMoments struct {
	people float64
	matrix *mat.SymDense
	vector []float64
	// spread bounds the operator norm of the matrix's noise, and drift the norm of the vector's, each except with the
	// probability failure.
	spread, drift, failure float64
}

// askMoments asks all people for their moments.
//
// The noise of the matrix has deviation s on the diagonal and s/sqrt(2) off it. Its operator norm is an s-Lipschitz
// function of independent standard normal variables with mean at most s sqrt(2d) (Sudakov-Fernique), hence the bound
// s (sqrt(2d) + sqrt(2 ln(2/failure))). That of the vector is s (sqrt(d) + sqrt(2 ln(1/failure))).
func askMoments(s learn.Setting, people int, ask learn.Asker) (releasedMoments, error) {
	d := s.Dimension
	a, err := ask(learn.Question{Form: learn.Sums, People: people, Statistics: []learn.Statistic{Moments(d)}})
	if err != nil {
		return releasedMoments{}, err
	}
	values, deviation := a.Sums[0].Values, 0.0
	m := releasedMoments{people: float64(a.People), matrix: symmetric.FromTriangle(values, d, isometric),
		failure: s.Failure / 3,
		vector:  values[symmetric.Dim(d):]}
	for _, v := range a.Sums[0].Variance {
		deviation = math.Max(deviation, math.Sqrt(v))
	}
	m.spread = deviation * (math.Sqrt(2*float64(d)) + math.Sqrt(2*math.Log(2/m.failure)))
	m.drift = deviation * (math.Sqrt(float64(d)) + math.Sqrt(2*math.Log(1/m.failure)))
	return m, nil
}

// ridgeModel is a linear model whose bound is the sum of two half-widths.
type ridgeModel struct {
	Linear
	width func(x []float64) float64
}

// Bound implements learn.Model.
func (m ridgeModel) Bound(x []float64) float64 { return m.width(x) }

// smallestRidge keeps least squares without noise solvable: as much as one person in every direction.
const smallestRidge = 1

// solve is ridge regression on the moments, with eigenvalues of matrix + lambda I raised to at least floor. Its model's
// width holds for all features at once with probability 1 - 3 failure if the mean reward is <x, theta*> with a theta*
// of norm at most radius.
//
// Proof sketch: let M be the matrix that was solved with and v = M^-1 x. The error <x, theta - theta*> is <v, noise of
// the vector> + <v, sum of x (y - mean)> - <v, (noise of the matrix + lambda I + what was raised) theta*>. The first
// and the last are at most |v| times the norms. The middle one is at most sqrt(v'Av) times the norm of the sum in the
// metric of A^-1, A the exact matrix; that norm is at most sqrt(d) + sqrt(2 ln(1/failure)), because a reward in [-1, 1]
// is sub-Gaussian with variance factor 1 (Hsu, Kakade and Zhang, "A tail inequality for quadratic forms of subgaussian
// random vectors", 2012), and A is at most the released matrix plus spread I.
func (m releasedMoments) solve(lambda, floor, radius float64) (learn.Model, error) {
	d := len(m.vector)
	values, basis, err := convex.Spectrum(m.matrix)
	if err != nil {
		return nil, fmt.Errorf("estimate: the released moments: %w", err)
	}
	raised := 0.0
	inverse, exact := make([]float64, d), make([]float64, d)
	for i, v := range values {
		solved := math.Max(v+lambda, floor)
		raised = math.Max(raised, solved-v-lambda)
		inverse[i], exact[i] = 1/solved, math.Max(0, v+m.spread)
	}
	turned := func(x []float64) []float64 { // coordinates in the basis of eigenvectors
		out := make([]float64, d)
		for j := range out {
			for i, v := range x {
				out[j] += basis.At(i, j) * v
			}
		}
		return out
	}
	theta := make([]float64, d)
	for j, u := range turned(m.vector) {
		for i := range theta {
			theta[i] += basis.At(i, j) * u * inverse[j]
		}
	}
	sampling := math.Sqrt(float64(d)) + math.Sqrt(2*math.Log(1/m.failure))
	return ridgeModel{Linear: point(theta), width: func(x []float64) float64 {
		length, metric := 0.0, 0.0
		for j, u := range turned(x) {
			v := u * inverse[j]
			length += v * v
			metric += v * v * exact[j]
		}
		return math.Sqrt(length)*(m.drift+(m.spread+lambda+raised)*radius) + math.Sqrt(metric)*sampling
	}}, nil
}

// Ridge is ridge regression on private sufficient statistics: every person answers with their moments, once, and the
// ridge is as large as the noise of the matrix can be. It asks for sums, so that it runs over every channel. The
// model's bound holds for all features at once (see solve), and is wide.
//
// It is the folklore estimator that "Near-optimal private learning in linear contextual bandits" and "Optimal regret
// locally private linear contextual bandit" compare theirs with; Vu and Slavkovic, "Differential privacy for clinical
// trial data" (2009), have the idea, and Sheffet, "Old techniques in differentially private linear regression" (2019),
// analyses it. Here matrix and vector are one release, calibrated to the diameter of both together.
//
// Options: "lambda", the ridge in units of the bound of the noise (default 1).
func Ridge(s learn.Setting, people int, ask learn.Asker) (learn.Model, error) {
	if err := s.Check(nil, []string{"lambda"}); err != nil {
		return nil, err
	}
	m, err := askMoments(s, people, ask)
	if err != nil {
		return nil, err
	}
	lambda := math.Max(smallestRidge, s.Option("lambda", 1)*m.spread)
	return m.solve(lambda, lambda/2, s.Radius)
}

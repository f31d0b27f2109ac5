package estimate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// perturbed is least squares on inputs that every person perturbs by themselves, with Laplace noise of scale 1/epsilon
// on each of phi and y: the estimators of the paper's Theorem 2. (They spend more than epsilon on a person.) The mean
// of the noise's squares is taken off the second moments, whose eigenvalues are kept above their own deviation, and the
// estimate in the unit ball. n people are drawn from the Gaussian law of the sums of their moments.
func perturbed(w layeredWorld, n float64, epsilon float64, r *rand.Rand) estimate.Linear {
	laplace := func() float64 {
		v := r.ExpFloat64() / epsilon
		if r.IntN(2) == 0 {
			return -v
		}
		return v
	}
	const sample = 3000
	rows, mean := mat.NewDense(sample, 5, nil), make([]float64, 5)
	moments := func(a, b, y float64) []float64 { return []float64{a * a, a * b, b * b, a * y, b * y} }
	for i, x := range w.points {
		for j, v := range moments(x[0], x[1], convex.Dot(x, w.theta)) {
			mean[j] += w.shares[i] * v
		}
	}
	mean[0], mean[2] = mean[0]+2/epsilon/epsilon, mean[2]+2/epsilon/epsilon
	for k := range sample {
		x := w.points[k%len(w.points)] // of equal shares
		rows.SetRow(k, moments(x[0]+laplace(), x[1]+laplace(), convex.Dot(x, w.theta)+laplace()))
	}
	covariance, deviation := mat.NewSymDense(5, nil), 0.0
	for k := range sample {
		v := mat.NewVecDense(5, nil)
		v.SubVec(mat.NewVecDense(5, mat.Row(nil, k, rows)), mat.NewVecDense(5, mean))
		covariance.SymRankOne(covariance, 1/float64(sample)/n, v)
	}
	var root mat.Cholesky
	root.Factorize(covariance)
	var lower mat.TriDense
	root.LTo(&lower)
	draw, noise := mat.NewVecDense(5, nil), mat.NewVecDense(5, nil)
	for j := range 5 {
		draw.SetVec(j, r.NormFloat64())
	}
	noise.MulVec(&lower, draw)
	deviation = math.Sqrt(covariance.At(2, 2))
	at := func(j int) float64 { return mean[j] + noise.AtVec(j) }
	bias := 2 / epsilon / epsilon
	values, vectors, err := convex.Spectrum(mat.NewSymDense(2, []float64{at(0) - bias, at(1), at(1), at(2) - bias}))
	if err != nil {
		panic(err)
	}
	theta := []float64{0, 0}
	for j, v := range values {
		u := mat.Col(nil, j, vectors)
		c := convex.Dot(u, []float64{at(3), at(4)}) / max(v, deviation)
		theta[0], theta[1] = theta[0]+c*u[0], theta[1]+c*u[1]
	}
	if norm := convex.Norm(theta); norm > 1 {
		theta[0], theta[1] = theta[0]/norm, theta[1]/norm
	}
	return estimate.Linear{Stage: glm.Stage{Theta: theta}}
}

// Env-2 of the lower bounds, with the small amplitude 2/n^(1/3) in place of one that needs astronomically many people:
// estimators of perturbed inputs do no better than without the direction of small amplitude, whose error falls as
// n^(-1/3), and the error of layered regression falls as n^(-1/2), so that it is ahead from 1e8 people on.
func TestLayeredBeatsPerturbedInputs(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	r := rand.New(rand.NewPCG(1, 8))
	for _, n := range []float64{1e5, 1e6, 1e8, 1e9, 1e10} {
		s, runs := 2/math.Cbrt(n), 20
		w := layeredWorld{points: [][]float64{{.5, s}, {.5, -s}}, shares: []float64{.5, .5}, theta: layeredTheta,
			noiseless: true}
		ignoring, input := s*layeredTheta[1], 0.0
		for range runs {
			mad, _, _, _ := w.deviation(perturbed(w, n, 1, r))
			input += mad / float64(runs)
		}
		layered := layeredRuns(t, layeredSetting(2, 1), w, int(n), 60)
		t.Logf("n = %g: perturbed inputs %.5f, without the direction %.5f, layered %.5f", n, input, ignoring,
			layered.mad)
		if n < 1e9 && input < .85*ignoring {
			t.Errorf("n = %g: the error of perturbed inputs is %v, without the direction %v", n, input, ignoring)
		}
		if n >= 1e8 && layered.mad > input {
			t.Errorf("n = %g: the error of layered regression is %v, that of perturbed inputs %v", n, layered.mad,
				input)
		}
	}
}

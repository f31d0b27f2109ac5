package evaluate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// playedAtRandom is a log of logistic rewards whose arms were played at random, of a fixed seed.
func playedAtRandom(rows, dimension int) (log []decisions.Decision) {
	draw := rand.New(rand.NewPCG(25, 6))
	truth := []float64{1.5, -0.5, 0.75}
	for range rows {
		d := decisions.Decision{Arm: draw.IntN(3), Propensity: 1.0 / 3}
		for range 3 {
			x, squares := make([]float64, dimension), 0.0
			for j := range x {
				x[j] = draw.NormFloat64()
				squares += x[j] * x[j]
			}
			for j := range x {
				x[j] /= math.Sqrt(squares)
			}
			d.Arms = append(d.Arms, x)
		}
		score := 0.0
		for j, v := range d.Arms[d.Arm] {
			score += v * truth[j]
		}
		if draw.Float64() < 1/(1+math.Exp(-score)) {
			d.Reward = 1
		}
		log = append(log, d)
	}
	return log
}

// covarianceOf is the inverse of a prior's precision.
func covarianceOf(t *testing.T, p evaluate.Prior) *mat.Dense {
	t.Helper()
	var out mat.Dense
	if err := out.Inverse(p.Precision.Dense(len(p.Theta))); err != nil {
		t.Fatal(err)
	}
	return &out
}

// A prior with an epsilon has the noise that it states, and the noise is as large as the epsilon asks for. Of one log
// 20 priors are made with noise, and one without. Two of them never agree, nor does one with the raw prior. How far
// they lie from the raw one, in the deviations by which their stated covariance exceeds the raw one's, is a chi-square
// number of 60 degrees of freedom but for what a second order adds: outside [0.3, 2.2] of its mean with probability
// 1e-6 (seeds are fixed). Half or twice the noise is 0.25 or 4 of it, none is 0.
//
// The stated noise is compared with what the analytic Gaussian mechanism needs at least: each of three cohorts releases
// a gradient that one row moves by 1, the diameter of y - mu(0) times an arm, so that theta has noise of 3 sigma^2
// times the square of the raw covariance. Below it the guarantee cannot hold; above three times of it noise is wasted.
func TestPriorsHaveTheNoiseOfTheirEpsilon(t *testing.T) {
	const rows, d, epsilon, delta, priors = 1500, 3, 0.5, 1e-6, 20
	log := playedAtRandom(rows, d)
	o := evaluate.PriorOptions{Family: "logistic", MaxReward: 1, Radius: 3}
	raw, err := evaluate.FitPrior(log, o)
	if err != nil {
		t.Fatal(err)
	}
	exact := covarianceOf(t, raw)
	mu, err := privacy.MuFor(epsilon, delta)
	if err != nil {
		t.Fatal(err)
	}
	var square mat.Dense
	square.Mul(exact, exact)
	least := 3 / (mu * mu) * mat.Trace(&square)
	o.Epsilon, o.Delta = epsilon, delta
	var seen [][]float64
	distance := 0.0
	for seed := range byte(priors) {
		o.Noise = rand.NewChaCha8([32]byte{seed, 25})
		p, err := evaluate.FitPrior(log, o)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(p.Theta, raw.Theta) || slices.ContainsFunc(seen, func(other []float64) bool {
			return slices.Equal(p.Theta, other)
		}) {
			t.Fatal("two priors are the same: there is no noise")
		}
		seen = append(seen, p.Theta)
		var noise, inverse mat.Dense
		noise.Sub(covarianceOf(t, p), exact)
		if stated := mat.Trace(&noise) / least; stated < 0.9 || stated > 3 {
			t.Errorf("prior %d states %.2f of the least noise of epsilon %v", seed, stated, epsilon)
		}
		if err := inverse.Inverse(&noise); err != nil {
			t.Fatal(err)
		}
		gap := mat.NewVecDense(d, nil)
		for j, v := range p.Theta {
			gap.SetVec(j, v-raw.Theta[j])
		}
		distance += mat.Inner(gap, &inverse, gap) / (d * priors)
	}
	t.Logf("the squared distance from the raw prior is %.2f of what is stated", distance)
	if distance < 0.3 || distance > 2.2 {
		t.Errorf("the squared distance from the raw prior is %.2f of what is stated, want about 1", distance)
	}
}

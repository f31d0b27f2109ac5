package glm_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Probabilities sum to 1, equal the propensity that the played arm's decision carries, and are the frequencies of 20000
// decisions within 0.02 (more than five standard errors: false alarm below 1e-5 for all arms together; a probability
// that is off by 0.04 is found with near certainty).
func TestProbabilitiesAreTheFrequenciesOfDecisions(t *testing.T) {
	src := rand.NewChaCha8([32]byte{7})
	model, err := family.New("logistic", 1)
	if err != nil {
		t.Fatal(err)
	}
	env, err := family.NewBallEnvironment(model, 3, 6, 2, src)
	if err != nil {
		t.Fatal(err)
	}
	arms := env.Draw(src)
	covariance := symmetric.Pack(mat.NewDiagDense(3, []float64{0.3, 0.2, 0.4}))
	stage := glm.Stage{Theta: []float64{1, -1, 0.5}, Covariance: covariance, Width: 1}
	for _, play := range []glm.Play{glm.PlayDesign, glm.PlayGreedy, glm.PlayUniform} {
		for _, c := range []struct {
			stages  []glm.Stage
			explore float64
		}{{nil, 0}, {[]glm.Stage{stage}, 0}, {[]glm.Stage{stage}, 0.25}, {nil, 1}} {
			p := glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 3, Radius: 3,
				Theta:  []float64{1, -1, 0.5},
				Stages: c.stages, Play: play, Explore: c.explore, DesignTolerance: 0.1}
			probabilities, err := p.Probabilities(arms)
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for _, v := range probabilities {
				sum += v
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("%s: sum %v", play, sum)
			}
			if play == glm.PlayDesign && c.explore == 0.25 {
				checkMixture(t, p, arms, probabilities)
			}
			const draws = 20000
			counts := make([]float64, len(arms))
			for range draws {
				d, err := p.Decide(arms, src)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(d.Propensity-probabilities[d.Arm]) > 1e-12 {
					t.Fatalf("%s: arm %d has propensity %v and probability %v",
						play, d.Arm, d.Propensity, probabilities[d.Arm])
				}
				counts[d.Arm] += 1.0 / draws
			}
			for a := range counts {
				if math.Abs(counts[a]-probabilities[a]) > 0.02 {
					t.Errorf("%s: arm %d played in %v of decisions, probability %v",
						play, a, counts[a], probabilities[a])
				}
			}
		}
	}
	p := glm.Policy{Dimension: 3, Theta: []float64{0, 0, 0}, Play: "dice"}
	if _, err := p.Probabilities(arms); err == nil {
		t.Error("a play that does not exist")
	}
}

// checkMixture checks that with Explore the probabilities are the design's times Explore, and that the greedy arm gets
// the rest.
func checkMixture(t *testing.T, p glm.Policy, arms [][]float64, got []float64) {
	t.Helper()
	share, greedy := p.Explore, 0
	for a, x := range arms {
		if convex.Dot(x, p.Theta) > convex.Dot(arms[greedy], p.Theta) {
			greedy = a
		}
	}
	p.Explore = 0
	design, err := p.Probabilities(arms)
	if err != nil {
		t.Fatal(err)
	}
	explored := 0
	for a, v := range design {
		want := share * v
		if a == greedy {
			want += 1 - share
		} else if v > 0 {
			explored++
		}
		if math.Abs(got[a]-want) > 1e-12 {
			t.Errorf("arm %d has probability %v, want %v", a, got[a], want)
		}
	}
	if explored == 0 {
		t.Error("the design explores nothing: the test shows nothing")
	}
}

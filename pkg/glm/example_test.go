package glm_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// A device receives a policy, checks it once, and decides among the arms that its user has.
func ExamplePolicy_Decide() {
	stage := glm.Stage{Theta: []float64{1, -0.5}, Covariance: symmetric.Packed{0.04, 0, 0.04}, Width: 2}
	policy := glm.Policy{Profile: glm.Practical, Epoch: 1, Family: family.NameLogistic, MaxReward: 1, Dimension: 2,
		Radius: 3, Theta: stage.Theta, Stages: []glm.Stage{stage}, Play: glm.PlayDesign}
	if err := policy.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	arms := [][]float64{{0.9, 0}, {0.8, -0.2}, {-0.9, 0.3}}
	decision, err := policy.Decide(arms, rand.NewChaCha8([32]byte{1})) // on a device: a cryptographic generator
	if err != nil {
		fmt.Println(err) // the device then reports the null record
		return
	}
	fmt.Printf("arm %d of %d survivors, played with probability %.2f\n",
		decision.Arm, decision.Survivors, decision.Propensity)
	// Output:
	// arm 0 of 2 survivors, played with probability 0.50
}

// The analyzer runs a learner on a toy population, whose sums are exact here. In a deployment they come from package
// channel or from the analyzer's counts, with noise of a known variance.
func ExampleLearner() {
	people, devices := rand.NewChaCha8([32]byte{1}), rand.NewChaCha8([32]byte{2})
	population, err := family.NewBallEnvironment(family.Logistic{}, 2, 4, 2, people)
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := learner.New(learner.Config{Dimension: 2, Horizon: 700,
		Practical: learner.PracticalConfig{FirstCohort: 100}})
	if err != nil {
		fmt.Println(err)
		return
	}
	step := l.Next()
	for ; !step.Done; step = l.Next() {
		statistics := step.Statistics[step.Round]
		sums := make([]learner.Aggregate, len(statistics))
		for i, s := range statistics {
			sums[i] = learner.Aggregate{Kind: s.Kind, Sum: make([]float64, s.Dim()), Variance: make([]float64, s.Dim()),
				Reports: step.Cohort}
		}
		best := 0.0
		for range step.Cohort {
			arms := population.Draw(people)
			decision, err := step.Policy.Decide(arms, devices)
			if err != nil {
				fmt.Println(err)
				return
			}
			played := arms[decision.Arm]
			record := statistic.Record{Arm: played, Reward: population.Reward(played, people), Weight: decision.Weight}
			for i, s := range statistics {
				vector, err := s.Vector(nil, record)
				if err != nil {
					fmt.Println(err)
					return
				}
				for j, v := range vector {
					sums[i].Sum[j] += v
				}
			}
			if means := population.Means(arms); means[decision.Arm] == slices.Max(means) {
				best++
			}
		}
		fmt.Printf("epoch %d: %d people, best arm played by %.0f %%\n",
			step.Epoch, step.Cohort, 100*best/float64(step.Cohort))
		if err := l.Absorb(sums); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("estimate %.1f, truth %.1f\n", step.Policy.Theta, population.Theta)
	// Output:
	// epoch 0: 100 people, best arm played by 25 %
	// epoch 1: 125 people, best arm played by 94 %
	// epoch 2: 156 people, best arm played by 96 %
	// epoch 3: 195 people, best arm played by 94 %
	// epoch 4: 124 people, best arm played by 97 %
	// estimate [-0.6 1.5], truth [-0.4 2.0]
}

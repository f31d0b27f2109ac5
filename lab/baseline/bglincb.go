package baseline

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// BGLinCB is B-GLinCB of Sawarni, Das, Barman and Sinha, "Generalized linear bandits with limited adaptivity" (2024),
// the batched non-private bandit that Algorithm 1 of the seed paper starts from. A warm-up batch draws from people's
// own G-optimal designs. From the second batch on, arms are eliminated by the confidence sets of all batches before,
// the rest are scaled by the variance at the warm-up's estimate, and one is drawn from the design. Half of a batch
// gives the maximum likelihood estimate and its matrix, and the raw arm sets of the other half the DistributionalDesign
// of the next batch. The second batch has none to learn from, and draws from G-optimal designs.
//
// The constants are those of learner.PaperConfig. ProofConstants are the paper's, as far as they are remembered:
// lambda = 20 R d ln T and the width 30 R S sqrt(d ln T). TunedConstants have lambda = 1 and the width of
// learner.TunedWidth, without an optimiser's error. What differs: the paper was not at hand and has no public code. The
// sizes of the batches are those of the seed paper's equation (7) after a warm-up of T^(2/3), as the paper's own
// warm-up is longer than any realistic horizon. kappa is the largest on the ball, as in Algorithm 1 here.
type BGLinCB struct {
	inTheClear
	setting  Setting
	config   learner.PaperConfig
	ridge    float64 // lambda
	width    float64 // of batches after the warm-up
	schedule []int   // people of the batches that are not over
	policy   glm.Policy
	design   *DistributionalDesign
	decided  int           // people of this batch
	covering *mat.SymDense // V or H of the batch
	arms     [][]float64   // of the half that estimates
	rewards  []float64
	sets     [][][]float64 // of the half that shows its arm sets, as they came
	chosen   []float64
	weight   float64 // s(x)^2 of the choice
}

// NewBGLinCB starts B-GLinCB. Of c it uses Paper; family, dimension, radius and horizon are the setting's.
func NewBGLinCB(s Setting, c learner.Config) (*BGLinCB, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	c.Profile, c.Family, c.MaxReward = glm.Paper, s.Family.Name(), s.Family.MaxReward()
	c.Dimension, c.Radius, c.Horizon = s.Dimension, s.Radius, s.Horizon
	l, err := learner.New(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSetting, err)
	}
	b := &BGLinCB{setting: s, config: l.Config().Paper, schedule: l.Schedule(),
		policy: glm.Policy{Family: c.Family, MaxReward: c.MaxReward, Dimension: s.Dimension,
			Theta: make([]float64, s.Dimension)}}
	b.ridge, b.width = 1, b.tunedWidth(1)
	if b.config.Constants == learner.ProofConstants {
		d, r, l := float64(s.Dimension), c.MaxReward, math.Log(float64(s.Horizon))
		b.ridge, b.width = 20*r*d*l, 30*r*s.Radius*math.Sqrt(d*l)
	}
	b.begin()
	b.design, err = LearnDesign(nil, b.config.DesignTolerance)
	return b, err
}

// tunedWidth is the width of TunedConstants, in the norm of a matrix whose weights are at least 1/kappa of the
// Hessian's.
func (b *BGLinCB) tunedWidth(kappa float64) float64 {
	return learner.TunedWidth{Constant: b.config.Width, MaxReward: b.setting.Family.MaxReward(),
		Dimension: b.setting.Dimension, Horizon: b.setting.Horizon, Radius: b.setting.Radius, Lambda: b.ridge,
		Kappa: kappa}.Gamma()
}

// begin forgets the records of the batch before.
func (b *BGLinCB) begin() {
	b.decided, b.arms, b.rewards, b.sets = 0, nil, nil, nil
	b.covering = mat.NewSymDense(b.setting.Dimension, nil)
	for i := range b.setting.Dimension {
		b.covering.SetSym(i, i, b.ridge)
	}
}

// Choose implements simulate.Algorithm.
func (b *BGLinCB) Choose(arms [][]float64) (int, error) {
	survivors, scaled, err := b.remaining(arms)
	if err != nil {
		return 0, err
	}
	pick, err := b.design.Draw(scaled, b.setting.Source)
	if err != nil {
		return 0, err
	}
	a := survivors[pick]
	b.chosen, b.weight = append([]float64(nil), arms[a]...), b.scale(arms[a])
	if !b.estimates() {
		set := make([][]float64, len(arms))
		for i, x := range arms {
			set[i] = append([]float64(nil), x...)
		}
		b.sets = append(b.sets, set)
	}
	return a, nil
}

// estimates says that the next record is for the estimate: in the warm-up and the last batch all are, else every other.
func (b *BGLinCB) estimates() bool {
	return b.policy.Scaling == nil || len(b.schedule) == 1 || b.decided%2 == 0
}

// remaining are the arms that no confidence set excludes, and the same scaled.
func (b *BGLinCB) remaining(arms [][]float64) ([]int, [][]float64, error) {
	survivors, err := b.policy.Eliminate(arms)
	if err != nil {
		return nil, nil, err
	}
	scaled := make([][]float64, len(survivors))
	for i, a := range survivors {
		root := math.Sqrt(b.scale(arms[a]))
		scaled[i] = make([]float64, len(arms[a]))
		for j, v := range arms[a] {
			scaled[i][j] = root * v
		}
	}
	return survivors, scaled, nil
}

// scale is s(x)^2, 1 in the warm-up.
func (b *BGLinCB) scale(x []float64) float64 {
	if b.policy.Scaling == nil {
		return 1
	}
	return b.policy.Scaling.Weight(b.setting.Family, x)
}

// Learn implements simulate.Algorithm.
func (b *BGLinCB) Learn(reward float64) error {
	if len(b.schedule) == 0 {
		return nil
	}
	if b.estimates() {
		b.covering.SymRankOne(b.covering, b.weight, mat.NewVecDense(len(b.chosen), b.chosen))
		b.arms, b.rewards = append(b.arms, b.chosen), append(b.rewards, reward)
	}
	if b.decided++; b.decided < b.schedule[0] {
		return nil
	}
	b.schedule = b.schedule[1:]
	if len(b.schedule) == 0 {
		return nil
	}
	return b.close()
}

// close ends a batch: its confidence set, then the design for the arms that the set leaves.
func (b *BGLinCB) close() error {
	ridge := b.config.EstimationRidge
	if b.config.Constants == learner.ProofConstants {
		ridge = b.ridge
	}
	loss, err := convex.NewGLMLoss(b.setting.Family, b.setting.Dimension, b.arms, b.rewards, ridge)
	if err != nil {
		return fmt.Errorf("baseline: b-glincb: %w", err)
	}
	fitted, err := convex.Minimize(loss, convex.NewtonConfig{Start: b.policy.Theta, Radius: b.setting.Radius})
	if err != nil {
		return fmt.Errorf("baseline: b-glincb: %w", err)
	}
	inverse, err := convex.Inverse(b.covering)
	if err != nil {
		return fmt.Errorf("%w: b-glincb: %w", ErrSetting, err)
	}
	stage := glm.Stage{Theta: fitted.Theta, Covariance: symmetric.Pack(inverse), Width: b.width}
	warmup := b.policy.Scaling == nil
	if warmup {
		stage.Width *= math.Sqrt(b.config.Kappa)
		if b.config.Constants == learner.TunedConstants {
			stage.Width = b.tunedWidth(b.config.Kappa)
		}
		family, radius := b.setting.Family, b.setting.Radius
		b.policy.Scaling = &glm.Scaling{Stage: stage, Diameter: 2 * radius,
			SelfConcordance: family.SelfConcordance(radius), MaxWeight: family.MaxVariance(radius)}
	}
	b.policy.Theta, b.policy.Stages = fitted.Theta, append(b.policy.Stages, stage)
	if !warmup {
		sets := make([][][]float64, len(b.sets))
		for i, arms := range b.sets {
			if _, sets[i], err = b.remaining(arms); err != nil {
				return err
			}
		}
		if b.design, err = LearnDesign(sets, b.config.DesignTolerance); err != nil {
			return err
		}
	}
	b.begin()
	return nil
}

package bandit

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
)

// noisyLinUCB is optimistic play over the confidence set of bandit.SecondMoments, which the joint, the local and the
// shuffle baselines of "Improved rate for locally differentially private linear bandits" have in common.
//
// The LinUCB of deployments (bandit.LinUCB) does not come to the same. Here, as in the papers, one statistic has both
// moments, and every entry noise of one deviation; there they are two statistics, whose entries off the diagonal have
// half the variance. Here a batch that the horizon cuts short is one of its own; there it joins the one before. And
// there batches double and the practical width is half, unless options say otherwise.
type noisyLinUCB struct {
	bandit.SecondMoments
	read  linearRecord
	batch int
}

// noisyOptions are theory (0, the default: practical; 1: theory), noise (R, default half of the rewards' range), batch
// (people who decide with the same policy) and lowest_reward.
var noisyOptions = []string{"theory", "noise", "batch", optionLowest}

func newNoisyLinUCB(s learn.Setting, variants []string, batch int) (*noisyLinUCB, error) {
	if err := s.Check(variants, noisyOptions); err != nil {
		return nil, err
	}
	n := &noisyLinUCB{read: newLinearRecord(s), batch: int(s.Option("batch", float64(batch)))}
	n.SecondMoments = bandit.SecondMoments{Setting: s, Noise: s.Option("noise", n.read.span()/2),
		Theory: s.Option("theory", 0) != 0}
	if n.batch < 1 {
		return nil, fmt.Errorf("bandit: batch %d must be at least 1", n.batch)
	}
	return n, nil
}

// policy is that for moments (as linearRecord.moments has them) whose entries have noise of this standard deviation.
func (n *noisyLinUCB) policy(moments []float64, deviation float64) (learn.Policy, error) {
	d := n.Setting.Dimension
	k := symmetric.Dim(d)
	set, err := n.Confidence(symmetric.FromTriangle(moments[:k], d, 1), moments[k:], deviation, deviation)
	if err != nil {
		return nil, err
	}
	return optimistic(n.Setting, set), nil
}

// run runs the algorithm on sums or reports of a statistic, batch by batch. variance is that of one person's noise, for
// reports; sums say their own.
func (n *noisyLinUCB) run(form learn.Form, statistic learn.Statistic, variance float64) (*learn.Learner, error) {
	return learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		total, noise := make([]float64, statistic.Dim()), 0.0
		policy, err := n.policy(total, 0)
		for left := n.Setting.Horizon; left > 0 && err == nil; left -= n.batch {
			var a learn.Answer
			if a, err = ask(policy, learn.Question{Form: form, People: min(n.batch, left),
				Statistics: []learn.Statistic{statistic}}); err != nil {
				return nil, err
			}
			for _, sum := range a.Sums {
				addTo(total, sum.Values)
				noise += convex.MaxAbs(sum.Variance)
			}
			for _, report := range a.Reports {
				addTo(total, report[0])
				noise += variance
			}
			policy, err = n.policy(total, math.Sqrt(noise))
		}
		return policy, err
	})
}

func addTo(total, x []float64) {
	for i, v := range x {
		total[i] += v
	}
}

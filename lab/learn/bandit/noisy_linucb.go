package bandit

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// noisyLinUCB is optimistic play over a confidence set from noisy second moments, which the joint, the local and the
// shuffle baselines of "Improved rate for locally differentially private linear bandits" have in common (Shariff and
// Sheffet, "Differentially private contextual linear bandits", 2018, section 4).
//
// Let V = sum xx' + H and u = sum xy + h with noise H, h of standard deviation s in each entry. A shift of 2Y, for a
// bound Y of the norm of H, makes V positive definite:
//
//	theory:    Y = s (4 sqrt d + 2 ln(2T/alpha)),
//	           beta = R sqrt(2 ln(2/alpha) + ln det V - d ln Y) + S sqrt(3Y)
//	                  + s (sqrt d + sqrt(2 ln(2T/alpha)))/sqrt Y
//	practical: Y = 2 s sqrt d, which is the norm's expectation; beta = sqrt(2Y) + R sqrt(d ln T), and the
//	           same with 1 for 2Y where Y is smaller.
//
// Eigenvalues that the noise has left below Y count as Y, which the papers do not need under their events.
type noisyLinUCB struct {
	setting learn.Setting
	read    linearRecord
	noise   float64 // R
	batch   int
	theory  bool
}

// noisyOptions are theory (0, the default: practical; 1: theory), noise (R, default half of the rewards' range), batch
// (people who decide with the same policy) and lowest_reward.
var noisyOptions = []string{"theory", "noise", "batch", optionLowest}

func newNoisyLinUCB(s learn.Setting, variants []string, batch int) (*noisyLinUCB, error) {
	if err := s.Check(variants, noisyOptions); err != nil {
		return nil, err
	}
	n := &noisyLinUCB{setting: s, read: newLinearRecord(s), batch: int(s.Option("batch", float64(batch))),
		theory: s.Option("theory", 0) != 0}
	n.noise = s.Option("noise", n.read.span()/2)
	if n.batch < 1 {
		return nil, fmt.Errorf("bandit: batch %d must be at least 1", n.batch)
	}
	return n, nil
}

// policy is that for moments (as linearRecord.moments has them) whose entries have noise of this standard deviation.
func (n *noisyLinUCB) policy(moments []float64, deviation float64) (learn.Policy, error) {
	d, k := n.setting.Dimension, 0
	root, horizon := math.Sqrt(float64(d)), float64(n.setting.Horizon)
	tail := math.Log(2 * horizon / n.setting.Failure)
	y := 2 * deviation * root
	if n.theory {
		y = deviation * (4*root + 2*tail)
	}
	y = max(y, 0.5) // a shift of 1 without noise
	v := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			v.SetSym(i, j, moments[k])
			k++
		}
	}
	for i := range d {
		v.SetSym(i, i, v.At(i, i)+2*y)
	}
	values, basis, err := convex.Spectrum(v)
	if err != nil {
		return nil, fmt.Errorf("bandit: %w", err)
	}
	set, inverse := glm.Stage{Theta: make([]float64, d)}, make([]float64, d*d)
	logDet := 0.0
	for e, value := range values {
		value = max(value, y)
		logDet += math.Log(value)
		for i := range d {
			for j := range d {
				inverse[i*d+j] += basis.At(i, e) * basis.At(j, e) / value
			}
		}
	}
	for i := range d {
		set.Theta[i] = convex.Dot(inverse[i*d:(i+1)*d], moments[k:])
	}
	set.Width = math.Sqrt(2*y) + n.noise*math.Sqrt(float64(d)*math.Log(horizon))
	if n.theory {
		set.Width = n.noise*math.Sqrt(2*math.Log(2/n.setting.Failure)+max(0, logDet-float64(d)*math.Log(y))) +
			n.setting.Radius*math.Sqrt(3*y) + deviation*(root+math.Sqrt(2*tail))/math.Sqrt(y)
	}
	set.Covariance = packed(inverse, d)
	return optimistic(n.setting, set), nil
}

// run runs the algorithm on sums or reports of a statistic, batch by batch. variance is that of one person's noise, for
// reports; sums say their own.
func (n *noisyLinUCB) run(form learn.Form, statistic learn.Statistic, variance float64) (*learn.Learner, error) {
	return learn.Start(func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		total, noise := make([]float64, statistic.Dim()), 0.0
		policy, err := n.policy(total, 0)
		for left := n.setting.Horizon; left > 0 && err == nil; left -= n.batch {
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

package deployment

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn/program"
)

// Estimate is what a deployment knows of the parameter of its reward model. It is public: a function of the
// configuration and of counts that were signed.
type Estimate struct {
	Cohorts int       // that it was learnt from; with 0 nothing is known, and Theta is zero
	Theta   []float64 // one coefficient for each entry of an arm's vector
	// Deviation is the standard deviation of each coefficient's error; nil where it is not known.
	Deviation []float64
	// HalfWidth is half the length of each coefficient's interval around Theta; nil where there is none.
	HalfWidth []float64
	Interval  string // what the interval is and what it leaves out, or why there is none, in sentences
	Predicted Predicted
}

// Predicted is the mean reward that the model predicts at the ends of its range: of an arm of norm 1 that points
// straight away from the estimate, of the zero arm, and of an arm of norm 1 along the estimate. The value of every
// policy by this model, and the prediction for every arm, lies between Least and Most.
//
// The value of the policy for the people of a cohort is not among it, because it does not follow from what is public,
// unless there is a control group (wire.Lift). A cohort's sums are of squares of arms (the Hessian) and of differences
// of predicted and actual rewards (the gradient). A mean reward needs the sum of the arms or of the rewards, and these
// never leave the devices.
type Predicted struct {
	Least, Neutral, Most float64 // within the range of rewards
}

// NormalQuantile is how many standard deviations an interval of 95 % reaches to either side under the normal law.
const NormalQuantile = 1.959963984540054

// What an interval is, by profile.
const (
	practicalInterval = "95 % for each coefficient by itself, if the model is right: from the variance of sampling, " +
		"of all noise and of the prior. Not in it: a wrong model, what dishonest parties do to the sums, and the " +
		"bias of one Newton step from afar."
	paperInterval = "The last batch's confidence set along each coefficient: the sets of all batches together are " +
		"made to hold the parameter in nine runs of ten, if the model is right. Not in it: a wrong model, and what " +
		"dishonest parties do to the sums."
	jointInterval = "There are no intervals: the curator's noise enters every step of its descent, and how far that " +
		"moves a coefficient does not follow from what it gives out."
	programInterval = "The program's confidence set along each coefficient, for the width that it plays with. Not in " +
		"it: a wrong model, and what dishonest parties do to the sums; whether the width is one that is proved, its " +
		"options say."
	noProgramInterval = "There are no intervals: the profile has no confidence set of the parameter."
	treeInterval      = "There are no coefficients, which are 0 here, and no intervals: layered regression learns " +
		"trees of bins, which the policy has, each with the bounds of its predictions."
	noInterval = "Nothing was learnt yet."
)

// Estimate says what was learnt from the counts that were absorbed: nothing of an epoch whose rounds are not over.
func (m *Machine) Estimate() (Estimate, error) {
	p := &m.step.Policy
	family, err := family.New(p.Family, p.MaxReward)
	if err != nil { // not reached: New made a learner of it
		return Estimate{}, fmt.Errorf("deployment: %w", err)
	}
	mean := func(z float64) float64 { // the linear model's leaves the range of rewards
		return math.Max(family.MinReward(), math.Min(family.MaxReward(), family.Mean(z)))
	}
	norm := convex.Norm(p.Theta)
	if len(p.Trees) > 0 {
		norm = p.Radius
	}
	e := Estimate{
		Cohorts: p.Epoch, Theta: slices.Clone(p.Theta), Interval: noInterval,
		Predicted: Predicted{Least: mean(-norm), Neutral: mean(0), Most: mean(norm)},
	}
	if e.Cohorts == 0 {
		return e, nil
	}
	l, _ := m.learner.(*learner.Learner)
	program, _ := m.learner.(*program.Learner)
	switch {
	case p.Profile == glm.RegCB:
		e.Interval = treeInterval
	case program != nil:
		e.Interval = noProgramInterval
		if set := program.Confidence(); set != nil {
			e.Interval, e.HalfWidth = programInterval, scaled(diagonal(set.Covariance, len(p.Theta)), set.Width)
		}
	case l == nil:
		e.Interval = jointInterval
	case p.Profile == glm.Practical:
		e.Interval, e.Deviation = practicalInterval, diagonal(l.Covariance(), len(p.Theta))
		e.HalfWidth = scaled(e.Deviation, NormalQuantile)
	default:
		last := p.Stages[len(p.Stages)-1]
		e.Interval, e.HalfWidth = paperInterval, scaled(diagonal(last.Covariance, len(p.Theta)), last.Width)
	}
	return e, nil
}

// diagonal are the square roots of a covariance's diagonal.
func diagonal(s symmetric.Packed, d int) []float64 {
	out, dense := make([]float64, d), s.Dense(d)
	for i := range out {
		out[i] = math.Sqrt(math.Max(0, dense.At(i, i)))
	}
	return out
}

func scaled(x []float64, factor float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = factor * v
	}
	return out
}

package learner

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

const (
	// LiftQuantile is that of the intervals of a Lift: 95 % of a normal distribution lie within it.
	LiftQuantile = 1.959963984540054
	// LiftSpread is the largest standard deviation, over people, of how much better the policy is for each of them,
	// that the intervals of a Lift allow for, as a share of the range of rewards. It matters only where a report
	// holds several decisions. For rewards of 0 and 1 it is that of people of whom half gain 0.2 more than the mean
	// and half 0.2 less.
	LiftSpread = 0.2
)

// Lift compares the policy with the control group, which a coin gives the default arm: how much larger a mean reward
// the policy brings. It is made of the released sum of the statistic Rewards alone. The zero value is of no cohort.
type Lift struct {
	Reports   int
	Decisions float64 // rewarded decisions per report, estimated; 0 or more
	Treated   float64 // mean reward of a decision of the policy, estimated, brought into the range of rewards
	Control   float64 // mean reward of a decision of the control group, in the same way
	Lift      float64 // Treated - Control
	Low, High float64 // the 95 % interval of the lift, for sampling and all noise, in [-range, range]; it holds Lift

	treated, control part    // of the mean centred reward, times the number of rewarded decisions
	rewarded         part    // number of rewarded decisions
	most             float64 // decisions that all reports have room for
	sampling         float64 // variance of treated - control for the choice of people, their coins and their rewards
	middle, half     float64 // of the range of rewards
	share            float64 // of decisions in the control group, as announced
}

// part is an estimate with the variance of its noise.
type part struct{ value, noise float64 }

func (p part) add(q part) part { return part{p.value + q.value, p.noise + q.noise} }

// NewLift makes it of the released sum of Rewards over one cohort, for the family of the learner and the share of
// decisions in the control group, in (0, 1). Errors wrap ErrAggregate.
//
// Estimates. The coin is independent of all else, so that by Horvitz and Thompson (1952) the sum of the centred
// rewards of treated decisions over 1 - c, and that of the control group over c, estimate without bias what all
// rewarded decisions would have brought under the policy, and under the default arm. The third number counts the
// rewarded decisions. A reward that never came counts in neither: the comparison is of those that came, and holds
// if whether one comes does not depend on the arm.
//
// Variance. With S the difference of the two sums, N the number of rewarded decisions and L the lift, S - L N has
// mean 0, and the interval holds every L with |S - L N| <= z sqrt(V) (Fieller 1954), where V is
//
//	sampling + noise of S + L^2 noise of N,  sampling = N (h^2 / (c (1-c)) + (K-1) s^2).
//
// h is half the range of rewards. A centred reward squared is at most h^2, exactly that for rewards of 0 and 1: a
// treated decision has variance h^2/(1-c)^2 with probability 1-c, one of control h^2/c^2 with probability c. A
// person's decisions in one report, at most K, are alike; but each has its own coin, so what two of them add to the
// variance is not how alike their rewards are, only how alike what they gain from the policy: at most s^2, the
// variance over people of the gain. That number cannot be read off public sums; LiftSpread times the range is assumed
// to bound s. Reports are of different people and independent of each other. People who are drawn in several epochs
// add nothing, if the lift is that of all people that panels are drawn from: panels are drawn independently.
//
// Range. The means lie in the range of rewards and noise can put their estimates outside of it, each by itself; there
// the nearest end is no farther from the mean. What is shown as the lift is the difference of the two that are shown,
// and where the interval does not hold that it is stretched to do so, which makes no coverage smaller. Sums of cohorts
// (Add) are of what was estimated, not of what is shown.
func NewLift(rewards Aggregate, family family.Response, control float64) (Lift, error) {
	want := statistic.Statistic{Kind: statistic.Rewards, Family: family, ArmDim: 1}
	if !(control > 0 && control < 1) {
		return Lift{}, fmt.Errorf("%w: no lift over a control group of share %v", ErrAggregate, control)
	}
	decisions := max(1, rewards.Decisions)
	if err := CheckAggregates([]Aggregate{rewards}, []statistic.Statistic{want}, rewards.Reports,
		decisions); err != nil {
		return Lift{}, err
	}
	middle, half := statistic.RewardsCentre(family)
	scaled := func(i int, by float64) part { return part{rewards.Sum[i] / by, rewards.Variance[i] / (by * by)} }
	alike := LiftSpread * 2 * half
	l := Lift{Reports: rewards.Reports, middle: middle, half: half, share: control,
		most:    float64(rewards.Reports) * float64(decisions),
		treated: scaled(0, 1-control), control: scaled(1, control), rewarded: scaled(2, math.Sqrt(3)*half)}
	people := math.Max(0, math.Min(l.rewarded.value, l.most))
	l.sampling = people * (half*half/(control*(1-control)) + float64(decisions-1)*alike*alike)
	return l.estimated(), nil
}

// Add is the lift over the cohorts of both, each rewarded decision counting once.
func (l Lift) Add(other Lift) Lift {
	if l.Reports == 0 {
		return other
	}
	if other.Reports == 0 {
		return l
	}
	l.Reports += other.Reports
	l.most, l.sampling = l.most+other.most, l.sampling+other.sampling
	l.treated, l.control = l.treated.add(other.treated), l.control.add(other.control)
	l.rewarded = l.rewarded.add(other.rewarded)
	return l.estimated()
}

// estimated fills in what is shown.
func (l Lift) estimated() Lift {
	n, s := l.rewarded.value, l.treated.value-l.control.value
	variance := l.sampling + l.treated.noise + l.control.noise
	l.Decisions = math.Max(0, math.Min(n, l.most)) / float64(l.Reports)
	l.Treated, l.Control, l.Lift, l.Low, l.High = l.middle, l.middle, 0, -2*l.half, 2*l.half
	// (S - L N)^2 <= z^2 (V + L^2 noise): a L^2 - 2 b L + c <= 0 between two numbers if a > 0. Otherwise it cannot be
	// ruled out that there was no reward at all, and any lift is possible.
	z2 := LiftQuantile * LiftQuantile
	a, b, c := n*n-z2*l.rewarded.noise, s*n, s*s-z2*variance
	if !(n > 0 && a > 0) {
		return l
	}
	root := math.Sqrt(math.Max(0, b*b-a*c))
	within := func(x float64) float64 { return math.Max(-2*l.half, math.Min(x, 2*l.half)) }
	mean := func(x float64) float64 { return l.middle + math.Max(-l.half, math.Min(x/n, l.half)) }
	l.Treated, l.Control = mean(l.treated.value), mean(l.control.value)
	l.Lift = l.Treated - l.Control
	l.Low, l.High = math.Min(l.Lift, within((b-root)/a)), math.Max(l.Lift, within((b+root)/a))
	return l
}

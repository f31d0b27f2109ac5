package learner

import "math"

// ShareLevel is the probability below which Chance means that a control group has not the share that was announced.
// With a look after every epoch it is below one in 25 for a year of days: chance alone alarms at most once in so many
// deployments.
const ShareLevel = 1e-4

// Chance bounds the probability of sums like these, or farther off, if each rewarded decision is in the control group
// with the announced share, by a coin of its own, and rewards lie in their range: whatever these are. Below ShareLevel
// the comparison means nothing: coins fall otherwise than announced, rewards of one group are lost, or reports are made
// up.
//
// The sum of a group's centred rewards over its share has the mean of what all rewarded decisions would have brought,
// and so it lies within h times their number N but for chance. By how much it does not is bounded with Bernstein's
// inequality over the coins and the noise: each coin moves the sum by at most h/share, with variance h^2 (1/share - 1),
// and N with its noise is known to within 4 standard deviations. Four such bounds are looked at. What they cannot see:
// the sums hold no sizes, so that only rewards near an end of their range show a wrong share. If all are there, a group
// is seen to be too large; one that is too small is seen by the other being too large.
func (l Lift) Chance() float64 {
	if l.Reports == 0 {
		return 1
	}
	people := math.Max(0, math.Min(l.rewarded.value+4*math.Sqrt(l.rewarded.noise), l.most))
	worst := 1.0
	for _, group := range []struct {
		of    part
		share float64
	}{{l.treated, 1 - l.share}, {l.control, l.share}} {
		variance := group.of.noise + l.half*l.half*(l.rewarded.noise+people*(1/group.share-1))
		beyond := math.Abs(group.of.value) - l.half*l.rewarded.value
		if beyond > 0 {
			worst = math.Min(worst, 4*math.Exp(-beyond*beyond/(2*(variance+l.half/group.share*beyond/3))))
		}
	}
	return worst
}

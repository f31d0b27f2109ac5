package learner

import "math"

// DrawsPerPolicy is the number of draws that a policy of the practical profile announces: an arm is explored with a
// probability that is a multiple of 1/32. With 64 nothing changes beyond the noise of 20 seeds.
const DrawsPerPolicy = 32

// Spread is by how much the draws of a cohort's policy are spread, as a multiple of the standard deviations that the
// estimate will have after the cohort: PracticalConfig.Sampling times
//
//	w = sqrt(ln(1 + people after this cohort / people of it)).
//
// The factor makes early cohorts, whose mistakes affect many people, try more than late ones: an arm that is best with
// probability p is worth trying on m people while p times the number of people still to come exceeds m. Of the last
// cohort it is 0: everybody takes the arm that looks best. With a HalfLife what is learnt serves as many people as come
// before it is forgotten, whatever the horizon, so that exploration never ends. It is a function of the configuration,
// which must be resolved, and of numbers of people, and so is known before any device decides.
func (c Config) Spread(cohort, after int) float64 {
	p := c.Practical
	if p.HalfLife > 0 {
		after = max(1, int(math.Min(p.HalfLife/math.Ln2*float64(cohort), 1<<40)))
	}
	return math.Max(0, p.Sampling) * math.Sqrt(math.Log1p(float64(after)/float64(cohort)))
}

package estimate

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// Link is what the regressions of the linear papers need to know of a reward family on scores |z| <= radius: the mean,
// where rewards lie, and 0 < least <= mean' <= most.
type Link struct {
	family      family.Family
	mean        func(z float64) float64
	low, high   float64 // of rewards, which statistics clip to it
	least, most float64 // mu_nu and L_nu of the papers
	radius      float64
}

// NewLink reads the family of a setting.
func NewLink(s learn.Setting) (Link, error) {
	l := Link{family: s.Family, mean: s.Family.Mean, low: s.Family.MinReward(), high: s.Family.MaxReward(),
		most: s.Family.MaxVariance(s.Radius), radius: s.Radius}
	kappa := s.Kappa
	if kappa == 0 {
		kappa = learner.KappaBound(s.Family, s.Radius)
	}
	l.least = math.Min(1/kappa, l.most)
	if !(l.least > 0) || !convex.IsFinite(l.most) || !(l.low < l.high) || !convex.IsFinite(l.high-l.low) {
		return Link{},
			fmt.Errorf("estimate: the slope of family %s on scores up to %v is in [%v, %v], and rewards are in "+
				"[%v, %v]; the slope must be positive and all finite: choose a smaller radius", s.Family.Name(),
				s.Radius, l.least, l.most, l.low, l.high)
	}
	return l, nil
}

// kappa is the paper's kappa_nu.
func (l Link) kappa() float64 { return l.most / l.least }

// residual bounds |mean(z) - y| over scores |z| <= radius and rewards in range.
func (l Link) residual(radius float64) float64 {
	return math.Max(l.mean(radius)-l.low, l.high-l.mean(-radius))
}

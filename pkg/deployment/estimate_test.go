package deployment_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// The estimate is the announced one. Its intervals are there where a profile has them, narrow as cohorts come in, and
// what they are is said.
func TestEstimateHasIntervalsWhereThereAreSome(t *testing.T) {
	for profile, words := range map[glm.Profile]string{
		glm.Practical: "95 %", glm.Paper: "confidence set", glm.Joint: "no intervals",
	} {
		c := configuration(profile)
		c.Learner.Practical.Growth = 0 // the default, with which cohorts grow
		r := begin(t, c)
		if e := r.estimate(); e.Cohorts != 0 || !slices.Equal(e.Theta, []float64{0, 0}) || e.HalfWidth != nil ||
			e.Predicted != (deployment.Predicted{Least: 0.5, Neutral: 0.5, Most: 0.5}) {
			t.Errorf("%s: before the first cohort: %+v", profile, e)
		}
		var last deployment.Estimate
		for cohorts := 1; ; {
			a := r.announce()
			if a.Final {
				break
			}
			r.absorb(r.counts(a.Cohort.Size))
			if int(a.Round) < len(a.Plan.Rounds)-1 {
				continue
			}
			e := r.estimate()
			if e.Cohorts != cohorts || !strings.Contains(e.Interval, words) {
				t.Errorf("%s: %+v", profile, e)
			}
			if (e.HalfWidth != nil) != (profile != glm.Joint) || (e.Deviation != nil) != (profile == glm.Practical) {
				t.Errorf("%s: intervals %v, deviations %v", profile, e.HalfWidth, e.Deviation)
			}
			for i, s := range e.Deviation {
				if !(s > 0) || e.HalfWidth[i] != deployment.NormalQuantile*s || cohorts > 1 && s >= last.Deviation[i] {
					t.Errorf("cohort %d: deviation %v of coefficient %d, before %v", cohorts, s, i, last.Deviation)
				}
			}
			last = e
			cohorts++
		}
		if !slices.Equal(last.Theta, r.a.Policy.Theta) {
			t.Errorf("%s: the estimate is %v, announced is %v", profile, last.Theta, r.a.Policy.Theta)
		}
		p := last.Predicted
		if profile != glm.Joint && !(p.Least < 0.5 && p.Most > 0.5 && p.Least > 0) || p.Neutral != 0.5 {
			t.Errorf("%s: predicted %+v", profile, p)
		}
		last.Theta[0] = 100 // it is the caller's
		if r.estimate().Theta[0] == 100 {
			t.Error("an estimate shares the machine's memory")
		}
	}
}

// The paper's intervals are the last stage's confidence set, and those of the practical profile the covariance that
// caution asks for.
func TestIntervalsAreThoseOfThePolicy(t *testing.T) {
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		r := begin(t, configuration(profile))
		for {
			a := r.announce()
			r.absorb(r.counts(people))
			if int(a.Round) == len(a.Plan.Rounds)-1 {
				break
			}
		}
		a, e := r.announce(), r.estimate()
		stage := a.Policy.Scaling.Stage
		if profile == glm.Paper {
			stage = a.Policy.Stages[len(a.Policy.Stages)-1]
		}
		for i, got := range e.HalfWidth {
			axis := make([]float64, len(e.Theta))
			axis[i] = 1
			want := stage.HalfWidth(axis)
			if profile == glm.Practical {
				want = deployment.NormalQuantile * glm.Stage{Covariance: stage.Covariance, Width: 1}.HalfWidth(axis)
			}
			if !(got > want*(1-1e-12) && got < want*(1+1e-12)) {
				t.Errorf("%s: half width %v of coefficient %d, the policy's is %v", profile, got, i, want)
			}
		}
	}
}

// A linear model can predict rewards that nobody can have; what is shown stays within their range.
func TestPredictedRewardsAreRewards(t *testing.T) {
	c := configuration(glm.Practical)
	c.Learner.Family, c.Learner.Radius = family.NameLinear, 5
	r := begin(t, c)
	r.announce()
	counts := r.counts(people)
	for j := range counts.Releases[1].Ones { // of the gradient: as few as there can be
		counts.Releases[1].Ones[j] = 0
	}
	r.absorb(counts)
	e := r.estimate()
	if norm := math.Hypot(e.Theta[0], e.Theta[1]); norm <= 1 {
		t.Fatalf("the estimate's norm is %v: the test is blind", norm)
	}
	if want := (deployment.Predicted{Least: -1, Neutral: 0, Most: 1}); e.Predicted != want {
		t.Errorf("predicted %+v, want %+v", e.Predicted, want)
	}
}

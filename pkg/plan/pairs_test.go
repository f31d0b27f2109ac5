package plan_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// pairsStep asks so many people for arm and reward, in 5 dimensions.
func pairsStep(t testing.TB, people int) learner.Step {
	t.Helper()
	s, err := statistic.NewPair(family.Linear{}, 5)
	if err != nil {
		t.Fatal(err)
	}
	return learner.Step{
		Policy: glm.Policy{Family: family.NameLinear, MaxReward: 1, Dimension: 5, Radius: 1, Play: glm.PlayGreedy,
			Theta: make([]float64, 5)},
		Cohort: people, Statistics: [][]statistic.Statistic{{s}}, Shares: [][]float64{{1}},
	}
}

func pairsTerms(epsilon float64) plan.Terms {
	return plan.Terms{Channel: plan.Local, Epsilon: epsilon, Delta: 1e-6}
}

func pairsAnnounced(t testing.TB, epsilon float64, people int) *plan.Announcement {
	t.Helper()
	step := pairsStep(t, people)
	p, err := plan.Propose(step, pairsTerms(epsilon))
	if err != nil {
		t.Fatal(err)
	}
	return p.Announced(step)
}

// A plan of pairs keeps its epsilon for whoever sees one report: the guarantee counts the own noise of the device, and
// so does not change with the number of people, or of honest ones.
func TestAPlanOfPairsProtectsEveryReportByItself(t *testing.T) {
	for _, epsilon := range []float64{0.2, 1, 10} {
		a := pairsAnnounced(t, epsilon, 400)
		g, err := plan.Guarantee(a, 399)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := plan.Alone(a)
		if err != nil {
			t.Fatal(err)
		}
		r := a.Plan.Rounds[0].Releases[0]
		own, err := privacy.Certify(privacy.Release{Name: "pair", Shift: r.Shift * (1 + 1e-9),
			Noise: uint64(r.NoiseBits), Bias: r.Bias.Float(), TailDelta: a.Plan.TailDelta,
			Blocks: []privacy.Block{{Count: 6, Levels: math.Inf(1)}}})
		if err != nil {
			t.Fatal(err)
		}
		for name, of := range map[string]privacy.Guarantee{"together": g, "alone": alone, "own noise": own} {
			if eps := of.Epsilon(1e-6); !(eps <= epsilon) || eps < epsilon*0.9 {
				t.Errorf("epsilon %v, %s: the guarantee is %v", epsilon, name, eps)
			}
		}
	}
}

// Whatever an analyzer announces of pairs outside the channel local gives a device no guarantee and no encoder: neither
// with the noise of local, nor with that of servers, nor together with other releases or several decisions.
func TestPairsGiveNoGuaranteeElsewhere(t *testing.T) {
	gradient := plan.Release{Statistic: statistic.Gradient, Shift: 10, NoiseBits: 5000, Bias: protocol.BiasHalf}
	for name, change := range map[string]func(a *plan.Announcement){
		"shuffle": func(a *plan.Announcement) { a.Plan.Channel = plan.Shuffle },
		"shares":  func(a *plan.Announcement) { a.Plan.Channel = plan.Shares },
		"central": func(a *plan.Announcement) {
			a.Plan.Channel = plan.Central
			r := &a.Plan.Rounds[0].Releases[0]
			r.AnalyzerNoise, r.NoiseBits, a.Encodings[0].NoiseBits = 1e6, 0, 0
		},
		"servers' noise": func(a *plan.Announcement) { a.Plan.Rounds[0].Releases[0].AnalyzerNoise = 1 },
		"a second release": func(a *plan.Announcement) {
			a.Plan.Rounds[0].Releases = append(a.Plan.Rounds[0].Releases, gradient)
		},
		"a second round": func(a *plan.Announcement) {
			a.Plan.Rounds = append(a.Plan.Rounds, plan.Round{Releases: []plan.Release{gradient}})
		},
		"several decisions": func(a *plan.Announcement) {
			a.Plan.Panel = &plan.Panel{Registered: a.Cohort.Size}
			a.Plan.Decisions, a.Plan.Records = 2, 1
		},
		"a curator":             func(a *plan.Announcement) { a.Plan.Curator = &plan.Curator{} },
		"more than counts hold": func(a *plan.Announcement) { a.Cohort.Size = plan.MaxEntries },
	} {
		a := pairsAnnounced(t, 1, 400)
		if _, err := plan.CheckRound(a); err != nil {
			t.Fatal(err)
		}
		change(a)
		if err := a.CheckPairs(); !errors.Is(err, plan.ErrPlan) {
			t.Errorf("%s: CheckPairs %v", name, err)
		}
		if g, err := plan.Guarantee(a, 0); !errors.Is(err, plan.ErrPlan) || g.Epsilon(1e-6) < math.Inf(1) {
			t.Errorf("%s: Guarantee %v, %v", name, g, err)
		}
		if g, err := plan.Alone(a); !errors.Is(err, plan.ErrPlan) || g.Epsilon(1e-6) < math.Inf(1) {
			t.Errorf("%s: Alone %v, %v", name, g, err)
		}
		if _, err := plan.Observers(a, 0); !errors.Is(err, plan.ErrPlan) {
			t.Errorf("%s: Observers: %v", name, err)
		}
		if _, err := plan.CheckRound(a); !errors.Is(err, plan.ErrPlan) {
			t.Errorf("%s: CheckRound: %v", name, err)
		}
	}
}

// An operator who asks for pairs in another channel is told why there are none.
func TestPairsAreProposedInLocalAlone(t *testing.T) {
	for _, c := range plan.Channels() {
		terms := pairsTerms(1)
		terms.Channel = c
		_, err := plan.Propose(pairsStep(t, 400), terms)
		if c == plan.Local {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.Is(err, plan.ErrPlan) || !strings.Contains(err.Error(),
			"only sums may be published") {
			t.Errorf("%s: %v", c, err)
		}
	}
	if _, err := plan.Propose(pairsStep(t, plan.MaxEntries), pairsTerms(1)); !errors.Is(err, plan.ErrPlan) {
		t.Errorf("a cohort that counts cannot hold: %v", err)
	}
}

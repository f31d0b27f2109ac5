package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// winnersFrom is the number of environments and of private algorithms over one channel from which the picture of
// winners is drawn.
const winnersFrom = 3

// winners draws, for each kind of trust, the practical profile and the best other private learner in every environment:
// the mean regret at the first epsilon over that of uniform play. It is empty where there are too few environments, no
// uniform play, or no channel with several learners.
func winners(rows []Row, environments []string) chart.Chart {
	c := chart.Chart{X: "environment", Y: "regret over that of uniform play", LogY: true}
	uniform, most, first := map[string]float64{}, map[plan.Channel]map[string]bool{}, 0.0
	for _, r := range rows {
		switch {
		case r.Algorithm == KindUniform:
			uniform[r.Environment] = r.Regret
		case r.Epsilon != nil && r.Trust != "":
			if first == 0 {
				first = *r.Epsilon
			}
			if most[r.Trust] == nil {
				most[r.Trust] = map[string]bool{}
			}
			most[r.Trust][r.Algorithm] = true
		}
	}
	several := 0
	for _, names := range most {
		several = max(several, len(names))
	}
	if len(environments) < winnersFrom || several < winnersFrom {
		return c
	}
	c.Places = places(environments)
	c.Subtitle = fmt.Sprintf("ε = %g; dashed: the best other learner of each environment", first)
	for k, trust := range []plan.Channel{plan.Shuffle, plan.Shares, plan.Local, plan.Central} {
		own := chart.Series{Name: "riffle, " + string(trust), Dots: true, Colour: chart.Colour(k)}
		best := chart.Series{Name: "best other, " + string(trust), Dots: true, Dashed: true, Colour: chart.Colour(k)}
		for i, name := range environments {
			riffle, other := math.Inf(1), math.Inf(1)
			for _, r := range rows {
				if r.Trust != trust || r.Environment != name || r.Epsilon == nil || *r.Epsilon != first {
					continue
				}
				if strings.HasPrefix(r.Algorithm, KindRiffle) {
					riffle = math.Min(riffle, r.Regret)
				} else {
					other = math.Min(other, r.Regret)
				}
			}
			for _, s := range []struct {
				to *chart.Series
				y  float64
			}{{&own, riffle}, {&best, other}} {
				if y := s.y / uniform[name]; y > 0 && !math.IsInf(y, 0) {
					s.to.X, s.to.Y = append(s.to.X, float64(i+1)), append(s.to.Y, y)
				}
			}
		}
		for _, s := range []chart.Series{own, best} {
			if len(s.X) == len(environments) {
				c.Series = append(c.Series, s)
			}
		}
	}
	return c
}

// placeNames are short names of environments, by the first word of their labels.
var placeNames = map[string]string{environment.Ball: "fresh arms", environment.Fixed: "one arm set",
	environment.Adult: "census", environment.Adversarial: "adversary"}

// places names environments by a word or two, and by a number where that is not one's own.
func places(environments []string) []string {
	var out []string
	for i, label := range environments {
		kind, _, _ := strings.Cut(label, " ")
		name := cmp.Or(placeNames[kind], kind)
		if slices.ContainsFunc(environments, func(s string) bool {
			other, _, _ := strings.Cut(s, " ")
			return s != label && other == kind
		}) {
			name = fmt.Sprintf("%d %s", i+1, name)
		}
		out = append(out, name)
	}
	return out
}

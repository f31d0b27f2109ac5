package plan

import (
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// A round that protects less than the one before is counted as what it is, whichever number makes the difference:
// rounds with the same certificate are certified once.
func TestEachRoundCountsItsOwnReleases(t *testing.T) {
	step, p := severalRounds(t)
	g, err := Guarantee(announce(t, step, p), 0)
	if err != nil {
		t.Fatal(err)
	}
	last := len(p.Plan.Rounds) - 1
	for name, weaken := range map[string]func(*Release){
		"a larger shift":   func(r *Release) { r.Shift *= 1.1 },
		"fewer noise bits": func(r *Release) { r.NoiseBits-- },
		"a smaller bias":   func(r *Release) { r.Bias /= 4 },
	} {
		for _, round := range []int{1, last} {
			a := announce(t, step, p).Clone()
			weaken(&a.Plan.Rounds[round].Releases[0])
			if weaker, err := Guarantee(a, 0); err != nil || !(weaker.Mu > g.Mu*(1+1e-4)) {
				t.Errorf("%s in round %d of %d: mu %v, without it %v, %v", name, round, last, weaker.Mu, g.Mu, err)
			}
		}
	}
	a := announce(t, step, p).Clone()
	a.Plan.Rounds[last].Releases[0].ShufflerNoise = MaxServerNoise + 1
	if _, err := Guarantee(a, 0); !errors.Is(err, ErrPlan) {
		t.Errorf("more noise of a server than there can be: %v", err)
	}
}

// A plan of very many releases takes no longer than its few different ones, and one with many different ones, hours of
// certificates, is refused: an analyzer cannot keep devices busy.
func TestManyReleasesAreCertifiedInNoTime(t *testing.T) {
	step, p := severalRounds(t)
	for name, c := range map[string]struct {
		rounds, releases int
		refused          bool
	}{
		"rounds": {1 << 10, MaxDifferent, false}, "different rounds": {1 << 10, MaxDifferent + 1, true},
		"releases of one round": {1, MaxDifferent + 1, true},
	} {
		a := announce(t, step, p).Clone()
		gradient := a.Plan.Rounds[0].Releases[0]
		a.Plan.Rounds = nil
		for range c.rounds {
			var round Round
			for i := range c.releases {
				r := gradient
				r.Shift *= 1 - float64(i)*1e-6
				round.Releases = append(round.Releases, r)
			}
			a.Plan.Rounds = append(a.Plan.Rounds, round)
		}
		g, err := Guarantee(a, 0)
		refused := errors.Is(err, ErrPlan)
		if refused != c.refused || !refused && (err != nil || !(g.Mu < math.Inf(1))) {
			t.Errorf("%s: mu %v, %v", name, g.Mu, err)
		}
	}
}

// The same holds of a round whose first two releases are certified jointly, with very many beside them.
func TestManyReleasesAreNotCertifiedJointly(t *testing.T) {
	step := stepAt(t, learner.Config{Dimension: 2, Horizon: 5000}, 500, 0)
	p, err := Propose(step, Terms{Epsilon: 1, Delta: 1e-6, MaxMessages: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		beside  int
		refused bool
	}{{MaxDifferent - 2, false}, {MaxDifferent - 1, true}} {
		a := p.Announced(step).Clone()
		round, gradient := &a.Plan.Rounds[0], a.Encodings[1]
		for i := range c.beside {
			r := round.Releases[1]
			r.Statistic, r.Shift, r.NoiseBits = statistic.Rewards, 4, r.NoiseBits+uint32(i)+1
			e := protocol.Encoding{Scale: 1, NoiseBits: r.NoiseBits, Bias: r.Bias}
			for range 3 {
				e.Coordinates = append(e.Coordinates, gradient.Coordinates[0])
			}
			round.Releases, a.Encodings = append(round.Releases, r), append(a.Encodings, e)
		}
		if _, err := Guarantee(a, 0); errors.Is(err, ErrPlan) != c.refused || !c.refused && err != nil {
			t.Errorf("%d releases beside the first two: %v", c.beside, err)
		}
	}
}

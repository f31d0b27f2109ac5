package replay

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// No row judges a run that it taught: the last policy stays the same if all rows that judge the run have other rewards,
// and changes if the others have. Each row judges one run of a round.
func TestNoRowJudgesWhatItTaught(t *testing.T) {
	draw, log := rand.New(rand.NewPCG(31, 4)), []decisions.Decision{}
	for range 900 {
		log = append(log, decisions.Decision{Arms: [][]float64{{1, 0}, {0, 1}}, Arm: draw.IntN(2), Propensity: 0.5,
			Reward: float64(draw.IntN(2))})
	}
	r, _, err := prepare(log, Options{Learner: learner.Config{Family: "logistic", MaxReward: 1, Dimension: 2},
		Epsilon: 1, Delta: 1e-6, Channels: []plan.Channel{plan.Central}})
	if err == nil {
		err = r.rehearse()
	}
	if err != nil {
		t.Fatal(err)
	}
	fold, judged := r.o.folds(0), make([]int, len(log))
	last := func(out int, flipped func(i int) bool) []float64 {
		t.Helper()
		whole := r.log
		defer func() { r.log = whole }()
		r.log = slices.Clone(whole)
		for i := range r.log {
			if flipped(i) {
				r.log[i].Reward = 1 - r.log[i].Reward
			}
		}
		_, p, err := r.run(play.Exact, 0, fold, out)
		if err != nil {
			t.Fatal(err)
		}
		return p.Theta
	}
	for out := range folds {
		path, policy, err := r.run(play.Exact, 0, fold, out)
		if err != nil {
			t.Fatal(err)
		}
		var into round
		for k := range into.scores {
			into.scores[k], into.played[k] = make([]float64, len(log)), make([]float64, len(log))
		}
		if err := r.score(&into, path, policy, 0, fold, out); err != nil {
			t.Fatal(err)
		}
		judges := func(i int) bool { return into.scores[0][i] != 0 }
		for i := range judged {
			if judges(i) {
				judged[i]++
			}
		}
		if p := last(out, judges); !reflect.DeepEqual(p, policy.Theta) {
			t.Errorf("run %d learns %v, and %v if its judges have other rewards", out, policy.Theta, p)
		}
		if p := last(out, func(i int) bool { return !judges(i) }); reflect.DeepEqual(p, policy.Theta) {
			t.Errorf("run %d learns %v whatever the rewards of those who do not judge it", out, p)
		}
	}
	if i := slices.IndexFunc(judged, func(n int) bool { return n != 1 }); i >= 0 {
		t.Errorf("row %d judges %d runs", i, judged[i])
	}
}

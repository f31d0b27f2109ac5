package replay_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/evaluate/replay"
	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// options replays logs of newWorld's people in one channel.
func options(dimension int) replay.Options {
	return replay.Options{Learner: learner.Config{Family: "logistic", MaxReward: 1, Dimension: dimension}, Epsilon: 1,
		Delta: 1e-6, Channels: []plan.Channel{plan.Central}, Rounds: 5}
}

// A log that cannot play what the learner plays is refused, with the reason: arms that had no chance, though no
// propensity is written that shows it; propensities that are too large or too small; too few people.
func TestLogsWithoutOverlapAreRefused(t *testing.T) {
	w := newWorld(t, "logistic", 3, 2, 3)
	for name, c := range map[string]struct {
		rows  int
		spoil func(d *decisions.Decision)
		says  string
	}{
		"certain":     {600, func(d *decisions.Decision) { d.Propensity = 1 }, "could not be"},
		"never arm 1": {1200, func(d *decisions.Decision) { d.Arm = 0 }, "arm 1, counted from 0, was never"},
		"few of arm 1": {1200, func(d *decisions.Decision) {
			if d.Arm == 1 && d.Reward == 0 {
				d.Arm = 0
			}
		}, "arm 1, counted from 0, was played in"},
		"too small":       {1200, func(d *decisions.Decision) { d.Propensity = 0.25 }, "too small"},
		"too large":       {1200, func(d *decisions.Decision) { d.Propensity = 0.8 }, "too large"},
		"too few":         {200, func(*decisions.Decision) {}, "two of the smallest cohorts"},
		"rare":            {3000, func(d *decisions.Decision) { d.Propensity = 0.01 }, "1 row in 100"},
		"nothing":         {0, func(*decisions.Decision) {}, "1 row"},
		"beyond the rows": {1200, func(d *decisions.Decision) { d.Arms = append(d.Arms, d.Arms[0], d.Arms[1]) }, ""},
		"one arm": {1200, func(d *decisions.Decision) {
			*d = decisions.Decision{Arms: d.Arms[:1], Propensity: 1}
		}, "nothing to learn"},
	} {
		log := w.log(c.rows, rand.NewChaCha8([32]byte{3}))
		for i := range log {
			c.spoil(&log[i])
		}
		_, err := replay.Run(context.Background(), log, options(3))
		refused := errors.Is(err, evaluate.ErrOverlap) || errors.Is(err, replay.ErrReplay)
		if !refused || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

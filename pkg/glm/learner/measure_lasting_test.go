package learner_test

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm/learner"
)

// measureLasting prints the regret of a decision over 24 panels of 300 of 600 people, in 16 runs, and over the last 16
// of them, by half-life and alarm: where nothing changes, where the parameter drifts, and where it becomes another at
// panel 12. On two busy cores it takes more than ten minutes (-timeout 30m).
func measureLasting(t *testing.T) {
	const epochs, seeds = 24, 16
	for _, world := range []struct {
		name          string
		mu            float64
		decisions     int
		drift, active float64
		change        int
	}{
		{"constant, epsilon 4", 0.8, 1, 0, 1, 0}, {"constant, epsilon 1", 0.25, 1, 0, 1, 0},
		{"slow drift, epsilon 4", 0.8, 1, 0.1, 1, 0}, {"slow drift, epsilon 1", 0.25, 1, 0.1, 1, 0},
		{"fast drift, epsilon 4", 0.8, 1, 0.3, 1, 0}, {"fast drift, 7 decisions", 0.8, 7, 0.2, 0.7, 0},
		{"abrupt, epsilon 4", 0.8, 1, 0, 1, 12}, {"abrupt, epsilon 1", 0.25, 1, 0, 1, 12},
		{"abrupt, 7 decisions", 0.8, 7, 0, 0.7, 12},
	} {
		for _, p := range []learner.PracticalConfig{{}, {HalfLife: 2}, {HalfLife: 4}, {HalfLife: 8}, {HalfLife: 16},
			{Alarm: 0.001}, {HalfLife: 8, Alarm: 0.01}, {HalfLife: 8, Alarm: 0.001}} {
			p.Panel, p.Decisions = 300, world.decisions
			w := returning{cfg: learner.Config{Dimension: 5, Radius: 3, Horizon: 1000000, Practical: p}, mu: world.mu,
				people: 600,
				active: world.active, arms: 10, epochs: epochs, drift: world.drift, change: world.change}
			var all, late, square float64
			alarms := 0
			for seed := range uint64(seeds) {
				o, one := w.run(t, 700+seed), 0.0
				for e, v := range o.regret {
					all += v / epochs / seeds
					if e >= epochs-16 {
						one += v / 16
					}
				}
				late, square = late+one/seeds, square+one*one/seeds
				for _, v := range o.unchanged {
					if v > 0 && v < p.Alarm {
						alarms++
					}
				}
			}
			t.Logf("%-24s half-life %2g, alarm %-5g: regret %.4f, of the last 16 panels %.4f (standard error %.4f), "+
				"%d alarms in %d runs", world.name, p.HalfLife, p.Alarm, all, late, math.Sqrt((square-late*late)/seeds),
				alarms, seeds)
		}
	}
}

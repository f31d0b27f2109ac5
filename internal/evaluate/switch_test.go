package evaluate_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/population/decisions"
)

// SWITCH leaves large weights to the model. Where the model is right and a twentieth of the target's play has 50 times
// the weight of the rest, it has at most half of the doubly robust estimate's mean squared error; a target whose
// weights are alike is valued doubly robust. (Seeds are fixed.)
func TestSwitchGivesUpLargeWeights(t *testing.T) {
	const logs, rows, truth = 100, 300, 0.7
	always := func(arms [][]float64) ([]float64, error) { return []float64{0, 1}, nil }
	src := rand.New(rand.NewPCG(29, 3))
	var robust, switched float64
	compared, gave := 0, 0
	for range logs {
		var log []decisions.Decision
		for i := range rows {
			d := decisions.Decision{Arms: [][]float64{{1, 0}, {0, 1}}, Propensity: 0.5}
			if i%20 == 0 {
				d.Propensity = 0.01
			}
			if src.Float64() < d.Propensity {
				d.Arm = 1
			} else {
				d.Propensity = 1 - d.Propensity
			}
			if src.Float64() < []float64{0.3, truth}[d.Arm] {
				d.Reward = 1
			}
			log = append(log, d)
		}
		r, err := evaluate.Evaluate(log, always, evaluate.Options{Family: newFamily(t)})
		if errors.Is(err, evaluate.ErrOverlap) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		compared++
		robust += (r.DoublyRobust.Value - truth) * (r.DoublyRobust.Value - truth)
		switched += (r.Switch.Value - truth) * (r.Switch.Value - truth)
		if r.Switch.Left > 0 {
			gave++
			if r.Switch.Interval != nil {
				t.Errorf("what is left to the model has an interval: %+v", r.Switch)
			}
		} else if math.Abs(r.Switch.Value-r.DoublyRobust.Value) > 1e-12 {
			t.Errorf("without giving up weights SWITCH is %v, doubly robust %v", r.Switch.Value, r.DoublyRobust.Value)
		}
		even, err := evaluate.Evaluate(log, evaluate.Greedy([]float64{1, 0}), evaluate.Options{Family: newFamily(t)})
		if err == nil && (even.Switch.Value != even.DoublyRobust.Value || even.Switch.Left != 0) {
			t.Errorf("weights of 1 and 2: %+v", even.Switch)
		}
	}
	t.Logf("of %d logs SWITCH gave up weights in %d; squared errors are %.4f and %.4f", compared, gave,
		switched/float64(compared), robust/float64(compared))
	if compared < logs/2 || switched > robust/2 {
		t.Errorf("squared errors %v of SWITCH and %v doubly robust", switched, robust)
	}
}

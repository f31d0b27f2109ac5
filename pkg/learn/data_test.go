package learn_test

import (
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/learn"
)

// A simulation gets the arm and the tag that a device gets of the same policy, and its errors.
func TestDataDecidesAsDevicesDo(t *testing.T) {
	p := learn.Data{Policy: glm.Policy{Profile: glm.Practical, Family: "linear", MaxReward: 1, Dimension: 2, Radius: 1,
		Theta: []float64{1, 0}, Play: glm.PlayOptimistic,
		Criterion: &glm.Criterion{Covariance: symmetric.Packed{1, 0, 1}, Threshold: 0.5},
		Optimism:  &glm.Stage{Theta: []float64{1, 0}, Covariance: symmetric.Packed{1, 0, 1}}}}
	for _, c := range []struct {
		arms [][]float64
		want learn.Choice
	}{
		{[][]float64{{0.2, 0}, {0, 0.9}}, learn.Choice{Arm: 1, Propensity: 1, Tag: learn.Explored}},
		{[][]float64{{0, 0.5}, {0.2, 0}}, learn.Choice{Arm: 1, Propensity: 1}},
	} {
		if got, err := p.Decide(c.arms, nil); err != nil || got != c.want {
			t.Errorf("%v: %+v, %v, want %+v", c.arms, got, err, c.want)
		}
	}
	if _, err := p.Decide([][]float64{{1}}, nil); !errors.Is(err, glm.ErrBadArm) {
		t.Errorf("an arm of the wrong dimension: %v", err)
	}
}

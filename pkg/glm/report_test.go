package glm_test

import (
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
)

// A report of more decisions than its plan allows is none: their sum, divided by the most, would leave the bounds. As many
// as the plan allows are one.
func TestAReportHoldsNoMoreThanItsDecisions(t *testing.T) {
	s, err := glm.NewRewards(glm.Logistic{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	record := glm.Record{Arm: []float64{1, 0}, Reward: 1}
	if v, err := s.Report(nil, []glm.Record{record, record, record}, 2); !errors.Is(err, glm.ErrDimension) || v != nil {
		t.Errorf("three decisions in a report of two: %v, %v", v, err)
	}
	if v, err := s.Report(nil, []glm.Record{record, record}, 2); err != nil || v[0] != 0.5 {
		t.Errorf("two decisions in a report of two: %v, %v", v, err)
	}
}

package glm_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

func structured() *glm.Policy {
	return &glm.Policy{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 4, Radius: 3,
		Structure: structure.Options(2, 2), Theta: make([]float64, 4), Play: glm.PlayGreedy}
}

func TestArmsThatDoNotFitTheStructureAreRefused(t *testing.T) {
	src := rand.NewChaCha8([32]byte{1})
	fits, misfit := []float64{0, 0, 0.5, 0.5}, []float64{0, 0.5, 0.5, 0}
	_, err := structured().Decide([][]float64{fits, misfit}, src)
	if !errors.Is(err, glm.ErrBadArm) || !strings.Contains(err.Error(), "arm 1") {
		t.Errorf("an arm in two runs: %v", err)
	}
	// Not even where it is not played, or scaled down first.
	if _, err := structured().DecideFor([][]float64{fits, misfit}, glm.Choice{Excluded: []int{1}}, src); !errors.Is(err,
		glm.ErrBadArm) {
		t.Errorf("an arm in two runs that is excluded: %v", err)
	}
	if _, err := structured().Decide([][]float64{fits, {0, 5, 5, 0}}, src); !errors.Is(err, glm.ErrBadArm) {
		t.Errorf("a long arm in two runs: %v", err)
	}
	if d, err := structured().Decide([][]float64{fits, {0.1, 0, 0, 0}}, src); err != nil || d.Arm != 0 {
		t.Errorf("arms that fit: %+v, %v", d, err)
	}
	any := structured()
	any.Structure = nil
	if _, err := any.Decide([][]float64{fits, misfit}, src); err != nil {
		t.Errorf("any arm: %v", err)
	}
}

func TestPoliciesOfAWrongStructure(t *testing.T) {
	p := structured()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	p.Structure = structure.Options(3, 2)
	if err := p.Validate(); !errors.Is(err, glm.ErrPolicy) || !errors.Is(err, structure.ErrInvalid) {
		t.Errorf("six coordinates of four: %v", err)
	}
	arms := [][]float64{make([]float64, 4)}
	if _, err := p.Decide(arms, rand.NewChaCha8([32]byte{1})); !errors.Is(err, glm.ErrPolicy) {
		t.Errorf("a decision of it: %v", err)
	}
}

func TestAStructureIsPartOfAPolicy(t *testing.T) {
	p := structured()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back glm.Policy
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(&back, p) {
		t.Errorf("%+v, %v", back, err)
	}
	clone := p.Clone()
	clone.Structure[0].Count = 4
	if p.Structure[0].Count != 2 {
		t.Error("a clone shares its structure")
	}
}

package experiment

import (
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// A learner is told what the environment declares of arms, unless the algorithm says otherwise.
func TestLearnersAreToldTheStructure(t *testing.T) {
	info := population.Info{Dim: 6, Structure: structure.Options(2, 3)}
	own := structure.Options(3, 2)
	for name, c := range map[string]struct {
		spec AlgorithmSpec
		want structure.Structure
	}{
		"told":    {AlgorithmSpec{}, info.Structure},
		"any arm": {AlgorithmSpec{AnyArm: true}, nil},
		"its own": {AlgorithmSpec{Learner: learner.Config{Structure: own}}, own},
	} {
		if got := (job{Algorithm: c.spec}).config(info).Structure; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

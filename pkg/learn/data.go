package learn

import (
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Explored is the Tag of a record of a person whom the criterion of optimistic play had explore (Decision.Explored).
const Explored = 1

// Data is a policy that an announcement can carry. A simulation follows it as the devices of a deployment do.
type Data struct{ glm.Policy }

// Decide implements Policy. The choice's tag is Explored or 0.
func (d Data) Decide(arms [][]float64, src protocol.Source) (Choice, error) {
	made, err := d.Policy.Decide(arms, src)
	choice := Choice{Arm: made.Arm, Propensity: made.Propensity}
	if made.Explored {
		choice.Tag = Explored
	}
	return choice, err
}

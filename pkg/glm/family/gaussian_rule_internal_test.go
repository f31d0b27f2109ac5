package family

import (
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
)

// The rule that is written down is that of the library, to the last bit.
func TestGaussianRuleIsThatOfTheLibrary(t *testing.T) {
	want := gaussianRule
	quad.Legendre{}.FixedLocations(want.node[:], want.weight[:], 0, 1)
	if want != gaussianRule {
		t.Error("a node or weight differs")
	}
}

package wire_test

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// Every refusal has words for people, of its own.
func TestEveryRefusalHasAMeaning(t *testing.T) {
	seen := map[string]wire.Refusal{wire.NoRefusal.Means(): wire.NoRefusal}
	for _, r := range wire.Refusals() {
		if other, ok := seen[r.Means()]; ok {
			t.Errorf("%v and %v have the same words: %s", r, other, r.Means())
		}
		seen[r.Means()] = r
	}
}

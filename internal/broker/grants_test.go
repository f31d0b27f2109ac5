package broker_test

import (
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
)

// An ingress may do at the broker what a host may, and nothing else: together with a host it learns no more.
func TestAnIngressHasTheRightsOfAHost(t *testing.T) {
	t.Parallel()
	var of [2][]broker.Grant
	for i, r := range []bus.Role{bus.Randomizer, bus.Ingress} {
		for _, g := range broker.Grants() {
			if g.Role == r {
				g.Role = ""
				of[i] = append(of[i], g)
			}
		}
	}
	if len(of[0]) == 0 || !slices.Equal(of[0], of[1]) {
		t.Errorf("an ingress may %+v, a host %+v", of[1], of[0])
	}
}

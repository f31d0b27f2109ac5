package baseline

import (
	"github.com/riffle-dp/riffle/internal/lab/simulate"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// NewLocalDP is Riffle's learner under local differential privacy: every device perturbs its own statistics with the Gaussian mechanism
// at the same (epsilon, delta). The learner knows the larger noise and weighs by it.
func NewLocalDP(cfg glm.Config, epsilon, delta float64, devices, noise protocol.Source) (*simulate.Batched, error) {
	return simulate.NewBatched(cfg, simulate.Local(epsilon, delta), devices, noise)
}

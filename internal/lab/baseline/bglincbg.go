package baseline

import (
	"github.com/riffle-dp/riffle/internal/lab/simulate"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// NewBGLinCBG is the batched learner without noise: Riffle's own code with exact sums. In the paper profile it is close to B-GLinCB of
// Sawarni, Das, Barman and Sinha, "Generalized linear bandits with limited adaptivity" (2024), with G-optimal designs in every batch
// in place of distributional ones and whole batches for estimation; hence the letter at the end of its name.
func NewBGLinCBG(cfg glm.Config, devices protocol.Source) (*simulate.Batched, error) {
	return simulate.NewBatched(cfg, simulate.Exact, devices, nil)
}

package program

import (
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
)

// entry is a program by its profile.
type entry struct {
	profile glm.Profile
	start   func(learn.Setting) (*learn.Learner, error)
	// variant and options are the defaults in deployments, where these are others than the algorithm's.
	variant string
	options func(horizon int) map[string]float64
}

// registry holds the programs that deployments run, all of glm.Programs. In a deployment a cohort waits for its
// rewards, and its release brings noise: the defaults ask fewer and larger questions than the papers do, and explore
// less than they need for their bounds, which say nothing at such sizes. They were chosen on 5000 people with rewards
// of -1 and 1 who have 10 fresh arms in 5 dimensions (regcb: 2), at epsilon 1 in shares, 4 seeds. Regret as a share of
// uniform play's, with the algorithm's own defaults first: elimination-reweighted .75 to .41, elimination-linear .70 to
// .37, squarecb .67 to .32, regcb .52 to .27. Online LinUCB over local learns nothing from so few at epsilon 1 (1.11 to
// .97, 10 seeds), and at epsilon 10, the paper's, .49 to .38; its combiner .98 to .95, and .41 to .37.
var registry = []entry{
	{profile: glm.LinUCB, start: bandit.LinUCB},
	{profile: glm.OnlineLinUCB, start: bandit.OnlineLinUCB, options: online},
	{profile: glm.OnlineLinUCBCombiner, start: bandit.Combiner, options: online},
	{profile: glm.EliminationReweighted, start: bandit.NewElimination, options: func(horizon int) map[string]float64 {
		return map[string]float64{bandit.FirstEpoch: twelfth(horizon), bandit.Exploit: 0.8,
			estimate.NormalizationSteps: 2, estimate.DescentBatches: 4}
	}},
	{profile: glm.EliminationLinear, start: bandit.NewLinearElimination, options: func(horizon int) map[string]float64 {
		return map[string]float64{bandit.FirstEpoch: twelfth(horizon), bandit.Exploit: 0.8,
			estimate.NormalizationSteps: 2}
	}},
	{profile: glm.SquareCB, start: bandit.SquareCBLocal, options: func(horizon int) map[string]float64 {
		return map[string]float64{"c_sq": 40, "first": max(32, twelfth(horizon)/2)}
	}},
	// Simulations have noise of pure epsilon by default, which no channel of a deployment has.
	{profile: glm.RegCB, start: bandit.RegCB, variant: estimate.LayeredGauss, options: func(int) map[string]float64 {
		return map[string]float64{bandit.Exploit: 0.8}
	}},
}

// online are those of Online LinUCB.
func online(horizon int) map[string]float64 {
	return map[string]float64{"debiased": 1, "batch": math.Max(1, math.Floor(float64(horizon)/20))}
}

// twelfth is a twelfth of the people, whole.
func twelfth(people int) float64 { return math.Floor(float64(people) / 12) }

// entryOf is the program of a profile.
func entryOf(p glm.Profile) (entry, error) {
	i := slices.IndexFunc(registry, func(e entry) bool { return e.profile == p })
	if i < 0 {
		return entry{}, fmt.Errorf("%w: the profile %q is no program", ErrRefused, p)
	}
	return registry[i], nil
}

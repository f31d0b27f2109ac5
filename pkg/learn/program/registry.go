package program

import (
	"fmt"
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
	variant string // the default in deployments
}

// registry holds the programs that deployments run.
var registry = []entry{
	{profile: glm.LinUCB, start: bandit.LinUCB},
	// Simulations have noise of pure epsilon by default, which no channel of a deployment has.
	{profile: glm.RegCB, start: bandit.RegCB, variant: estimate.LayeredGauss},
}

// entryOf is the program of a profile.
func entryOf(p glm.Profile) (entry, error) {
	i := slices.IndexFunc(registry, func(e entry) bool { return e.profile == p })
	if i < 0 {
		return entry{}, fmt.Errorf("%w: the profile %q is no program", ErrRefused, p)
	}
	return registry[i], nil
}

// Profiles are those that New knows.
func Profiles() (all []glm.Profile) {
	for _, e := range registry {
		all = append(all, e.profile)
	}
	return all
}

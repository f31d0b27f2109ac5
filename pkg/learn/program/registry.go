package program

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
)

// entry is a program by its profile.
type entry struct {
	profile glm.Profile
	start   func(learn.Setting) (*learn.Learner, error)
}

// registry holds the programs that deployments run.
var registry = []entry{
	{glm.LinUCB, bandit.LinUCB},
}

// starter is the program of a profile.
func starter(p glm.Profile) (func(learn.Setting) (*learn.Learner, error), error) {
	i := slices.IndexFunc(registry, func(e entry) bool { return e.profile == p })
	if i < 0 {
		return nil, fmt.Errorf("%w: the profile %q is no program", ErrRefused, p)
	}
	return registry[i].start, nil
}

// Profiles are those that New knows.
func Profiles() (all []glm.Profile) {
	for _, e := range registry {
		all = append(all, e.profile)
	}
	return all
}

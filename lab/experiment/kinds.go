package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// kind is an algorithm of a paper that runs as a learner of package learn.
type kind struct {
	trusts []plan.Channel // that it can run over, the default first; none: it has no privacy
	start  func(learn.Setting) (*learn.Learner, error)
	// oracleKappa says that the published experiments tell the algorithm the true kappa.
	oracleKappa bool
	// spread plays the algorithm in many trials and counts the rounds in which they reach all directions; see
	// spread.go.
	spread bool
	// pure are the variants whose guarantee has a delta of 0.
	pure []string
}

// learners are the kinds by name. The files kinds_*.go hold those of one paper each.
var learners = merge(glmKinds, linearKinds, improvedKinds, layeredKinds)

func merge(all ...map[string]kind) map[string]kind {
	out := map[string]kind{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// Learners are the names of the kinds that are learners of package learn, sorted.
func Learners() []string { return slices.Sorted(maps.Keys(learners)) }

// known are the names of all kinds, sorted.
func known() []string {
	return slices.Sorted(maps.Keys(merge(learners, func() map[string]kind {
		m := map[string]kind{}
		for _, k := range kinds {
			m[k] = kind{}
		}
		return m
	}())))
}

// makeLearner makes a job's algorithm of a kind of learners.
func (j job) makeLearner(k kind, e *environment.Environment, devices, noise protocol.Source) (play.Algorithm, error) {
	if k.spread {
		return j.spreading(k, e, devices, noise)
	}
	info := e.Info()
	s := learn.Setting{Family: e.Family, Dimension: info.Dim, Arms: info.Arms, Horizon: info.People,
		Radius: info.NormBound, Epsilon: j.Epsilon, Delta: j.Delta, Failure: j.Failure, Noise: noise,
		Variant: j.Algorithm.Variant, Options: j.Algorithm.Options}
	if f := j.Algorithm.Learner.Family; f != "" { // of the learner's model, which may be another than the rewards'
		family, err := family.New(f, cmp.Or(j.Algorithm.Learner.MaxReward, info.MaxReward))
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrExperiment, j.Algorithm.Name, err)
		}
		s.Family = family
	}
	s.Radius = cmp.Or(j.Algorithm.Learner.Radius, s.Radius)
	if k.oracleKappa {
		kappa, err := e.Kappa()
		if err != nil {
			return nil, err
		}
		s.Kappa = kappa
	}
	channel := &play.Channel{Trust: j.Algorithm.Trust, Epsilon: j.Epsilon, Delta: j.Delta, Noise: noise}
	if len(k.trusts) == 0 {
		channel.Trust, s.Epsilon = play.Clear, noiseFree
	}
	l, err := k.start(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrExperiment, j.Algorithm.Name, err)
	}
	return play.NewLearned(l, channel, devices), nil
}

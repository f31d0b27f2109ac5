package regression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/estimate"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Entry is an estimator with what it needs.
type Entry struct {
	// By is the estimator for each trust that it can run over.
	By map[plan.Channel]estimate.Estimator
	// Pure are the variants whose guarantee has a delta of 0.
	Pure []string
}

// Trusts are those of the entry, sorted.
func (e Entry) Trusts() []plan.Channel { return slices.Sorted(maps.Keys(e.By)) }

// over is an entry whose estimator asks for sums, which every one of the trusts gives.
func over(e estimate.Estimator, trusts ...plan.Channel) Entry {
	by := map[plan.Channel]estimate.Estimator{}
	for _, t := range trusts {
		by[t] = e
	}
	return Entry{By: by}
}

// entries are all estimators of the arena, one line each.
func entries() map[string]Entry {
	const clear, local, central, shuffle, shares = play.Clear, plan.Local, plan.Central, plan.Shuffle, plan.Shares
	type by = map[plan.Channel]estimate.Estimator
	return map[string]Entry{
		"zero":         over(zero, clear),
		"ridge":        over(estimate.Ridge, clear, local, central, shuffle, shares),
		"adaptive-ssp": over(estimate.AdaptiveSSP, clear, local, central, shuffle, shares),
		"dp-gd": {By: by{central: estimate.NoisyDescent, local: estimate.NoisyBatchDescent,
			shuffle: estimate.NoisyBatchDescent, shares: estimate.NoisyBatchDescent}},
		"improper": {By: by{central: estimate.ImproperJoint, local: estimate.ImproperLocal,
			shuffle: estimate.ImproperLocal, shares: estimate.ImproperLocal}},
		"layered": {By: by{clear: estimate.Layered, local: estimate.Layered, central: estimate.Layered,
			shuffle: estimate.Layered, shares: estimate.Layered}, Pure: []string{"", estimate.LayeredThirds}},
		"reweighted":        over(estimate.L1, clear, local, central, shuffle, shares),
		"reweighted-linear": over(estimate.ReweightedLinear, clear, local, central, shuffle, shares),
	}
}

// Estimators are the names of all estimators, sorted.
func Estimators() []string { return slices.Sorted(maps.Keys(entries())) }

// Lookup finds an entry.
func Lookup(name string) (Entry, error) {
	e, ok := entries()[name]
	if !ok {
		return e, fmt.Errorf("%w: no estimator is called %q; there are %s", ErrData, name,
			strings.Join(Estimators(), ", "))
	}
	return e, nil
}

// Find is the estimator of that name for a trust.
func Find(name string, trust plan.Channel) (estimate.Estimator, error) {
	e, err := Lookup(name)
	if err != nil {
		return nil, err
	}
	one, ok := e.By[trust]
	if !ok {
		return nil, fmt.Errorf("%w: %s runs over %v, not over %q", ErrData, name, e.Trusts(), trust)
	}
	return one, nil
}

// zero predicts 0 for everyone and asks no one: the line that an estimator must beat.
func zero(s learn.Setting, _ int, _ learn.Asker) (learn.Model, error) {
	return estimate.Linear{Stage: glm.Stage{Theta: make([]float64, s.Dimension)}}, nil
}

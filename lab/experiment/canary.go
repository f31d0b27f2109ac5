package experiment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/lab/environment"
)

// The horizons of a canary's runs: an algorithm has the first one that it can run with. They are as small as the
// learners allow.
var (
	canaryPeople     = []int{400, 1200} // two cohorts of the practical profile; a warm-up of the profile paper
	canaryLearners   = []int{4000}      // learners of package learn, most of which know nothing before
	canaryRegression = []int{20000}     // estimators, likewise
)

// canaryPanels is how many cohorts a canary's run of a cheap kind has where all have one size.
const canaryPanels = 8

// Canary is a digest that changes when the results of the experiment that comes with the program under this name do:
// one of what its file asks for, and of what short runs of the same learners give. It does not run the experiment:
// whatever shows only in runs that are longer than 400 to 4000 people (regressions: 20,000), or at other than the first
// epsilon, escapes it.
//
// The runs are one seed of each algorithm in the first environment, and in each other one of the first algorithm and of
// the batched learner without privacy, which is cheap: nothing is planned for it. Where cohorts have one size there are
// two, and eight of the cheap learner, so that a changed world shows. Of algorithms or environments that differ in the
// size of numbers alone, the first stands for all: the others run the same code, and the file's digest has their
// numbers. Finished runs are kept in the folder, and experiments share them.
//
// Floating point differs between architectures, and so do canaries.
func Canary(ctx context.Context, name, folder string) (string, error) {
	text, err := files.ReadFile("files/" + name + ".yaml")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrExperiment, err)
	}
	return canary(ctx, text, folder)
}

func canary(ctx context.Context, text []byte, folder string) (string, error) {
	var asked map[string]any
	if err := yaml.Unmarshal(text, &asked); err != nil {
		return "", fmt.Errorf("%w: not readable as YAML: %w", ErrExperiment, err)
	}
	for _, words := range []string{"title", "about", "paper"} {
		delete(asked, words)
	}
	all, err := Parse(text)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	out := json.NewEncoder(h)
	if err := out.Encode(asked); err != nil {
		return "", err
	}
	if all.Kind == KindBakeoff {
		all = all.inEnvironments()
	}
	short := all.shorten()
	rows := make([][]Row, len(short))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, one := range short {
		group.Go(func() (err error) {
			rows[i], err = one.shortest(ctx, folder)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	for _, r := range slices.Concat(rows...) {
		if err := out.Encode(r.findings()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// inEnvironments is a bake-off as an experiment of kind bandit in the environments of its worlds, but for files. The
// one of the fewest dimensions comes first, since all algorithms run there.
func (e *Experiment) inEnvironments() *Experiment {
	out := *e
	out.Kind, out.Worlds, out.Horizons = KindBandit, nil, canaryPeople
	for _, w := range e.Worlds {
		if w.Environment.Kind != environment.File {
			out.Environments = append(out.Environments, w.Environment)
		}
	}
	dimension := func(s environment.Spec) int {
		s, err := s.Resolve()
		if err != nil || s.Dimension == 0 { // a census has more than the smallest synthetic environments
			return math.MaxInt
		}
		return s.Dimension
	}
	slices.SortStableFunc(out.Environments, func(a, b environment.Spec) int {
		return cmp.Compare(dimension(a), dimension(b))
	})
	return &out
}

// cheap are the kinds that run in all environments.
var cheap = []string{KindBatched}

// shorten are experiments of one algorithm and one environment each, which run what this one runs.
func (e *Experiment) shorten() (all []Experiment) {
	add := func(world, algorithm int) {
		one := *e
		one.Algorithms = slices.Clone(e.Algorithms[algorithm : algorithm+1])
		if len(e.Data) > 0 {
			one.Data = e.Data[world : world+1]
		} else {
			one.Environments = slices.Clone(e.Environments[world : world+1])
		}
		all = append(all, one)
	}
	own := distinct(e.Algorithms)
	for _, a := range own {
		add(e.runsOn(a), a)
	}
	of := distinct(e.Environments)
	if len(e.Data) > 0 {
		of = distinct(e.Data)
	}
	for _, world := range of {
		for a := range e.Algorithms {
			everywhere := a == 0 || slices.Contains(cheap, e.Algorithms[a].Kind) && slices.Contains(own, a)
			if everywhere && world != e.runsOn(a) {
				add(world, a)
			}
		}
	}
	return all
}

// runsOn is the first environment that an algorithm runs on.
func (e *Experiment) runsOn(algorithm int) int {
	families := e.Algorithms[algorithm].Families
	return max(0, slices.IndexFunc(e.Environments, func(v environment.Spec) bool {
		return families == nil || slices.Contains(families, v.Family)
	}))
}

// distinct are the places of those that differ from all before them in more than a name and the size of numbers.
func distinct[T any](of []T) (places []int) {
	seen := map[string]bool{}
	for i, one := range of {
		text, err := json.Marshal(shape(one))
		if err != nil || !seen[string(text)] {
			places = append(places, i)
		}
		seen[string(text)] = true
	}
	return places
}

// shape is a value as JSON, with the signs of numbers in place of numbers, and without a name.
func shape(of any) any {
	text, err := json.Marshal(of)
	if err != nil {
		return nil
	}
	var loose any
	if err := json.Unmarshal(text, &loose); err != nil {
		return nil
	}
	var signs func(v any) any
	signs = func(v any) any {
		switch v := v.(type) {
		case float64:
			switch {
			case v > 0:
				return "+"
			case v < 0:
				return "-"
			}
			return "0"
		case []any:
			for i := range v {
				v[i] = signs(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = signs(v[k])
			}
		}
		return v
	}
	if fields, is := loose.(map[string]any); is {
		delete(fields, "name")
	}
	return signs(loose)
}

// shortest runs an experiment of one algorithm with one seed, the first epsilon and the fewest people that it can have.
func (e Experiment) shortest(ctx context.Context, folder string) (rows []Row, err error) {
	a := e.Algorithms[0]
	c := Changes{Seeds: 1, Epsilons: e.Epsilons}
	if a.Epsilons != nil {
		c.Epsilons = a.Epsilons
	}
	c.Epsilons = c.Epsilons[:min(1, len(c.Epsilons))]
	horizons := canaryPeople
	if k, is := learners[a.Kind]; e.Kind == KindRegression {
		horizons = canaryRegression
	} else if is && !k.spread { // many trials beside each other take long
		horizons = canaryLearners
	}
	for _, people := range horizons {
		one := e
		one.Algorithms = slices.Clone(e.Algorithms)
		if panel := &one.Algorithms[0].Learner.Practical.Panel; *panel > 0 {
			*panel = people / 2
			if slices.Contains(cheap, a.Kind) {
				if people < slices.Max(canaryPeople) { // too few for a changed world to show
					continue
				}
				*panel = people / canaryPanels
			}
		}
		c.Horizons = []int{people}
		if err = one.Change(c); err != nil {
			return nil, err
		}
		if rows, err = one.Run(ctx, Options{Folder: folder}); err == nil || ctx.Err() != nil {
			break
		}
	}
	return rows, err
}

// findings is what a run of one seed found.
func (r Row) findings() []any {
	out := []any{r.Algorithm, r.Environment, r.Horizon, r.Regret, r.Value, r.Final, r.Messages, r.Spread, r.Course}
	if r.Errors != nil {
		out = append(out, *r.Errors)
	}
	return out
}

// Package experiment compares algorithms. An experiment is a small file that names environments, algorithms, horizons,
// budgets and seeds; running it gives a table, charts, CSV and JSON. Finished runs are kept in the output folder, so
// that an interrupted experiment goes on where it stopped. Results are a function of the experiment and the program;
// running times are not measured.
package experiment

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/lab/regression"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// ErrExperiment wraps every reason to refuse an experiment.
var ErrExperiment = errors.New("experiment")

// Experiment is the content of an experiment file. Every algorithm runs on every environment, horizon and seed, and
// private ones with every epsilon.
type Experiment struct {
	Name         string             `json:"name"`           // letters, digits and dashes
	Kind         string             `json:"kind,omitempty"` // KindBandit (default), KindRegression or KindBakeoff
	Title        string             `json:"title"`
	About        string             `json:"about"` // its purpose, in a sentence or two
	Paper        string             `json:"paper"` // the paper that it repeats or compares, if any
	Environments []environment.Spec `json:"environments"`
	// Data replaces the environments in an experiment of KindRegression; Kind of its algorithms names an estimator.
	Data       []regression.Spec `json:"data"`
	Worlds     []World           `json:"worlds,omitempty"` // replace the environments in one of KindBakeoff
	Horizons   []int             `json:"horizons"`         // people; 0: all people of the data
	Epsilons   []float64         `json:"epsilons"`
	Delta      float64           `json:"delta"`   // of the privacy guarantee; default 1e-6
	Failure    float64           `json:"failure"` // of the baselines' confidence sets; default 0.02, as published
	Seeds      int               `json:"seeds"`
	FirstSeed  uint64            `json:"first_seed"` // default 1
	Algorithms []AlgorithmSpec   `json:"algorithms"`
}

// AlgorithmSpec describes one algorithm of an experiment.
type AlgorithmSpec struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // see the Kind constants; default Name
	// Epsilons, Horizons and Delta, if given, replace the experiment's for this algorithm.
	Epsilons []float64 `json:"epsilons"`
	Horizons []int     `json:"horizons"`
	Delta    float64   `json:"delta,omitempty"`
	// Families, if given, are those of the environments that the algorithm runs on.
	Families []string `json:"families,omitempty"`
	// MaxDimension, if not 0, is the most dimensions of a bake-off's worlds that the algorithm is run in: some take
	// hours in more.
	MaxDimension int `json:"max_dimension,omitempty"`
	// Learner changes the learner's configuration. Dimension, family, radius, horizon and budget come from the
	// environment and the experiment unless given.
	Learner learner.Config `json:"learner"`
	// AnyArm leaves out of Learner what the environment declares of arms, so that the releases are of any arm.
	AnyArm bool `json:"any_arm,omitempty"`
	// Anytime, if not 0, is the first horizon of simulate.Anytime, for kinds riffle and nonprivate-batched that do not
	// know the true one.
	Anytime int `json:"anytime,omitempty"`
	// Trust is the channel of the kind riffle; default shuffle. If it is given, the rows say what the channel costs.
	Trust plan.Channel `json:"trust,omitempty"`
	Terms TermChanges  `json:"terms"`
	// Variant and Options are those of learn.Setting, for the kinds of learners of package learn.
	Variant string             `json:"variant,omitempty"`
	Options map[string]float64 `json:"options,omitempty"`
}

// TermChanges replace some of plan.DefaultTermsFor the channel; nil keeps the default.
type TermChanges struct {
	MaxMessages   *int     `json:"max_messages,omitempty"`
	MaxShift      *float64 `json:"max_shift,omitempty"`
	DropOut       *float64 `json:"drop_out,omitempty"`
	Dishonest     *float64 `json:"dishonest,omitempty"`
	MinCohort     *int     `json:"min_cohort,omitempty"`
	VarianceRatio *float64 `json:"variance_ratio,omitempty"`
	NoiseBits     *uint32  `json:"noise_bits,omitempty"`
	ServerNoise   *float64 `json:"server_noise,omitempty"` // share of the noise that alone gives the guarantee
	DeviceNoise   *bool    `json:"device_noise,omitempty"`
}

// resolve returns the terms of a plan: the defaults with the changes. No report is planned to be dishonest, because all
// simulated people are honest.
func (t TermChanges) resolve(channel plan.Channel, epsilon, delta float64) plan.Terms {
	out := plan.DefaultTermsFor(channel)
	out.Epsilon, out.Delta, out.DishonestReports = epsilon, delta, 0
	change(&out.MaxMessages, t.MaxMessages)
	change(&out.MaxShift, t.MaxShift)
	change(&out.DropOut, t.DropOut)
	change(&out.Dishonest, t.Dishonest)
	change(&out.MinCohort, t.MinCohort)
	change(&out.VarianceRatio, t.VarianceRatio)
	change(&out.NoiseBits, t.NoiseBits)
	change(&out.ServerNoise, t.ServerNoise)
	if t.DeviceNoise != nil {
		out.NoDeviceNoise = !*t.DeviceNoise
	}
	return out
}

func change[T any](v *T, to *T) {
	if to != nil {
		*v = *to
	}
}

//go:embed files/*.yaml
var files embed.FS

// Names are the experiments that come with the program, sorted.
func Names() []string {
	entries, err := fs.ReadDir(files, "files")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Load finds an experiment that comes with the program by its name, or reads the file of that path.
func Load(name string) (*Experiment, error) {
	if slices.Contains(Names(), name) {
		text, err := files.ReadFile("files/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		return Parse(text)
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "./\\") {
		return nil, fmt.Errorf("%w: none is called %q; give one of %s, or the path of a file", ErrExperiment, name,
			strings.Join(Names(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExperiment, err)
	}
	e, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

// Parse reads an experiment in YAML or JSON. Unknown keys are refused.
func Parse(text []byte) (*Experiment, error) {
	var loose map[string]any
	if err := yaml.Unmarshal(text, &loose); err != nil {
		return nil, fmt.Errorf("%w: not readable as YAML: %w", ErrExperiment, err)
	}
	plain, err := json.Marshal(loose)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExperiment, err)
	}
	e := &Experiment{Delta: 1e-6, Failure: 0.02, FirstSeed: 1}
	if err := strict.Unmarshal(plain, e, strict.Options{Missing: true}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExperiment, err)
	}
	return e, e.Validate()
}

// Validate refuses an experiment that cannot run, and fills in the kinds of algorithms.
func (e *Experiment) Validate() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w %q: %s", ErrExperiment, e.Name, fmt.Sprintf(format, args...))
	}
	if e.Name == "" || strings.Trim(strings.ToLower(e.Name), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return wrong("the name must consist of letters, digits and dashes")
	}
	if err := e.checkKind(); err != nil {
		return wrong("%v", err)
	}
	if err := e.checkWorlds(); err != nil {
		return wrong("%v", err)
	}
	if bakeoff := e.Kind == KindBakeoff; bakeoff && len(e.Worlds) == 0 || len(e.Algorithms) == 0 ||
		!bakeoff && (len(e.Environments)+len(e.Data) == 0 || len(e.Horizons) == 0) {
		return wrong("needs environments, horizons and algorithms")
	}
	if e.Seeds < 1 || e.Seeds > 1e6 {
		return wrong("seeds %d must be in [1, 1000000]", e.Seeds)
	}
	// Papers have deltas that no deployment can have (privacy.CheckDelta): their experiments are repeated with them.
	if !(e.Delta > 0 && e.Delta < 0.5) || !(e.Failure > 0 && e.Failure < 1) {
		return wrong("delta %v and failure %v must be probabilities", e.Delta, e.Failure)
	}
	for _, v := range e.Environments {
		if _, err := v.Resolve(); err != nil {
			return wrong("%v", err)
		}
		if v.People < 0 || v.People > 1<<32 {
			return wrong("people %d must be in [0, 2^32]", v.People)
		}
	}
	for _, t := range e.Horizons {
		if t < 0 || t > 1<<32 {
			return wrong("horizon %d must be in [0, 2^32]", t)
		}
	}
	if e.Kind == KindRegression {
		if err := e.validateRegression(); err != nil {
			return wrong("%v", err)
		}
		return nil
	}
	seen := map[string]bool{}
	for i := range e.Algorithms {
		a := &e.Algorithms[i]
		if a.Kind == "" {
			a.Kind = a.Name
		}
		if c := plan.Channel(a.Kind); slices.Contains(plan.Channels(), c) {
			if a.Trust != "" && a.Trust != c {
				return wrong("algorithm %q: kind %s and trust %s contradict each other", a.Name, a.Kind, a.Trust)
			}
			a.Kind, a.Trust = KindRiffle, c
		}
		if a.Trust != "" && !slices.Contains(plan.Channels(), a.Trust) {
			return wrong("algorithm %q: trust %q is none of %v", a.Name, a.Trust, plan.Channels())
		}
		k, learner := learners[a.Kind]
		switch {
		case learner && len(k.trusts) > 0 && a.Trust == "":
			a.Trust = k.trusts[0]
		case learner && a.Trust != "" && !slices.Contains(k.trusts, a.Trust):
			return wrong("algorithm %q: kind %s runs over %v, not over %s", a.Name, a.Kind, k.trusts, a.Trust)
		case !learner && a.Trust != "" && a.Kind != KindRiffle:
			return wrong("algorithm %q: trust is not for kind %s", a.Name, a.Kind)
		case !learner && (a.Variant != "" || a.Options != nil):
			return wrong("algorithm %q: variant and options are not for kind %s", a.Name, a.Kind)
		}
		if !slices.Contains(known(), a.Kind) {
			return wrong("algorithm %q: kind %q is none of %s", a.Name, a.Kind, strings.Join(known(), ", "))
		}
		if a.Anytime < 0 || a.Anytime > 0 && a.Kind != KindRiffle && a.Kind != KindBatched {
			return wrong("algorithm %q: anytime %d must not be negative, and is for kinds %s and %s only",
				a.Name, a.Anytime, KindRiffle, KindBatched)
		}
		if err := a.checkName(seen); err != nil {
			return wrong("%v", err)
		}
		if a.Delta != 0 && !(a.Delta > 0 && a.Delta < 0.5) {
			return wrong("algorithm %q: delta %v must be a probability below 1/2", a.Name, a.Delta)
		}
		if err := e.checkEpsilons(a, a.private()); err != nil {
			return wrong("%v", err)
		}
	}
	return nil
}

// checkName refuses an algorithm without a name, or with one that was seen before.
func (a *AlgorithmSpec) checkName(seen map[string]bool) error {
	if a.Name == "" || seen[a.Name] {
		return fmt.Errorf("algorithms need different names; %q is empty or a repetition", a.Name)
	}
	seen[a.Name] = true
	return nil
}

// checkEpsilons refuses epsilons out of range, and a private algorithm without any.
func (e *Experiment) checkEpsilons(a *AlgorithmSpec, private bool) error {
	all := append(slices.Clone(a.Epsilons), e.Epsilons...)
	if private && len(all) == 0 {
		return fmt.Errorf("algorithm %q needs epsilons", a.Name)
	}
	for _, v := range all {
		if err := privacy.CheckEpsilon(v); err != nil {
			return err
		}
	}
	return nil
}

// Changes replace parts of an experiment; zero values keep them.
type Changes struct {
	Seeds     int
	FirstSeed uint64
	Horizons  []int
	Epsilons  []float64
	Only      []string // names of algorithms
	// Trust, ServerNoise and DeviceNoise change all algorithms of kind riffle: their channel, and its noise.
	Trust       plan.Channel
	ServerNoise *float64
	DeviceNoise *bool
	// Of KindBakeoff: a half of the worlds, or all; names of worlds; files of people, each for the world whose path has
	// its name, or for a new world.
	Half   string
	Worlds []string
	Data   []string
}

// Change applies changes. Horizons and epsilons also replace those that single algorithms ask for.
func (e *Experiment) Change(c Changes) error {
	if c.Seeds != 0 {
		e.Seeds = c.Seeds
	}
	if c.FirstSeed != 0 {
		e.FirstSeed = c.FirstSeed
	}
	if err := e.changeWorlds(c); err != nil {
		return err
	}
	if len(c.Horizons) > 0 {
		e.Horizons = c.Horizons
		for i := range e.Environments {
			e.Environments[i].People = 0
		}
	}
	if len(c.Epsilons) > 0 {
		e.Epsilons = c.Epsilons
	}
	for i := range e.Algorithms {
		if len(c.Horizons) > 0 {
			e.Algorithms[i].Horizons = nil
		}
		if len(c.Epsilons) > 0 {
			e.Algorithms[i].Epsilons = nil
		}
	}
	for i := range e.Algorithms {
		a := &e.Algorithms[i]
		if a.Kind != KindRiffle {
			continue
		}
		a.Trust = cmp.Or(c.Trust, a.Trust)
		if c.ServerNoise != nil {
			a.Terms.ServerNoise = c.ServerNoise
		}
		if c.DeviceNoise != nil {
			a.Terms.DeviceNoise = c.DeviceNoise
		}
	}
	if len(c.Only) > 0 {
		for _, name := range c.Only {
			if !slices.ContainsFunc(e.Algorithms, func(a AlgorithmSpec) bool { return a.Name == name }) {
				return fmt.Errorf("%w %q: no algorithm is called %q", ErrExperiment, e.Name, name)
			}
		}
		e.Algorithms = slices.DeleteFunc(e.Algorithms,
			func(a AlgorithmSpec) bool { return !slices.Contains(c.Only, a.Name) })
	}
	return e.Validate()
}

package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/lab/environment"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// World is an environment of a bake-off. Its people are those of Environment.People, 0 for all of the data.
type World struct {
	Name   string `json:"name"`
	Half   string `json:"half"`   // Tuning or HeldOut; empty: a file that the user gave, which belongs to neither
	Source string `json:"source"` // where the people come from, in a few words
	// Epsilons replace the experiment's in this world.
	Epsilons    []float64        `json:"epsilons,omitempty"`
	Environment environment.Spec `json:"environment"`
}

// defaultFileHoldout is the share of a file's people on whom last policies are valued.
const defaultFileHoldout = population.DefaultHoldout

// checkWorlds refuses worlds that cannot run.
func (e *Experiment) checkWorlds() error {
	if e.Kind != KindBakeoff {
		if len(e.Worlds) > 0 {
			return fmt.Errorf("worlds are for the kind %s", KindBakeoff)
		}
		return nil
	}
	if len(e.Environments)+len(e.Data)+len(e.Horizons) > 0 {
		return fmt.Errorf("the kind %s has worlds in place of environments, data and horizons", KindBakeoff)
	}
	seen := map[string]bool{}
	for _, w := range e.Worlds {
		spec, err := w.Environment.Resolve()
		switch {
		case err != nil:
			return fmt.Errorf("world %q: %w", w.Name, err)
		case w.Name == "" || seen[w.Name]:
			return fmt.Errorf("worlds need different names; %q is empty or a repetition", w.Name)
		case w.Half != "" && w.Half != Tuning && w.Half != HeldOut:
			return fmt.Errorf("world %q: half %q is neither %s nor %s", w.Name, w.Half, Tuning, HeldOut)
		case spec.Kind == environment.File && spec.Holdout == 0, spec.Kind != environment.File &&
			spec.Kind != environment.Adult && spec.Kind != environment.Census && (spec.Test == 0 || spec.People == 0):
			return fmt.Errorf("world %q: needs people, and others on whom to value the last policy", w.Name)
		}
		seen[w.Name] = true
		for _, v := range w.Epsilons {
			if err := privacy.CheckEpsilon(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// changeWorlds applies what of changes is of worlds.
func (e *Experiment) changeWorlds(c Changes) error {
	if e.Kind != KindBakeoff {
		if c.Half != "" || len(c.Worlds) > 0 || len(c.Data) > 0 {
			return fmt.Errorf("%w %q: halves, worlds and data of your own are for the kind %s", ErrExperiment, e.Name,
				KindBakeoff)
		}
		return nil
	}
	if len(c.Horizons) > 0 {
		return fmt.Errorf("%w %q: each world has its own number of people", ErrExperiment, e.Name)
	}
	if c.Half != "" && c.Half != Tuning && c.Half != HeldOut && c.Half != "all" {
		return fmt.Errorf("%w %q: half %q is none of %s, %s and all", ErrExperiment, e.Name, c.Half, Tuning, HeldOut)
	}
	for _, path := range c.Data {
		e.addFile(path)
	}
	if len(c.Epsilons) > 0 {
		for i := range e.Worlds {
			e.Worlds[i].Epsilons = nil
		}
	}
	for _, name := range c.Worlds {
		if !slices.ContainsFunc(e.Worlds, func(w World) bool { return w.Name == name }) {
			return fmt.Errorf("%w %q: no world is called %q", ErrExperiment, e.Name, name)
		}
	}
	e.Worlds = slices.DeleteFunc(e.Worlds, func(w World) bool {
		half := c.Half != "" && c.Half != "all" && w.Half != "" && w.Half != c.Half
		return half || len(c.Worlds) > 0 && !slices.Contains(c.Worlds, w.Name)
	})
	return nil
}

// addFile gives a file of people to the world whose path has its name, or adds a world.
func (e *Experiment) addFile(path string) {
	name := filepath.Base(path)
	for i := range e.Worlds {
		if s := &e.Worlds[i].Environment; s.Kind == environment.File && filepath.Base(s.Path) == name {
			s.Path = path
			return
		}
	}
	name, _, _ = strings.Cut(name, ".")
	e.Worlds = append(e.Worlds, World{Name: name, Source: "a file of your own",
		Environment: environment.Spec{Kind: environment.File, Path: path, Holdout: defaultFileHoldout}})
}

// arena is a world ready to be opened for a seed.
type arena struct {
	World
	people []population.Person // of a file
	info   population.Info     // of a file
	digest string              // of a file
}

// arenas are the experiment's worlds, and the names of those whose file is not there.
func (e *Experiment) arenas() (all []arena, skipped []string, err error) {
	for _, w := range e.Worlds {
		a := arena{World: w}
		if w.Environment.Kind == environment.File {
			if _, err := os.Stat(w.Environment.Path); errors.Is(err, os.ErrNotExist) && w.Half != "" {
				skipped = append(skipped, fmt.Sprintf("%s (give its file with --data: .../%s)", w.Name,
					filepath.Base(w.Environment.Path)))
				continue
			}
			if err := a.read(); err != nil {
				return nil, nil, err
			}
		}
		all = append(all, a)
	}
	return all, skipped, nil
}

// read takes all people of a file into memory.
func (a *arena) read() error {
	s := a.Environment
	f, err := os.Open(s.Path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrExperiment, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	a.digest = hex.EncodeToString(h.Sum(nil))
	p, err := population.File(s.Path, population.FileOptions{Family: s.Family, MaxReward: s.MaxReward,
		NormBound: s.Bound, Structure: structure.Options(s.Options, s.Context)})
	if err != nil {
		return err
	}
	a.info = p.Info()
	for person, err := range p.People() {
		if err != nil {
			return err
		}
		a.people = append(a.people, person)
	}
	return nil
}

// open makes the run of a seed. The people of a file come in an order of the seed, and the last of them are held out.
func (a *arena) open(seed uint64) (*environment.Environment, error) {
	if a.people == nil {
		return a.Environment.Open(seed, a.Environment.People)
	}
	all, info := slices.Clone(a.people), a.info
	r := rand.New(rand.NewChaCha8(key(seed, 'o')))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	info.HeldOut = max(1, int(math.Round(a.Environment.Holdout*float64(len(all)))))
	info.People = len(all) - info.HeldOut
	if n := a.Environment.People; n > 0 {
		info.People = min(info.People, n)
	}
	if info.People < 1 {
		return nil, fmt.Errorf("%w: world %q has too few people", ErrExperiment, a.Name)
	}
	f, err := family.New(info.Family, info.MaxReward)
	if err != nil {
		return nil, err
	}
	each := func(people []population.Person) iter.Seq2[population.Person, error] {
		return func(yield func(population.Person, error) bool) {
			for _, p := range people {
				if !yield(p, nil) {
					return
				}
			}
		}
	}
	held := all[len(all)-info.HeldOut:]
	return &environment.Environment{Population: population.New(info, each(all[:info.People]), each(held)),
		Family: f}, nil
}

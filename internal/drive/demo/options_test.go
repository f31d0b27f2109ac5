package demo

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// What no deployment can be started with is found before one is: in one error, with no process, no keys and no folder.
func TestWrongOptionsStartNothing(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want []string
	}{
		"negative":   {Options{Epsilon: -1, Delta: 1e-6}, []string{"1 fault", "--epsilon = -1"}},
		"nothing":    {Options{Epsilon: 0, Delta: 1e-6}, []string{"1 fault", "--epsilon = 0 is refused"}},
		"no promise": {Options{Epsilon: 1e9, Delta: 1e-6}, []string{"1 fault", "--epsilon = 1000000000"}},
		"everything": {Options{Epsilon: math.NaN(), Delta: 2, Profile: "theory", Hosts: -1},
			[]string{"4 faults", "--epsilon", "--delta = 2", `--learner = "theory"`, "--hosts = -1"}},
		"too few": {Options{Epsilon: 1, Delta: 1e-6, Population: synthetic(t, 30, 1)},
			[]string{"30 people", "at least 50", "--users"}},
		"no such plan": {Options{Epsilon: 1, Delta: 1e-6, Population: wide(400)},
			[]string{"no plan", "--trust shares"}},
		"no such paper": {Options{Epsilon: 1e-9, Delta: 1e-6, Profile: string(glm.Paper)}, []string{"--epsilon = "}},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.o
			o.Out, o.Executable, o.Keep = filepath.Join(t.TempDir(), "out"), "/nowhere/riffle", true
			o.Progress = progress.New(io.Discard, progress.Options{Mode: progress.Quiet})
			if o.Population == nil {
				o.Population = synthetic(t, 1000, 1)
			}
			if o.Profile == "" {
				o.Profile = string(glm.Practical)
			}
			if o.Hosts == 0 {
				o.Hosts = 2
			}
			_, _, err := Run(t.Context(), o)
			if err == nil {
				t.Fatal("it ran")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if _, err := os.Stat(o.Out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was made: %v", err)
			}
		})
	}
}

// wide is a population of a dimension for which the demo's messages do not suffice. It has no readable people.
func wide(dim int) *population.Population {
	return population.New(population.Info{
		Name: "wide", People: 5000, Dim: dim, Arms: 2, Family: family.NameLogistic, MaxReward: 1, NormBound: 3,
	}, nil, nil)
}

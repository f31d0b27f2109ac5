package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/plan"
)

func linear(t *testing.T, users int, seed uint64) *population.Population {
	t.Helper()
	p, err := population.Synthetic(population.SyntheticOptions{Users: users, Seed: seed, Dim: 2, Arms: 4,
		Family: family.NameLinear})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A program runs through the real processes: nobody is lost, the guarantee is kept, and the audit recomputes every
// policy. In shares the analyzer is killed in two epochs: it replays its log, and announces what it would have
// announced (it stops if it cannot).
func TestProgramsRunEndToEnd(t *testing.T) {
	for _, trust := range []plan.Channel{plan.Shuffle, plan.Shares} {
		t.Run(string(trust), func(t *testing.T) {
			slow(t)
			const people = 300
			o := Options{Population: linear(t, people, 3), Hosts: 1, Profile: string(glm.LinUCB), Trust: trust}
			if trust == plan.Shares {
				o.Disturb = func(c *cluster.Cluster, epoch uint64) error {
					if epoch > 2 {
						return nil
					}
					return restarted(c, cluster.Analyzer)
				}
			}
			r, _ := run(t, o)
			whole(t, r, people)
			if r.Profile != string(glm.LinUCB) || r.Family != family.NameLinear || r.NonPrivateRegret == nil {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A program is refused for people whose rewards are of another family, before anything runs.
func TestProgramsNeedLinearRewards(t *testing.T) {
	o := Options{Epsilon: 1, Delta: 1e-6, Profile: string(glm.LinUCB), Hosts: 1, Population: synthetic(t, 1000, 1),
		Executable: "/nowhere/riffle", Out: filepath.Join(t.TempDir(), "out"),
		Progress: progress.New(os.Stderr, progress.Options{Mode: progress.Quiet})}
	_, _, err := Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), `--family = "logistic" cannot go with --learner = "linucb"`) ||
		!strings.Contains(err.Error(), "set family to linear") {
		t.Errorf("%v", err)
	}
}

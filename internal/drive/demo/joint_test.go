package demo

import (
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Algorithm 2 runs end to end over the channel central: every person's record is read, the guarantee is kept, and no
// sealed record is left after the last policy.
func TestJointRunsEndToEnd(t *testing.T) {
	slow(t)
	r, dir := run(t,
		Options{Population: synthetic(t, 200, 5), Hosts: 1, Profile: string(glm.Joint), Trust: plan.Central})
	whole(t, r, 200)
	nothingSealed(t, dir)
}

// The analyzer is killed in each of four epochs, and announces what it would have announced: it stops if it cannot.
func TestJointAnalyzerKilledAgainLosesNoReport(t *testing.T) {
	long(t)
	const people = 400
	kill := func(c *cluster.Cluster, epoch uint64) error {
		if epoch > 4 {
			return nil
		}
		return restarted(c, cluster.Analyzer)
	}
	r, dir := run(t, Options{Population: synthetic(t, people, 6), Hosts: 2, Profile: string(glm.Joint),
		Trust: plan.Central, Disturb: kill})
	whole(t, r, people)
	nothingSealed(t, dir)
}

// nothingSealed checks that no sealed record is kept in the analyzer's state folder.
func nothingSealed(t *testing.T, dir string) {
	t.Helper()
	took, err := filepath.Glob(filepath.Join(dir, "*", "participants*"))
	if err != nil || len(took) == 0 {
		t.Fatalf("no state folder of the analyzer: %v %v", took, err)
	}
	kept, err := filepath.Glob(filepath.Join(filepath.Dir(took[0]), "sealed-*"))
	if err != nil || len(kept) > 0 {
		t.Errorf("%v is kept, %v", kept, err)
	}
}

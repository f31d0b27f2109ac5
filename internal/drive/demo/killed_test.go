package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
)

// Each kind of process is killed in the middle of an epoch, as by a power cut, and started again. The run finishes, and
// no report is lost.
func TestKilledProcessesLoseNoReport(t *testing.T) {
	slow(t)
	killed(t, []string{cluster.Shuffler, cluster.Analyzer, "randomizer-host1"})
}

// One process is killed in each of three epochs.
func TestProcessKilledAgainLosesNoReport(t *testing.T) {
	for _, victim := range []string{cluster.Shuffler, cluster.Analyzer, "randomizer-host1"} {
		t.Run(victim, func(t *testing.T) {
			long(t)
			killed(t, []string{victim, victim, victim})
		})
	}
}

// killed kills one of the processes in each of the first epochs.
func killed(t *testing.T, victims []string) {
	t.Helper()
	const people = 240
	starts := map[string]int{}
	kill := func(c *cluster.Cluster, epoch uint64) error {
		if int(epoch) > len(victims) {
			return nil
		}
		victim := victims[epoch-1]
		starts[victim]++
		if err := c.Kill(victim); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return c.StartProcess(context.Background(), victim)
	}
	r, dir := run(t, Options{Population: synthetic(t, people, 3), Hosts: 2, Disturb: kill})
	whole(t, r, people)
	total := 0
	for victim, n := range starts {
		text, err := os.ReadFile(filepath.Join(dir, victim+".log"))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(text, []byte(`"listener":"ops.listen"`)); got != n+1 {
			t.Errorf("%s started %d times, killed %d times", victim, got, n)
		}
		total += n
	}
	if total != len(victims) {
		t.Errorf("killed %v in %d epochs: too few epochs", starts, r.Epochs)
	}
}

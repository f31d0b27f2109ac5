package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/witness"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/keyring"
)

// Each kind of process is killed in the middle of an epoch, as by a power cut, and started again. The run finishes, and
// no report is lost. A witness sees the shuffler's log only grow.
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

// restarted kills a process, if it has not ended by itself, and starts it again.
func restarted(c *cluster.Cluster, name string) error {
	if err := c.Kill(name); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return c.StartProcess(context.Background(), name)
}

// killed kills one of the processes in each of the first epochs.
func killed(t *testing.T, victims []string) {
	t.Helper()
	const people = 240
	starts, logged := map[string]int{}, uint64(0)
	watching := newOnlooker(t)
	kill := func(c *cluster.Cluster, epoch uint64) error {
		seen, err := watching.look(c)
		if err != nil {
			return err
		}
		logged = seen.Size
		if int(epoch) > len(victims) {
			return nil
		}
		victim := victims[epoch-1]
		starts[victim]++
		return restarted(c, victim)
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
	if int(logged) != r.Epochs-1 {
		t.Errorf("in the last of %d epochs the shuffler's log has %d entries", r.Epochs, logged)
	}
}

// onlooker is a witness of the shuffler's log.
type onlooker struct{ *witness.Witness }

func newOnlooker(t *testing.T) onlooker {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if _, err := witness.Generate(key, "w1"); err != nil {
		t.Fatal(err)
	}
	w, err := witness.Load(key, filepath.Join(dir, "state"), dir)
	if err != nil {
		t.Fatal(err)
	}
	return onlooker{w}
}

// look holds the log against what the witness saw of it before the last kill.
func (w onlooker) look(c *cluster.Cluster) (*witness.Seen, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	bundle, err := keyring.LoadBundle(c.Keys())
	if err != nil {
		return nil, err
	}
	seed, err := keyring.LoadSeed(c.Keys(), keyring.Auditor)
	if err != nil {
		return nil, err
	}
	conn, err := bus.Connect(ctx, bus.Options{URL: c.URL(), Role: bus.Auditor, Seed: seed, Name: "witness"})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	log := witness.Log{Deployment: bundle.Deployment, Role: bus.Shuffler, Key: bundle.Shuffler}
	live, err := audit.NewLive(ctx, audit.Over(conn.Streams), bundle)
	if err != nil {
		return nil, err
	}
	return w.Look(ctx, live, log, time.Now())
}

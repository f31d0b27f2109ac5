package load_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/load"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/population"
)

// Two workers of each role, of which one after the other is killed and started anew while people report: nobody's
// report is lost, and every sum is the one without workers. All channels take part where RIFFLE_LONG is set.
func TestWorkersAreKilledAndNothingIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a deployment")
	}
	t.Parallel()
	channels := []string{"shuffle"}
	if os.Getenv("RIFFLE_LONG") != "" {
		channels = append(channels, "shares", "local", "central")
	}
	for _, channel := range channels {
		t.Run(channel, func(t *testing.T) { workersAreKilled(t, channel) })
	}
}

func workersAreKilled(t *testing.T, channel string) {
	const people = 240 // two cohorts
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{
		Dir: t.TempDir(), Name: "workers", Executable: self, Hosts: []string{"one"}, Devices: 5000,
		Workers: map[string]int{cluster.Shuffler: 2, cluster.Analyzer: 2},
		Analyzer: []string{"--learner-dimension", "5", "--learner-horizon", fmt.Sprint(people),
			"--learner-first-cohort", fmt.Sprint(people / 2), "--learner-growth", "1.01", "--privacy-channel", channel,
			"--workers-inside", "0", "--timing-reward-window", "2s", "--timing-jitter", "200ms",
			"--timing-grace", "20s", "--timing-enrolment", "20s"},
		Shuffler:   []string{"--workers-inside", "0"},
		Randomizer: []string{"--limits-trust", "shuffle,shares,local,central"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	crowd, err := population.Synthetic(population.SyntheticOptions{Users: people, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	leads := []string{c.Ops(cluster.Shuffler), c.Ops(cluster.Analyzer)}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	killing, stop := context.WithCancel(ctx)
	killed := make(chan int, 1)
	go func() { killed <- keepKilling(killing, t, c) }()
	result, err := load.Run(ctx, load.Options{
		APIs: c.APIs(), Population: crowd, Seed: 7, Concurrency: 16, Ops: leads, Keys: c.Keys(),
		Broker:   bus.Options{URL: c.URL()},
		Progress: progress.New(io.Discard, progress.Options{Mode: progress.Quiet}),
	})
	stop()
	kills := <-killed
	if err != nil {
		t.Fatal(err)
	}
	if !result.Sound() || result.Destroyed != 0 || result.Enrolled != result.Reports || result.Compared == 0 {
		var table strings.Builder
		_ = result.WriteTable(&table)
		t.Errorf("not sound, or reports were lost:\n%s", table.String())
	}
	for _, ops := range leads {
		n := tasksDone(t, ops)
		t.Logf("%s: workers did %v tasks, %d times one was killed", ops, n, kills)
		if n == 0 {
			t.Errorf("%s: no worker did a task", ops)
		}
	}
	if kills < 4 {
		t.Errorf("%d workers were killed: too few to show anything", kills)
	}
}

// keepKilling kills one worker after the other and starts it anew, until the context ends, and says how often.
func keepKilling(ctx context.Context, t *testing.T, c *cluster.Cluster) (kills int) {
	for ; ; kills++ {
		name := fmt.Sprintf("%s-worker%d", []string{cluster.Shuffler, cluster.Analyzer}[kills%2], kills/2%2+1)
		select {
		case <-ctx.Done():
			return kills
		case <-time.After(time.Second):
		}
		if err := c.Kill(name); err != nil {
			t.Error(err)
			return kills
		}
		if err := c.StartProcess(ctx, name); err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return kills
		}
	}
}

var doneTasks = regexp.MustCompile(`(?m)^riffle_worker_tasks_total\{outcome="done",role="\w+"\} (\S+)$`)

func tasksDone(t *testing.T, ops string) float64 {
	t.Helper()
	answer, err := http.Get(ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := doneTasks.FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no metrics of tasks", ops)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

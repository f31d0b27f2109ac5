package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/lab/chart"
	"github.com/riffle-dp/riffle/internal/lab/population"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/testing/parallel"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// executable is riffle itself, built once.
var executable string

func TestMain(m *testing.M) {
	parallel.Tests("4")
	if testing.Short() {
		os.Exit(m.Run())
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "riffle-demo-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		executable = filepath.Join(dir, "riffle")
		if out, err := exec.Command("go", "build", "-o", executable, "../../../cmd/riffle").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building riffle: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes")
	}
	t.Parallel() // most of it is waiting for reward windows
}

func long(t *testing.T) {
	t.Helper()
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("set RIFFLE_LONG=1")
	}
	slow(t)
}

// What no deployment can be started with is found before one is: in one error, with no process, no keys and no folder.
func TestWrongOptionsStartNothing(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want []string
	}{
		"negative":      {Options{Epsilon: -1, Delta: 1e-6}, []string{"1 fault", "epsilon = -1"}},
		"nothing":       {Options{Epsilon: 0, Delta: 1e-6}, []string{"1 fault", "epsilon = 0 must be above 0"}},
		"no promise":    {Options{Epsilon: 1e9, Delta: 1e-6}, []string{"1 fault", "epsilon = 1000000000"}},
		"everything":    {Options{Epsilon: math.NaN(), Delta: 2, Profile: "theory", Hosts: -1}, []string{"4 faults", "epsilon", "delta = 2", `profile = "theory"`, "hosts = -1"}},
		"too few":       {Options{Epsilon: 1, Delta: 1e-6, Population: synthetic(t, 30, 1)}, []string{"30 people", "at least 50"}},
		"no such plan":  {Options{Epsilon: 1, Delta: 1e-6, Population: wide(400)}, []string{"no plan", "MaxMessages"}},
		"no such paper": {Options{Epsilon: 1e-9, Delta: 1e-6, Profile: string(glm.Paper)}, []string{"epsilon = "}},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.o
			o.Out, o.Executable, o.Progress = filepath.Join(t.TempDir(), "out"), "/nowhere/riffle", progress.New(io.Discard, progress.Options{Mode: progress.Quiet})
			o.Keep = true
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

// wide is a population of many numbers each, more than the demo's messages hold. Nobody is ever read from it.
func wide(dim int) *population.Population {
	return population.New(population.Info{Name: "wide", People: 5000, Dim: dim, Arms: 2, Family: glm.FamilyLogistic, MaxReward: 1, NormBound: 3}, nil, nil)
}

// The bar counts a report when it arrives and when its bits are counted, once each, and never goes back.
func TestAdvance(t *testing.T) {
	ptr := func(n int) *int { return &n }
	released := func(epoch uint64, reports int) status.Round {
		return status.Round{Epoch: epoch, Outcome: status.Released, Reports: reports, Messages: 150 * reports}
	}
	var s progress.State
	for _, step := range []struct {
		what                             string
		shuffler, analyzer               status.Snapshot
		reports, counted, messages, work int
	}{
		{what: "before"},
		{"half has arrived", status.Snapshot{Epoch: 1, Cohort: &status.Cohort{Reports: ptr(20), Messages: 150}}, status.Snapshot{Epoch: 1, Epochs: 2, Rounds: 1}, 20, 0, 3000, 20},
		{"the shuffler is started again", status.Snapshot{}, status.Snapshot{Epoch: 1, Rounds: 1}, 20, 0, 3000, 20},
		{"some are opened", status.Snapshot{Epoch: 1, Cohort: &status.Cohort{Reports: ptr(40), Messages: 150}, Releases: []status.Round{released(1, 40)}},
			status.Snapshot{Epoch: 1, Rounds: 1, Cohort: &status.Cohort{Messages: 150, Opened: ptr(1500)}}, 40, 10, 6000, 50},
		{"all are counted", status.Snapshot{Epoch: 1, Cohort: &status.Cohort{Reports: ptr(40), Messages: 150}, Releases: []status.Round{released(1, 40)}},
			status.Snapshot{Epoch: 1, Rounds: 1, Cohort: &status.Cohort{Messages: 150, Opened: ptr(6000)}, Releases: []status.Round{released(1, 40)}}, 40, 40, 6000, 80},
		{"the next epoch", status.Snapshot{Epoch: 2, Cohort: &status.Cohort{Reports: ptr(60), Messages: 150}, Releases: []status.Round{released(1, 40)}},
			status.Snapshot{Epoch: 2, Rounds: 1, Cohort: &status.Cohort{Messages: 150, Opened: ptr(0)}, Releases: []status.Round{released(1, 40)}}, 100, 40, 15000, 140},
	} {
		advance(&s, 100, step.shuffler, step.analyzer)
		if s.Reports != step.reports || s.Counted != step.counted || s.Messages != step.messages || s.Work != step.work || s.AllWork != 200 {
			t.Errorf("%s: %+v", step.what, s)
		}
	}
	if s.Epochs != 2 {
		t.Errorf("%d epochs", s.Epochs)
	}
}

// moved checks what a run wrote of its progress: the bar moved while nobody was decided for, because reports were sealed and counted.
func moved(t *testing.T, said string) {
	t.Helper()
	percents := map[string]map[string]bool{} // by people decided for
	for _, m := range regexp.MustCompile(`learning, (\d+)%.* (\S+) of 200 people, .*reports`).FindAllStringSubmatch(said, -1) {
		if percents[m[2]] == nil {
			percents[m[2]] = map[string]bool{}
		}
		percents[m[2]][m[1]] = true
	}
	most := 0
	for _, p := range percents {
		most = max(most, len(p))
	}
	// A bar of people has one percentage for each number of them.
	if most < 2 || !strings.Contains(said, "counted") || !strings.Contains(said, "comparing") {
		t.Errorf("the bar stood still while reports were sealed:\n%s", said)
	}
}

func synthetic(t *testing.T, users int, seed uint64) *population.Population {
	t.Helper()
	p, err := population.Synthetic(population.SyntheticOptions{Users: users, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs the demo and returns its result and the folder of its deployment.
func run(t *testing.T, o Options) (*chart.Result, string) {
	t.Helper()
	if o.Progress == nil {
		o.Progress = progress.New(io.Discard, progress.Options{Mode: progress.Quiet})
	}
	defer o.Progress.Close()
	o.Executable, o.Out, o.Keep = executable, t.TempDir(), true
	if o.Profile == "" {
		o.Profile = string(glm.Practical)
	}
	if o.Epsilon == 0 {
		o.Epsilon, o.Delta = 1, 1e-6
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	result, curves, err := Run(ctx, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, logs(o.Out))
	}
	if len(curves) != 4 {
		t.Errorf("%d curves", len(curves))
	}
	folders, err := filepath.Glob(filepath.Join(o.Out, "deployment-*"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("%v %v", folders, err)
	}
	return result, folders[0]
}

// logs are the ends of the processes' logs, for a failure's text.
func logs(out string) string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(out, "deployment-*", "*.log"))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "%s:\n%s\n", f, strings.Join(lines[max(0, len(lines)-6):], "\n"))
	}
	return b.String()
}

// whole checks that nothing was lost: everybody's report is in a release, and the guarantee is kept.
func whole(t *testing.T, r *chart.Result, users int) {
	t.Helper()
	if r.Users != users || r.Reports != users || r.Lost != 0 || r.Epochs < 2 {
		t.Errorf("%d reports of %d people in %d epochs, %d rounds lost", r.Reports, users, r.Epochs, r.Lost)
	}
	if !(r.Epsilon > 0 && r.Epsilon <= 1) {
		t.Errorf("epsilon %v", r.Epsilon)
	}
	// So few people barely learn through the noise, which is real and differs from run to run: in nine runs of 200 people the regret over
	// uniform play's was 0.79 with a deviation of 0.22, above 1 in one of them. 1.8 is more than four deviations away, so a false alarm is
	// rarer than one run in 10^4 if they are about normal; it finds a policy that plays against what was learnt, and no less. That
	// released sums and learning are right is held by other tests.
	if !(r.Regret > 0 && r.Regret < 1.8*r.UniformRegret) || math.IsNaN(r.Regret) {
		t.Errorf("regret %v, uniform play %v", r.Regret, r.UniformRegret)
	}
}

// A small run of the real processes. What it wrote to disk, to logs and to metrics is scanned for the people's records, whose arms and
// rewards are recognisable numbers (condition 8): streams of the broker, journals, outboxes and all.
func TestRunAndWhatItLeaves(t *testing.T) {
	slow(t)
	const people = 200
	var marked []float64
	crowd := synthetic(t, people, 7)
	for p, err := range crowd.People() {
		if err != nil {
			t.Fatal(err)
		}
		if len(marked) < 40 {
			marked = append(marked, p.Arms[0][0], p.Arms[3][2])
		}
	}
	for i, v := range marked {
		if len(fmt.Sprint(math.Abs(v))) < 12 {
			t.Fatalf("number %d, %v, is not recognisable", i, v)
		}
	}
	marks := testbed.Marks(marked...)
	var mu sync.Mutex
	metrics := map[string]string{}
	said, written := io.Pipe()
	shown := make(chan string)
	go func() {
		b, err := io.ReadAll(said)
		shown <- fmt.Sprintf("%s%v", b, err)
	}()
	follow := progress.New(written, progress.Options{Mode: progress.Plain, Every: 200 * time.Millisecond})
	r, dir := run(t, Options{Population: crowd, Hosts: 2, Progress: follow, Disturb: func(c *cluster.Cluster, epoch uint64) error {
		for _, name := range c.Names() { // in the middle of an epoch, while records are held
			for _, page := range []string{"/metrics", "/status.json", "/"} {
				response, err := http.Get(c.Ops(name) + page)
				if err != nil {
					return err
				}
				b, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if err != nil {
					return err
				}
				mu.Lock()
				metrics[fmt.Sprint(name, " ", epoch, " ", page)] = string(b)
				mu.Unlock()
			}
		}
		return nil
	}})
	if err := written.Close(); err != nil {
		t.Fatal(err)
	}
	moved(t, <-shown)
	whole(t, r, people)
	if len(metrics) < 2*4*3 {
		t.Errorf("%d pages of metrics", len(metrics))
	}
	for page, text := range metrics {
		if found := testbed.Find([]byte(text), marks); len(found) > 0 {
			t.Errorf("%s: %v", page, found)
		}
		if strings.HasSuffix(page, "/metrics") && !strings.Contains(text, "riffle_") {
			t.Errorf("%s has no metrics", page)
		}
		if strings.Contains(text, "person-") {
			t.Errorf("%s names a person's device", page)
		}
	}
	found, files := testbed.FindInFolder(t, dir, marks)
	if len(found) > 0 {
		t.Errorf("in %d files: %v", files, found)
	}
	if files < 15 {
		t.Errorf("only %d files were scanned", files)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(names) != 4 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("person-")) {
			t.Errorf("%s names a person's device", name)
		}
		if bytes.Contains(text, []byte(`"level":"error"`)) {
			t.Errorf("%s has errors:\n%s", name, text)
		}
		for _, line := range strings.Split(string(text), "\n") {
			if i := strings.Index(line, `"unaccounted":`); i >= 0 && !strings.Contains(line, `"unaccounted":0`) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	// The devices' own names are known to their hosts alone.
	for _, sub := range []string{"broker", "shuffler", "keys"} {
		if named, _ := testbed.FindInFolder(t, filepath.Join(dir, sub), []testbed.Mark{{What: "a device's name", Bytes: []byte("person-")}}); len(named) > 0 {
			t.Errorf("%v", named)
		}
	}
	// What was released is forgotten: no report, no bit message, no permuted file.
	if left, err := filepath.Glob(filepath.Join(dir, "shuffler", "release-*")); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}

// Every process is killed in the middle of an epoch, as by a power cut, and started again: the shuffler, then the analyzer, then a
// randomizer. The run finishes, and nobody's report is lost.
func TestKilledProcesses(t *testing.T) {
	slow(t)
	killed(t, []string{cluster.Shuffler, cluster.Analyzer, "randomizer-host1"})
}

// The same process is killed again and again.
func TestKilledProcess(t *testing.T) {
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
	r, dir := run(t, Options{Population: synthetic(t, people, 3), Hosts: 2, Disturb: func(c *cluster.Cluster, epoch uint64) error {
		if int(epoch) > len(victims) {
			return nil
		}
		victim := victims[epoch-1]
		starts[victim]++
		if err := c.Kill(victim); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return c.StartProcess(context.Background(), victim)
	}})
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

// The paper's profile, in which every cohort answers several rounds, runs end to end.
func TestPaperProfile(t *testing.T) {
	long(t)
	r, _ := run(t, Options{Population: synthetic(t, 600, 5), Hosts: 1, Profile: string(glm.Paper)})
	if r.Users != 600 || r.Reports != 600 || r.Lost != 0 || !(r.Epsilon > 0 && r.Epsilon <= 1) {
		t.Errorf("%+v", r)
	}
}

// A run that is interrupted stops its processes in order and leaves nothing running and nothing in the temporary folder; nor does one
// that is killed leave a process.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			slow(t)
			tmp := t.TempDir()
			cmd := exec.Command(executable, "demo", "--users", "600", "--out", filepath.Join(tmp, "out"))
			if sig == syscall.SIGINT {
				cmd.Args = append(cmd.Args, "--keep")
			}
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			testbed.Eventually(t, "four processes of roles", func() bool { return len(processes(t, tmp)) >= 4 })
			time.Sleep(time.Second) // into the first epoch
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				if err == nil {
					t.Error("an interrupted run says that it succeeded")
				}
			case <-time.After(20 * time.Second):
				t.Error("the run did not stop")
				_ = cmd.Process.Kill()
			}
			testbed.Eventually(t, "nothing running", func() bool { return len(processes(t, tmp)) == 0 })
			if sig == syscall.SIGKILL {
				return
			}
			if !strings.Contains(said.String(), "nothing is left running") {
				t.Errorf("it said: %s", said.String())
			}
			if sig == syscall.SIGINT {
				kept, err := filepath.Glob(filepath.Join(tmp, "out", "deployment-*", "*.log"))
				if err != nil || len(kept) != 4 {
					t.Fatal(kept, err)
				}
				for _, name := range kept {
					text, err := os.ReadFile(name)
					if err != nil || !bytes.Contains(text, []byte(`"message":"stopped"`)) {
						t.Errorf("%s was not stopped in order: %v\n%s", name, err, text)
					}
				}
			}
			left, err := filepath.Glob(filepath.Join(tmp, "riffle-demo-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// processes are those whose command line names the folder.
func processes(t *testing.T, folder string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Skip("no /proc here")
	}
	for _, l := range lines {
		b, err := os.ReadFile(l)
		if err == nil && bytes.Contains(b, []byte(folder)) && bytes.Contains(b, []byte("--keys")) {
			found = append(found, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

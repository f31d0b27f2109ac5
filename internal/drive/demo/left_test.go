package demo

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// What a small run of the real processes writes to disk, logs and metrics is scanned for the people's records, whose
// arms and rewards are recognisable numbers (condition 8). The broker's streams, journals and outboxes are among it.
func TestRunLeavesNoRecordBehind(t *testing.T) {
	slow(t)
	const people = 200
	var marked []float64
	everyone := synthetic(t, people, 7)
	for p, err := range everyone.People() {
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
	look := func(c *cluster.Cluster, epoch uint64) error {
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
	}
	r, dir := run(t, Options{Population: everyone, Hosts: 2, Progress: follow, Disturb: look})
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
	if found, files := testbed.FindInFolder(t, filepath.Join(filepath.Dir(dir), "export"), marks); len(found) > 0 ||
		files < 6 {
		t.Errorf("in %d files of the export: %v", files, found)
	}
	if files < 15 {
		t.Errorf("only %d files were scanned", files)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(names) != 5 {
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
		name := testbed.Mark{What: "a device's name", Bytes: []byte("person-")}
		if named, _ := testbed.FindInFolder(t, filepath.Join(dir, sub), []testbed.Mark{name}); len(named) > 0 {
			t.Errorf("%v", named)
		}
	}
	// What was released is forgotten: no report, no bit message, no permuted file.
	if left, err := filepath.Glob(filepath.Join(dir, "shuffler", "release-*")); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}

// A run that is interrupted stops its processes in order and leaves nothing running and nothing in the temporary
// folder; nor does one that is killed leave a process.
func TestInterruptedRunLeavesNothing(t *testing.T) {
	signals := map[string]syscall.Signal{
		"Ctrl-C": syscall.SIGINT, "stopped": syscall.SIGTERM, "killed": syscall.SIGKILL,
	}
	for name, sig := range signals {
		t.Run(name, func(t *testing.T) {
			slow(t)
			tmp := t.TempDir()
			cmd := exec.Command(executable, "demo", "--users", "600", "--out", filepath.Join(tmp, "out"))
			if sig == syscall.SIGINT {
				cmd.Args = append(cmd.Args, "--keep")
			}
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			cmd.Stderr = stderr
			said := func() string {
				b, err := os.ReadFile(stderr.Name())
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			testbed.Eventually(t, "a broker and four processes of roles",
				func() bool { return len(processes(t, tmp)) >= 5 })
			testbed.Eventually(t, "people who decide", func() bool { return strings.Contains(said(), "Watch it: ") })
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				if err == nil {
					t.Error("an interrupted run says that it succeeded")
				}
			case <-time.After(testbed.Patience):
				t.Error("the run did not stop")
				_ = cmd.Process.Kill()
			}
			testbed.Eventually(t, "nothing running", func() bool { return len(processes(t, tmp)) == 0 })
			if sig == syscall.SIGKILL {
				return
			}
			if text := said(); !strings.Contains(text, "nothing is left running") {
				t.Errorf("it said: %s", text)
			}
			if sig == syscall.SIGINT {
				kept, err := filepath.Glob(filepath.Join(tmp, "out", "deployment-*", "*.log"))
				if err != nil || len(kept) != 5 {
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

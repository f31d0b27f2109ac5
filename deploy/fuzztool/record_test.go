package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var three = []target{{"a", "FuzzOne", "a"}, {"a", "FuzzTwo", "a"}, {"b", "FuzzThree", "b"}}

// git runs git in the working directory.
func git(t *testing.T, args ...string) {
	t.Helper()
	own := []string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"}
	if said, err := exec.Command("git", append(own, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, said)
	}
}

// commitAll commits what is in the working directory.
func commitAll(t *testing.T) {
	t.Helper()
	git(t, "add", "--all")
	git(t, "commit", "--quiet", "--allow-empty", "--message", "x")
}

// bench is a repository with one file, which is the working directory, and a runner whose targets take no time.
type bench struct {
	*runner
	out, log bytes.Buffer
	fuzzed   []string          // targets, in their order
	during   func(t target)    // happens while a target is fuzzed, where it is set
	fails    map[target]bool   // targets that fail
	path     string            // of the record
	ctx      context.Context   // of the run
	stop     func(cause error) // ends ctx
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Chdir(t.TempDir())
	git(t, "init", "--quiet")
	write(t, "x.go", "package x\n")
	commitAll(t)
	b := &bench{fails: map[target]bool{}, path: "fuzz.json"}
	b.ctx, b.stop = context.WithCancelCause(t.Context())
	b.runner = &runner{out: &b.out, log: &b.log, time: 5 * time.Minute}
	b.fuzz = func(_ context.Context, of target) (outcome, []byte) {
		b.fuzzed = append(b.fuzzed, of.name)
		if b.during != nil {
			b.during(of)
		}
		return outcome{elapsed: b.time, executions: 7, fresh: 2, failed: b.fails[of]}, []byte("said")
	}
	return b
}

// again makes a run as a new process would, and returns the targets that it fuzzed.
func (b *bench) again(t *testing.T) ([]string, error) {
	t.Helper()
	b.fuzzed = nil
	b.out.Reset()
	b.log.Reset()
	var err error
	if b.record, err = openRecord(b.path); err != nil {
		t.Fatal(err)
	}
	err = b.run(b.ctx, three)
	return b.fuzzed, err
}

// entries are what the file says, as another program reads it.
func (b *bench) entries(t *testing.T) (all []entry) {
	t.Helper()
	text, err := os.ReadFile(b.path)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A run that is stopped while it fuzzes its second target has the first one in its table and its file, and no more. The
// next run fuzzes the others, its table has all, and the run after that fuzzes none.
func TestARunGoesOnWhereItWasStopped(t *testing.T) {
	b := newBench(t)
	errStopped := errors.New("stopped")
	b.during = func(of target) {
		if of.name == "FuzzTwo" {
			b.stop(errStopped)
		} else if n := len(b.entries(t)); n != len(b.fuzzed)-1 {
			t.Errorf("while %s is fuzzed, the file has %d targets", of, n)
		}
	}
	if fuzzed, err := b.again(t); !errors.Is(err, errStopped) || !slices.Equal(fuzzed, []string{"FuzzOne", "FuzzTwo"}) {
		t.Fatalf("%v, %v", fuzzed, err)
	}
	if all := b.entries(t); len(all) != 1 || !strings.Contains(b.out.String(), "FuzzOne") {
		t.Errorf("%+v\n%s", all, &b.out)
	}
	b.ctx, b.during = t.Context(), nil
	if fuzzed, err := b.again(t); err != nil || !slices.Equal(fuzzed, []string{"FuzzTwo", "FuzzThree"}) {
		t.Errorf("%v, %v", fuzzed, err)
	}
	if n := strings.Count(b.out.String(), "ok (before)\n"); n != 1 || strings.Count(b.out.String(), "  ok") != 3 {
		t.Errorf("%s", &b.out)
	}
	if fuzzed, err := b.again(t); err != nil || fuzzed != nil {
		t.Errorf("%v, %v", fuzzed, err)
	}
	all := b.entries(t)
	if len(all) != 3 || len(all[0].Commit) < 40 {
		t.Fatalf("%+v", all)
	}
	if want := (entry{"a", "FuzzOne", 300, 7, 2, "ok", all[0].Commit, false}); all[0] != want {
		t.Errorf("%+v", all[0])
	}
}

// A target that failed is in the file, does not keep the others from their turn, is fuzzed again until it passes, and has
// one object in the file.
func TestAFailureIsRecordedAndFuzzedAgain(t *testing.T) {
	b := newBench(t)
	b.fails[three[0]] = true
	for range 2 {
		if _, err := b.again(t); !errors.Is(err, errFound) || !slices.Contains(b.fuzzed, "FuzzOne") {
			t.Errorf("%v, %v", b.fuzzed, err)
		}
	}
	if all := b.entries(t); len(all) != 3 || all[0].Result != "FAILED" || !strings.Contains(b.log.String(), "was FAILED") {
		t.Errorf("%+v\n%s", all, &b.log)
	}
	b.fails = nil
	if fuzzed, err := b.again(t); err != nil || !slices.Equal(fuzzed, []string{"FuzzOne"}) || b.entries(t)[0].Result != "ok" {
		t.Errorf("%v, %v, %+v", fuzzed, err, b.entries(t))
	}
}

// What was fuzzed for less than is wanted, at another commit or with changes that are not committed is fuzzed again, and
// the run says why.
func TestWhatIsNoLongerTrueIsFuzzedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, b *bench)
		says   string // or "" where no target is fuzzed again
	}{
		"nothing":        {func(*testing.T, *bench) {}, ""},
		"less is wanted": {func(_ *testing.T, b *bench) { b.time = time.Second }, ""},
		"a round time":   {func(_ *testing.T, b *bench) { b.time += 400 * time.Millisecond }, ""},
		"an input": {func(t *testing.T, _ *bench) {
			write(t, filepath.Join("a", "testdata", "fuzz", "FuzzOne", "x"), "x")
		}, ""},
		"more is wanted": {func(_ *testing.T, b *bench) { b.time += time.Second }, "for 300 s, and 301 s are wanted"},
		"another commit": {func(t *testing.T, _ *bench) { commitAll(t) }, " was fuzzed, and this is "},
		"a change":       {func(t *testing.T, _ *bench) { write(t, "x.go", "package y\n") }, "x.go is not as in commit"},
		"a new file":     {func(t *testing.T, _ *bench) { write(t, "b/y.go", "package y\n") }, "b/y.go is not as in commit"},
		"it was changed": {func(t *testing.T, b *bench) {
			for i := range b.record.entries {
				b.record.entries[i].Modified = true
			}
			if err := b.record.write(); err != nil {
				t.Fatal(err)
			}
		}, "not all that was fuzzed is in commit"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if _, err := b.again(t); err != nil {
				t.Fatal(err)
			}
			c.change(t, b)
			fuzzed, err := b.again(t)
			if err != nil || (len(fuzzed) > 0) != (c.says != "") || !strings.Contains(b.log.String(), c.says) {
				t.Errorf("%v, %v\n%s", fuzzed, err, &b.log)
			}
		})
	}
}

// A change that is there before a target is fuzzed is noted, and so is a change or a commit that is made meanwhile, since
// nobody knows whether it was in.
func TestAChangeIsNoted(t *testing.T) {
	change := func(t *testing.T) { write(t, "x.go", "package y\n") }
	commit := func(t *testing.T) { git(t, "commit", "--quiet", "--allow-empty", "--message", "x") }
	nothing := func(*testing.T) {}
	for name, c := range map[string]struct{ before, during func(t *testing.T) }{
		"before": {change, nothing}, "meanwhile": {nothing, change}, "a commit": {nothing, commit},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.before(t)
			b.during = func(target) { c.during(t) }
			if _, err := b.again(t); err != nil {
				t.Fatal(err)
			}
			if all := b.entries(t); len(all) != 3 || !all[0].Modified || !strings.Contains(b.log.String(), "fuzzed again by a later") {
				t.Errorf("%+v\n%s", all, &b.log)
			}
		})
	}
}

// The file is never changed in its place, so that nobody reads half of it, and nothing but it is left.
func TestTheRecordIsReplacedWhole(t *testing.T) {
	b := newBench(t)
	if _, err := b.again(t); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(b.path)
	if err == nil {
		err = os.Link(b.path, "old")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := b.record.put(entry{Package: "a", Target: "FuzzAlso", Result: "ok", Commit: "x"}); err != nil {
		t.Fatal(err)
	}
	if old, err := os.ReadFile("old"); err != nil || !bytes.Equal(old, before) {
		t.Errorf("the old file is now %s, %v", old, err)
	}
	if all := b.entries(t); len(all) != 4 || all[0].Target != "FuzzAlso" {
		t.Errorf("by name they are %+v", all)
	}
	if left, err := filepath.Glob(".*.json*"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// A file that no run wrote is refused and left as it is, and a file that cannot be written is refused before any target
// is fuzzed.
func TestWhatIsNoRecordIsRefused(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x.json")
	for _, text := range []string{
		"", "{}", "package x", `[{"result": "ok"}]`, `[{"package": "a", "target": "b", "result": "ok"}]`, "[] []",
		`[{"package": "a", "target": "b", "commit": "c"}]`, `[{"package": "a", "result": "ok", "commit": "c"}]`,
		`[{"target": "b", "result": "ok", "commit": "c"}]`,
	} {
		write(t, path, text)
		if _, err := openRecord(path); err == nil || !strings.Contains(err.Error(), "is no record of a run") {
			t.Errorf("%s: %v", text, err)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("%s is now %s, %v", text, now, err)
		}
	}
	if _, err := openRecord(filepath.Join(folder, "none", "x.json")); err == nil {
		t.Error("a file in no folder is opened")
	}
	fresh := filepath.Join(folder, "new.json")
	if _, err := openRecord(fresh); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(fresh); err != nil || string(text) != "[]\n" {
		t.Errorf("%s, %v", text, err)
	}
}

// Without git there is no commit to note, which is an error and not a record without one.
func TestWithoutACommitThereIsNoRecord(t *testing.T) {
	b := newBench(t)
	t.Chdir(t.TempDir())
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(t.TempDir()))
	if fuzzed, err := b.again(t); err == nil || fuzzed != nil || !strings.Contains(err.Error(), "--json notes the commit") {
		t.Errorf("%v, %v", fuzzed, err)
	}
}

// What does not fuzz takes no file, so that nobody waits for one that is not written.
func TestWhatDoesNotFuzzTakesNoRecord(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, filepath.Join("a", "x_test.go"), "package a\n\nfunc FuzzOne(f *testing.F) {}\n")
	for _, other := range []string{"--list", "--keep"} {
		c := command(io.Discard)
		c.SetArgs([]string{other, "--json", "fuzz.json"})
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "[json "+other[2:]+"]") {
			t.Errorf("%s: %v", other, err)
		}
	}
}

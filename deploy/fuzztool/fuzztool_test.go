package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// root is the repository's, from the folder of this package.
const root = "../.."

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Every line in the repository that begins a fuzz target is found, and the inputs of no target lie in a folder whose
// target is gone.
func TestEveryTargetIsFound(t *testing.T) {
	targets, err := discover(root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, target := range targets {
		found[target.String()] = true
	}
	line := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	lines, inputs := 0, map[string]int{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		folder, in, kept := strings.Cut(filepath.ToSlash(filepath.Dir(relative)), "/testdata/fuzz/")
		switch {
		case kept:
			if inputs[folder+" "+in]++; !found[folder+" "+in] {
				t.Errorf("%s is an input of no target", path)
			}
			return nil
		case !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(relative, filepath.Join("deploy", "fuzztool")):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range line.FindAllSubmatch(text, -1) {
			if lines++; !found[folder+" "+string(m[1])] {
				t.Errorf("%s in %s is not found", m[1], folder)
			}
		}
		return err
	})
	if err != nil || lines != len(targets) || lines == 0 {
		t.Errorf("%d lines, %d targets, %v", lines, len(targets), err)
	}
	for of, n := range inputs {
		if n > defaultKept {
			t.Errorf("%s has %d inputs, at most %d are kept", of, n, defaultKept)
		}
	}
}

// What is no target is not listed: a function of another type, a method, a folder of test data. A name that begins with
// another target's is an error.
func TestOtherFunctionsAreNoTargets(t *testing.T) {
	folder := t.TempDir()
	const text = `package x
import "testing"
func FuzzOne(f *testing.F) {}
func FuzzNot(t *testing.T) {}
func FuzzTwo(a, b *testing.F) {}
func (x) FuzzMethod(f *testing.F) {}
`
	write(t, filepath.Join(folder, "a", "x_test.go"), text)
	write(t, filepath.Join(folder, "a", "testdata", "x_test.go"), text)
	write(t, filepath.Join(folder, ".git", "x_test.go"), text)
	write(t, filepath.Join(folder, "a", "x.go"), text)
	targets, err := discover(folder)
	if err != nil || len(targets) != 1 || targets[0].String() != "a FuzzOne" {
		t.Errorf("%v, %v", targets, err)
	}
	write(t, filepath.Join(folder, "b", "x_test.go"), strings.ReplaceAll(text, "FuzzOne", "FuzzOneMore"))
	if _, err := discover(folder); err == nil || !strings.Contains(err.Error(), "b FuzzOneMore begins with that of a FuzzOne") {
		t.Error(err)
	}
}

// The outcome is what the go command's output says, and the end of a target's time alone is no failure.
func TestOutcomes(t *testing.T) {
	const ran = "fuzz: elapsed: 3s, execs: 102 (34/sec), new interesting: 2 (total: 7)\n" +
		"fuzz: elapsed: 6s, execs: 1040 (34/sec), new interesting: 5 (total: 10)\n"
	var o outcome
	if o.result() != "NOT RUN" {
		t.Errorf("without executions: %s", o.result())
	}
	o.read([]byte(ran))
	if o.elapsed != 6*time.Second || o.executions != 1040 || o.fresh != 5 || o.result() != "ok" {
		t.Errorf("%+v", o)
	}
	if o.failed = true; o.result() != "FAILED" {
		t.Errorf("%+v", o)
	}
	for output, want := range map[string]bool{
		ran + "--- FAIL: FuzzX (6.01s)\n    context deadline exceeded\nFAIL\nexit status 1\n":                true,
		ran + "--- FAIL: FuzzX (6.01s)\n    x_test.go:3: context deadline exceeded\nFAIL\n":                  false,
		ran + "--- FAIL: FuzzX (6.01s)\n    context deadline exceeded\nFAIL\n    Failing input written to x": false,
		"FAIL\tx [build failed]\n": false,
	} {
		if late([]byte(output)) != want {
			t.Errorf("late is not %v of:\n%s", want, output)
		}
	}
}

// OSS-Fuzz's build script hands every target outside of programs to OSS-Fuzz's helper, in a form in which the helper
// finds one function. A stand-in for the helper notes what it is given, and looks for the function as the helper does.
func TestTheOSSFuzzBuildHasEveryTarget(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script is for Linux")
	}
	folder := t.TempDir()
	given := filepath.Join(folder, "given")
	helper := filepath.Join(folder, "compile_native_go_fuzzer_v2")
	write(t, helper, `#!/bin/bash -eu
folder=${1#"github.com/riffle-dp/riffle/"}
[ "$(grep -r --include='*.go' "func $2" "$folder" | grep -c testing.F)" -eq 1 ] || echo "$2 is not one function"
echo "$1 $2 $3" >>"`+given+`"
`)
	if err := os.Chmod(helper, 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("deploy/ossfuzz/build.sh")
	c.Dir, c.Env = root, append(os.Environ(), "PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	if said, err := c.CombinedOutput(); err != nil || len(said) > 0 {
		t.Fatalf("%v\n%s", err, said)
	}
	targets, err := discover(root)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, of := range targets {
		if of.test != "main" {
			want = append(want, "github.com/riffle-dp/riffle/"+of.folder+" "+of.name+" "+of.name)
		}
	}
	text, err := os.ReadFile(given)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSpace(string(text)), "\n"); !slices.Equal(got, want) {
		t.Errorf("the helper is given\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// module is a module with one target, which fails for what begins with "bad", and one that nothing fails.
func module(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "go.mod"), "module example.com/m\n\ngo 1.26\n")
	write(t, filepath.Join(folder, "x", "x.go"), `package x

func Bad(b []byte) int {
	switch {
	case len(b) > 0 && b[0] == 'b':
		if len(b) > 1 && b[1] == 'a' {
			return 2
		}
		return 1
	}
	return 0
}
`)
	write(t, filepath.Join(folder, "x", "x_test.go"), `package x

import "testing"

func FuzzBad(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { if Bad(b) == 2 { t.Fatal(b) } }) }
func FuzzGood(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { Bad(b) }) }
`)
	t.Chdir(folder)
	git(t, "init", "--quiet")
	commitAll(t)
}

// A target that fails is in the table and ends the run with an error, the other one passes and is not fuzzed by the next
// run, and of the inputs that it found are kept those that reach code that no other one does.
func TestRunAndKeep(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("set RIFFLE_LONG=1: it builds the standard library for fuzzing")
	}
	module(t)
	t.Setenv("GOFLAGS", "")
	var out, log bytes.Buffer
	c := command(&out)
	c.SetErr(&log)
	args := []string{"--time", "10s", "--parallel", "1", "--json", "fuzz.json"}
	for _, result := range []string{`ok`, `ok \(before\)`} {
		out.Reset()
		c.SetArgs(args)
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(out.String(), "FAILED") {
			t.Fatalf("%v\n%s", err, &out)
		}
		good := regexp.MustCompile(`x +FuzzGood +1\d +[1-9]\d* +\d+ +` + result + "\n")
		if !good.MatchString(out.String()) {
			t.Errorf("want %s\n%s", good, &out)
		}
	}
	c = command(&out)
	c.SetErr(&log)
	c.SetArgs([]string{"--keep", "--only", "Good"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join("x", "testdata", "fuzz", "FuzzGood", "*"))
	if err != nil || len(kept) < 1 || len(kept) > 3 {
		t.Errorf("%d inputs are kept, %v: %s", len(kept), err, &out)
	}
}

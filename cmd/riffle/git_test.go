package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// freePort is a port of this machine that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Whoever follows the tutorial in a git work tree, and then commits all files, commits no key, no seed and no state:
// git would take the public files alone. The same holds of what other commands write beside them.
func TestGitTakesNoSecretOfTheTutorialsCommands(t *testing.T) {
	tree := t.TempDir()
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", tree}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run := func(args ...string) string {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = tree
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	git("init", "-q")
	port := freePort(t)
	extra := map[string][]string{"riffle": {"--port=" + port}}
	for _, role := range []string{"shuffler", "analyzer", "randomizer"} {
		extra[role] = []string{"--broker-url=nats://127.0.0.1:" + port, "--ops-listen=127.0.0.1:0"}
	}
	extra["randomizer"] = append(extra["randomizer"], "--api-listen=127.0.0.1:0")
	states := []string{}
	lesson := readTutorial(t)
	if err := lesson.save(tree); err != nil {
		t.Fatal(err)
	}
	for _, args := range lesson.started {
		if args[1] == "keygen" {
			if out := run(args...); strings.Contains(out, "Warning") {
				t.Errorf("%v warns: %s", args, out)
			}
			continue
		}
		for i, arg := range args {
			if arg == "--dir" || arg == "--state" {
				states = append(states, args[i+1])
			}
		}
		cmd := exec.Command(args[0], append(args[1:], extra[args[0]]...)...)
		cmd.Dir = tree
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	if len(states) != 4 {
		t.Fatalf("the tutorial's commands have the state folders %v", states)
	}
	for _, state := range states {
		testbed.Eventually(t, "something is in "+state, func() bool {
			all, err := os.ReadDir(filepath.Join(tree, state))
			return err == nil && slices.ContainsFunc(all, func(e os.DirEntry) bool { return e.Name() != ".gitignore" })
		})
	}
	run("riffle", "keygen", "rotate", "shuffler", "--keys", "keys")
	run("riffle", "keygen", "rotate-host", "main", "--keys", "keys")
	run("riffle", "keygen", "rotate-user", "analyzer", "--keys", "keys")
	run("riffle", "keygen", "add-host", "more=10", "--keys", "keys")
	run("riffle", "keygen", "worker", "shuffler", "--keys", "keys", "--out", "workers")
	public := []string{"bundle.json", "ca.pem", "nats-users.json"}
	for line := range strings.Lines(git("add", "-n", "-A")) {
		name := strings.TrimSuffix(strings.TrimPrefix(line, "add '"), "'\n")
		if folder := filepath.Dir(name); folder != "my" && (folder != "keys" && folder != "workers" ||
			!slices.Contains(public, filepath.Base(name))) {
			t.Errorf("git takes %s", name)
		}
	}
	if out := run("riffle", "witness", "keygen", "--key", "witness.key", "--name", "w.example"); !strings.Contains(out,
		"Warning: git does not leave out 1 private file: witness.key.") {
		t.Errorf("a key where git takes it: %s", out)
	}
	git("add", "-f", "keys/registrar")
	out := run("riffle", "keygen", "add-host", "third=10", "--keys", "keys")
	if want := fmt.Sprintf("keys%cregistrar%cidentity.key", filepath.Separator, filepath.Separator); !strings.Contains(
		out, "Warning: git does not leave out 2 private files: ") || !strings.Contains(out, want) {
		t.Errorf("keys that git has already: %s", out)
	}
}

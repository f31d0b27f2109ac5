package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/client"
)

// A tutorial is what docs/tutorial.md has its reader do.
type tutorial struct {
	files   map[string]string // to save, by name
	started [][]string        // commands that start each role by hand, without bin/
	checks  [][]string        // commands that check what came of it, without bin/
}

func readTutorial(t *testing.T) tutorial {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(docs, "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	lesson := tutorial{files: map[string]string{}}
	save := regexp.MustCompile("(?s)Save this as `([^`]+)`[^`]*```[^\n]*\n(.*?)```")
	for _, m := range save.FindAllStringSubmatch(string(page), -1) {
		lesson.files[m[1]] = m[2]
	}
	commands := func(heading string) (all [][]string) {
		_, section, _ := strings.Cut(string(page), "\n## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, m := range regexp.MustCompile(`(?m)^bin/([^#&\n]*)`).FindAllStringSubmatch(section, -1) {
			all = append(all, strings.Fields(m[1]))
		}
		return all
	}
	lesson.started, lesson.checks = commands("Start each role by hand"), commands("Check it")
	if len(lesson.files) != 3 || len(lesson.started) != 5 || len(lesson.checks) != 4 {
		t.Fatalf("the tutorial has files %v, and starts %v and checks %v",
			slices.Sorted(maps.Keys(lesson.files)), lesson.started, lesson.checks)
	}
	return lesson
}

// save writes the tutorial's files below a folder.
func (l tutorial) save(folder string) error {
	for name, text := range l.files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Whoever does what the tutorial says has a deployment of 500 people that ends with a last policy, and an audit of it
// finds nothing wrong. Only the ports are others.
func TestTutorial(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("RIFFLE_LONG=1 runs it: a minute")
	}
	lesson, tree := readTutorial(t), t.TempDir()
	broker, api := freePort(t), freePort(t)
	lesson.files["my/app.go"] = strings.ReplaceAll(lesson.files["my/app.go"], "8400", api)
	if err := lesson.save(tree); err != nil {
		t.Fatal(err)
	}
	app := filepath.Join(tree, "app")
	build := exec.Command("go", "build", "-o", app, filepath.Join(tree, "my", "app.go"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = tree
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	url := "--broker-url=nats://127.0.0.1:" + broker
	for _, args := range lesson.started {
		switch args[0] {
		case "riffle":
			if args[1] == "keygen" {
				run(args...)
				continue
			}
			args = append(args, "--port="+broker)
		case "randomizer":
			args = append(args, url, "--ops-listen=127.0.0.1:0", "--api-listen=127.0.0.1:"+api)
		default:
			args = append(args, url, "--ops-listen=127.0.0.1:0")
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = tree
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	c := client.New(client.Options{})
	defer c.Close()
	at := client.At("http://127.0.0.1:" + api)
	status := func() (*client.Status, error) { return c.Status(t.Context(), at) }
	testbed.Eventually(t, "people can take part", func() bool {
		s, err := status()
		return err == nil && s.Enrolling
	})
	run(app)
	testbed.Eventually(t, "the last policy", func() bool {
		s, err := status()
		return err == nil && s.Final && s.Devices == 500
	})
	for _, args := range lesson.checks {
		if args[1] != "verify" {
			args = append(args, url)
		}
		if out := run(args...); args[1] == "audit" && len(args) == 5 && !strings.HasPrefix(out, "No breach") {
			t.Error(out)
		}
	}
	for evening, want := range map[bool]string{true: "reminder", false: "none"} {
		d, _, err := c.DecideAmong(t.Context(), at, "new", client.Request{
			Context: map[string]any{"evening": evening}, Arms: []client.Arm{{ID: "none"}, {ID: "reminder"}}})
		if err != nil {
			t.Fatal(err)
		}
		// Noise can hide what 500 people teach, so another answer is no fault.
		t.Logf("evening %v: %s, expected %s", evening, d.ID, want)
	}
}

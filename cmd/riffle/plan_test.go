package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/randomizer"
)

// runRiffle runs a command line in this process.
func runRiffle(args ...string) (stdout string, err error) {
	cmd := root()
	var b bytes.Buffer
	cmd.SetOut(&b)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(args)
	err = cmd.Execute()
	return b.String(), err
}

func planJSON(t *testing.T, args ...string) map[string]any {
	t.Helper()
	out, err := runRiffle(append([]string{"plan", "--json"}, args...)...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		t.Fatalf("%v: %v in %s", args, err, out)
	}
	return m
}

// The numbers that riffle plan must reach, asked for as people ask.
func TestPlanReachesTheMessageCounts(t *testing.T) {
	for _, c := range []struct {
		args string
		most float64
	}{
		{"--dim 15 --cohort 2000 --releases 1 --epsilon 1 --delta 1e-6 --variance 2", 9},
		{"--dim 15 --cohort 2000 --releases 1 --epsilon 1 --delta 1e-6 --variance 1.2", 19},
		{"--dim 5 --releases 32 --variance 2", 4},
		{"--dim 5 --releases 32 --variance 1.2", 9},
	} {
		m := planJSON(t, strings.Fields(c.args)...)
		if got := m["messages_per_coordinate"].(float64); got > c.most {
			t.Errorf("%s: %v messages per coordinate, want at most %v", c.args, got, c.most)
		}
		if eps := m["epsilon"].(float64); eps > 1 {
			t.Errorf("%s: epsilon %v", c.args, eps)
		}
	}
}

func TestPlanAlonePlansTheDefaultDeployment(t *testing.T) {
	out, err := runRiffle("plan")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5,000 people in 5 cohorts", "hessian", "gradient", "noise ratio",
		"measured just now", "The first cohort has"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	m := planJSON(t)
	if got := m["messages_per_user"].(float64); got > 150 {
		t.Errorf("%v messages of one person, the analyzer allows 150", got)
	}
	// More dimensions have a plan without being asked for messages, which hosts' own default limit lets through.
	eleven := planJSON(t, "--dim", "11", "--cohort", "600")
	if got := eleven["messages_per_user"].(float64); !(got > 300 &&
		got < float64(randomizer.DefaultLimits().MaxMessages)) {
		t.Errorf("%v messages of one person at 11 dimensions", got)
	}
	// One report of the learner's cohorts may be dishonest; the vectors of --releases are planned without.
	vectors := planJSON(t, "--releases", "1", "--variance", "2")
	for _, c := range []struct {
		plan      map[string]any
		dishonest float64
	}{{m, 1}, {vectors, 0}, {planJSON(t, "--dishonest-reports", "3"), 3}} {
		for _, cohort := range c.plan["cohorts"].([]any) {
			cohort := cohort.(map[string]any)
			if cohort["honest"].(float64) != cohort["minimum"].(float64)-c.dishonest {
				t.Errorf("%v dishonest reports are counted on, cohort %v", c.dishonest, cohort)
			}
		}
	}
}

func TestPlanFlags(t *testing.T) {
	// --honest and --dishonest are the same thing.
	a, b := planJSON(t, "--cohort", "500", "--honest", "0.9"), planJSON(t, "--cohort", "500", "--dishonest", "0.1")
	if a["dishonest"] != b["dishonest"] || a["messages_per_user"] != b["messages_per_user"] ||
		a["epsilon"] != b["epsilon"] {
		t.Errorf("%v and %v", a["epsilon"], b["epsilon"])
	}
	// 475 are needed, 50 of 500 are dishonest
	if got := a["cohorts"].([]any)[0].(map[string]any)["honest"]; got != 425.0 {
		t.Errorf("%v honest", got)
	}
	for args, want := range map[string]string{
		"--honest 0.8 --dishonest 0.1":      "contradict",
		"--users 100 --cohort 200":          "one of them",
		"--hessian-share all":               "--hessian-share",
		"--messages 20":                     "allow 40 messages",
		"--cohort 500 --variance 1.0001":    "--variance cannot be met",
		"--mean-messages 50 --messages 100": "budget of its own",
		"--epsilon -1":                      "--epsilon",
		"unexpected":                        "unknown command",
	} {
		if out, err := runRiffle(append([]string{"plan"}, strings.Fields(args)...)...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q; output %s", args, err, want, out)
		}
	}
	// Why there is no plan is JSON too.
	out, err := runRiffle("plan", "--json", "--messages", "20")
	var m map[string]map[string]any
	if err == nil || json.Unmarshal([]byte(out), &m) != nil || m["infeasible"]["option"] != "--messages" ||
		m["infeasible"]["remedy"] == "" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestPlanDrawsAFrontier(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pictures", "plan.png")
	if _, err := runRiffle("plan", "--cohort", "500", "--out", path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(b, []byte("\x89PNG")) {
		t.Errorf("%v, %d bytes", err, len(b))
	}
}

// Every flag says what it does.
func TestPlanFlagsAreDocumented(t *testing.T) {
	planCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Usage) < 20 {
			t.Errorf("--%s: %q", f.Name, f.Usage)
		}
	})
}

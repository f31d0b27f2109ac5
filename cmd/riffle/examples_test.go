package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/internal/testing/examples"
)

// maxUnchecked is how many fenced blocks of all pages may be marked unchecked: text diagrams and programs' output.
const maxUnchecked = 12

var roleNames = []string{"randomizer", "shuffler", "analyzer", "ingress", "issuer"}

// newExaminer knows riffle and the roles.
func newExaminer(t *testing.T) *examples.Examiner {
	o := examples.Options{Root: filepath.Join("..", ".."), Commands: map[string]func() *cobra.Command{"riffle": root},
		Roles: map[string]func() *cobra.Command{}, YAML: map[string]func(string) error{
			"columns": func(path string) error { _, err := decisions.ReadColumns(path); return err },
		}, Elsewhere: []string{"riffle-lab", "experiment"}}
	for _, name := range roleNames {
		o.Roles[name] = func() *cobra.Command { return roleCommand(name) }
	}
	return examples.New(t, o)
}

// The examples of the README and of the pages in docs are right: commands exist and take the arguments that are shown,
// files and packages are there, configurations are accepted, JSON has the keys of its type, Go compiles.
func TestExamplesInDocumentsAreRight(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	e := newExaminer(t)
	unchecked := 0
	for _, path := range e.Pages(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		faults, marked := e.Examine(string(text))
		for _, err := range faults {
			t.Errorf("%s, %v", path, err)
		}
		unchecked += marked
	}
	if unchecked > maxUnchecked {
		t.Errorf("%d blocks are marked unchecked, %d may be", unchecked, maxUnchecked)
	}
}

// What is wrong in a page is found, and named with its line.
func TestWrongExamplesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	e := newExaminer(t)
	fenced := func(info, text string) string {
		if info == "prose" {
			return text + "\n"
		}
		return "# analyzer\n\n```" + info + "\n" + text + "\n```\n"
	}
	decision := `{"arm": 1, "token": "x", "epoch": 3, "propensity": 0.5, "sampled": true, "reason": "sampled"}`
	reward := "curl -s localhost:8400/v1/rewards -d "
	for _, test := range []struct{ what, info, good, bad, want string }{
		{"a flag", "sh", "riffle plan --dim 5", "riffle plan \\\n  --dimension 5", "line 4: .*--dimension"},
		{"a flag's value", "sh", "riffle plan --dim 5", "riffle plan --dim five", "five"},
		{"a role's flag", "sh", "bin/shuffler --keys k &", "bin/shuffler --key k &", "--key"},
		{"a subcommand", "sh", "riffle keygen rotate shuffler", "riffle keygen turn shuffler", "turn"},
		{"a missing argument", "sh", "riffle evaluate log", "riffle evaluate", "evaluate"},
		{"a script", "sh", "deploy/up --cluster", "deploy/upp --cluster", "deploy/upp"},
		{"a script's flag", "sh", "deploy/up --cluster", "deploy/up --clusters", "--clusters"},
		{"a package", "sh", "go test ./pkg/...", "go test ./package/...", "./package"},
		{"a test", "sh", "go test ./pkg/privacy -run 'Brute|x'", "go test ./pkg/privacy -run Brutal", "Brutal"},
		{"a path of the API", "sh", "curl localhost:8400/v1/status", "curl localhost:8400/v1/state", "/v1/state"},
		{"a request's key", "sh", reward + `'{"token": "x", "reward": 1}'`, reward + `'{"token": "x", "r": 1}'`, `"r"`},
		{"an arm", "json decision-request", `{"arms": [{"id": "a"}, [1]]}`, `{"arms": [{"ID": "a"}]}`, `no "id"`},
		{"a schema", "json schema", `{"version": 1, "arms": [{"name": "x", "kind": "flag"}], "terms": [["x"]]}`,
			`{"version": 1, "arms": [{"name": "x", "kind": "flag"}], "terms": [["y"]]}`, "term 0"},
		{"a JSON key", "json decision", decision, strings.Replace(decision, "arm", "hand", 1), `line 4: .*"hand"`},
		{"a missing key", "json person", `{"arms": [[0.1]], "rewards": [1]}`, `{"arms": [[0.1]]}`, "rewards"},
		{"a YAML key", "yaml shuffler", "min_cohort: 80", "min_cohrt: 80", "line 4: .*min_cohrt"},
		{"a YAML value", "yaml", "log: {level: warn}", "log: {level: loud}", "loud"}, // read by the role of the heading
		{"a log", "log", `{"arms": [[1]], "arm": 0, "reward": 1, "propensity": 1}`,
			`{"arms": [[1]], "arm": 0, "propensity": 1}`, `line 4: .*"reward" is missing`},
		{"columns", "yaml columns", "arm: offer", "arm: [offer]", `"arm"`},
		{"Go", "go", "package main\nfunc main() { print(1) }", "package main\nfunc main() { prin(1) }", "prin"},
		{"a flag in prose", "prose", "See `riffle plan --dim D`.", "See `riffle plan --dims D`.", "--dims"},
		{"a flag alone", "prose", "Set `--max-report-size`.", "Set `--max-reports-size`.", "--max-reports-size"},
		{"a configuration key", "prose", "Set `admission.sponsor_share`.", "Set `admission.share`.", "admission.share"},
		{"a path", "prose", "See `pkg/privacy`.", "See\n`pkg/private`.", "line 2: .*pkg/private"},
		{"a name", "prose", "See `pkg/privacy.Certify`.", "See `pkg/privacy.Solved`.", "declares no Solved"},
		{"a wrapped command", "prose", "See `riffle plan\n--json`.", "See `riffle plan\n--jsn`.", "line 1: .*--jsn"},
	} {
		if faults, _ := e.Examine(fenced(test.info, test.good)); len(faults) > 0 {
			t.Errorf("%s: what is right is refused: %v", test.what, faults)
		}
		faults, _ := e.Examine(fenced(test.info, test.bad))
		if len(faults) != 1 || !regexp.MustCompile("(?s)"+test.want).MatchString(faults[0].Error()) {
			t.Errorf("%s: found %v, want one fault with %q", test.what, faults, test.want)
		}
	}
	faults, marked := e.Examine(fenced("text unchecked", "x") + fenced("sh unchecked", "x") + fenced("", "x"))
	if marked != 2 || len(faults) != 1 {
		t.Errorf("%d blocks are marked, want 2; %v, want one fault for the block that is not marked", marked, faults)
	}
}

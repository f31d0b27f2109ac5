package scoring_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment/policyfile/scoring"
	"github.com/riffle-dp/riffle/pkg/glm"
)

const (
	worlds   = 20
	requests = 1000 // of each world
)

// driver asks the module of each world for its decisions.
const driver = `
import importlib, json
for line in sys.stdin:
    one = json.loads(line)
    module = importlib.import_module(one["module"])
    for q in one["requests"]:
        draws = iter(q["draws"])
        arm, shares = module.choose(q["context"], q["arms"], q["default"], q["exclude"], q["learning"],
                                    lambda: next(draws))
        if not isinstance(shares, dict):
            raise SystemExit("no dict")
        print(json.dumps([arm, list(shares.values())]))
`

// The file for Python plays the arm that a device plays, with the same probabilities to the last bit, in worlds of
// every play but those that draw from a design, with texts that would escape from a literal.
func TestPythonChoosesAsADevice(t *testing.T) {
	t.Parallel()
	n := requests
	if testing.Short() {
		n /= 20
	}
	folder := t.TempDir()
	var input strings.Builder
	var asked []request
	seen := map[glm.Play]bool{}
	for seed := range uint64(worlds) {
		w := newWorld(t, seed, false)
		seen[w.policy.Play] = true
		text, err := scoring.Python(w.file)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("world%d", seed)
		if err := os.WriteFile(filepath.Join(folder, name+".py"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		all := make([]request, n)
		for i := range all {
			all[i] = w.ask(t, false)
		}
		asked = append(asked, all...)
		line, err := json.Marshal(map[string]any{"module": name, "requests": all})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&input, "%s\n", line)
	}
	if len(seen) < 6 {
		t.Errorf("the worlds play %v only", seen)
	}
	lines := strings.Split(strings.TrimSpace(python(t, folder, driver, input.String())), "\n")
	if len(lines) != len(asked) {
		t.Fatalf("%d answers to %d requests", len(lines), len(asked))
	}
	wrong := 0
	for i, q := range asked {
		var answer []json.RawMessage
		var shares []float64
		if err := json.Unmarshal([]byte(lines[i]), &answer); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(answer[1], &shares); err != nil {
			t.Fatal(err)
		}
		var arm any = float64(q.arm)
		if q.ids != nil {
			arm = q.ids[q.arm]
		}
		var got any
		if err := json.Unmarshal(answer[0], &got); err != nil {
			t.Fatal(err)
		}
		if got != arm || !slices.Equal(shares, q.probabilities) {
			if wrong++; wrong <= 3 {
				t.Errorf("world %d: played %v with %v, a device %v with %v", i/n, got, shares, arm, q.probabilities)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d decisions differ", wrong, len(asked))
	}
	if files, err := filepath.Glob(filepath.Join(folder, "hacked*")); err != nil || len(files) > 0 {
		t.Errorf("a text of the schema ran: %v %v", files, err)
	}
}

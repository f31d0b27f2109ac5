package guards

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var (
	update = flag.Bool("update", false, "write docs/conditions/guards.csv")
	only   = flag.String("guards", "", "the guards that TestEveryGuardIsHeld removes: a regular expression of file "+
		"and name")
	tests = flag.String("tests", "", "run the tests of this regular expression without a guard, and say which of "+
		"them fail")
)

const (
	moduleRoot = "../../.."
	listFile   = moduleRoot + "/docs/conditions/guards.csv"
)

// guard is one place of the code that keeps a promise of privacy or of accuracy.
type guard struct {
	what     string // in words
	file     string // below the top of the module
	old, new string // text that is in the file once, and what is put in its place without the guard
	at       string // folder of the test
	test     string
}

// guards are all lists, in the order of the file.
func guards() []guard {
	return slices.Concat(noiseGuards, deviceGuards, channelGuards, analyzerGuards, estimateGuards, banditGuards,
		curatorGuards, labGuards)
}

// name is what a flag selects a guard by.
func (g guard) name() string { return g.file + " " + g.what }

// record is the guard's line of the file.
func (g guard) record() []string { return []string{g.what, g.file, g.at, g.test} }

// without is the text of the guard's file when the guard is taken away.
func (g guard) without() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(moduleRoot, g.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(g.old)); n != 1 {
		return nil, fmt.Errorf("%s has %d times, and must have once: %s", g.file, n, g.old)
	}
	return bytes.Replace(text, []byte(g.old), []byte(g.new), 1), nil
}

// Every guard of the list is in the code as the list says, and its test is there.
func TestTheListFitsTheCode(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range guards() {
		if seen[g.name()] {
			t.Errorf("%s: occurs twice in the list", g.name())
		}
		seen[g.name()] = true
		text, err := g.without()
		if err != nil {
			t.Errorf("%s: say anew how to remove it: %v", g.name(), err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), g.file, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: what is left is no Go: %v", g.name(), err)
		}
		if !declared(t, g.at, g.test) {
			t.Errorf("%s: %s has no test %s", g.name(), g.at, g.test)
		}
	}
}

// declared reports whether a folder has a test of the name.
func declared(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(moduleRoot, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("\nfunc "+test+"(t *testing.T)")) {
			return true
		}
	}
	return false
}

// docs/conditions/guards.csv is the list.
func TestTheFileHasTheList(t *testing.T) {
	var want bytes.Buffer
	w := csv.NewWriter(&want)
	records := [][]string{{"guard", "removed from", "package of the test", "fails without it"}}
	for _, g := range guards() {
		records = append(records, g.record())
	}
	if err := w.WriteAll(records); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(listFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(listFile); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("docs/conditions/guards.csv is another list of guards (%v): run "+
			"go test ./internal/testing/guards -run File -args -update", err)
	}
}

// Without a guard its test fails. The tests pass with it, or the run of all tests would not.
func TestEveryGuardIsHeld(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("compiles and runs a test for every guard: RIFFLE_LONG=1")
	}
	selected, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guards() {
		if !selected.MatchString(g.name()) {
			continue
		}
		failed, out, err := g.removed(t)
		switch {
		case err != nil:
			t.Errorf("%s: %v\n%s", g.name(), err, out)
		case !slices.Contains(failed, g.test):
			t.Errorf("%s: %s passes without it; what fails: %q\n%s", g.name(), g.test, failed, out)
		case *tests != "":
			t.Logf("%s: %q fail without it", g.name(), failed)
		}
	}
}

var failure = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// removed runs the guard's test without the guard, and says which tests failed. What is compiled lies beside the
// module: no file of it is changed.
func (g guard) removed(t *testing.T) (failed []string, out []byte, err error) {
	t.Helper()
	text, err := g.without()
	if err != nil {
		return nil, nil, err
	}
	root, err := filepath.Abs(moduleRoot)
	if err != nil {
		return nil, nil, err
	}
	changed, overlay := filepath.Join(t.TempDir(), "changed.go"), filepath.Join(t.TempDir(), "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, g.file): changed}})
	if err != nil {
		return nil, nil, err
	}
	for file, b := range map[string][]byte{changed: text, overlay: list} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			return nil, nil, err
		}
	}
	run := cmp.Or(*tests, "^"+g.test+"$")
	// Without paths, what the change does not touch is compiled once for all.
	c := exec.Command("go", "test", "-trimpath", "-vet=off", "-count=1", "-timeout", "20m", "-overlay", overlay,
		"-run", run, "./"+g.at)
	c.Dir, c.Env = root, append(os.Environ(), "RIFFLE_LONG=")
	out, err = c.CombinedOutput()
	for _, m := range failure.FindAllSubmatch(out, -1) {
		failed = append(failed, string(m[1]))
	}
	if len(failed) > 0 {
		return failed, out, nil
	}
	if err == nil {
		err = fmt.Errorf("nothing fails without it")
	}
	return nil, out, err
}

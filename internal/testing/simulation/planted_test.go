package simulation

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	update    = flag.Bool("update", false, "write what TestPlantedBugsAreFound finds")
	onlyPlant = flag.String("bug", "", "the one planted bug that TestPlantedBugsAreFound looks for")
)

const (
	moduleRoot = "../../.."
	page       = moduleRoot + "/lab/docs/tables/planted-bugs.txt"
	// mostLists is within how many lists each planted bug must be found.
	mostLists = 2000
	// mostRuns bounds what is spent on making a list smaller that finds a planted bug.
	mostRuns = 60
)

// planted are the patches of testdata/planted. Each is one bug that the system must not have; its first line says
// which.
func planted(t *testing.T) []string {
	t.Helper()
	patches, err := filepath.Glob("testdata/planted/*.patch")
	if err != nil || len(patches) < 10 {
		t.Fatalf("%d planted bugs, want ten: %v", len(patches), err)
	}
	return patches
}

// rare are the patches of testdata/rare: bugs that show only where several things meet, as in a fixed list.
func rare(t *testing.T) []string {
	t.Helper()
	patches, err := filepath.Glob("testdata/rare/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no planted bugs for the fixed lists: %v", err)
	}
	return patches
}

func bugOf(patch string) string { return strings.TrimSuffix(filepath.Base(patch), ".patch") }

func git(dir string, args ...string) error {
	c := exec.Command("git", args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("git %v: %w: %s", args, err, out)
	}
	return nil
}

// The planted bugs can be planted in today's code, and the page says of each what found it.
func TestPlantedBugsApply(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob("testdata/records/*.patch") // which no single run shows
	if err != nil {
		t.Fatal(err)
	}
	for _, patch := range slices.Concat(planted(t), rare(t), records) {
		path, err := filepath.Abs(patch)
		if err != nil {
			t.Fatal(err)
		}
		if err := git(moduleRoot, "apply", "--check", path); err != nil {
			t.Errorf("%s: plant it anew: %v", patch, err)
		}
		if !slices.Contains(records, patch) {
			sights(t, patch)
		}
		row := "| `" + bugOf(patch) + "` | " + described(t, patch) + " |"
		if !slices.Contains(records, patch) && !strings.Contains(string(text), row) {
			t.Errorf("lab/docs/tables/planted-bugs.txt does not say what found %s: run "+
				"RIFFLE_LONG=1 go test ./internal/testing/simulation -run Planted -timeout 3h -args -update",
				bugOf(patch))
		}
	}
}

// described is what a patch says of its bug.
func described(t *testing.T, patch string) string {
	t.Helper()
	b, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// sights are what a patch says that oracles say of its bug: an oracle's name, and words of what it says. A find by
// another one is looked at before the patch names it: it may be of something else.
func sights(t *testing.T, patch string) []string {
	t.Helper()
	b, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "\n")
	line, _, _ := strings.Cut(after, "\n")
	all, ok := strings.CutPrefix(line, "Seen as: ")
	if !ok {
		t.Fatalf("%s: its second line does not say what is seen of the bug, as \"Seen as: retry: two manifests; "+
			"account: "+"unaccounted\"", patch)
	}
	return strings.Split(all, "; ")
}

// seen is the first violation that shows the bug.
func seen(sights, violations []string) (what string, ok bool) {
	for _, v := range violations {
		for _, s := range sights {
			oracle, words, _ := strings.Cut(s, ": ")
			if said, is := strings.CutPrefix(v, oracle+": "); is && strings.Contains(said, words) {
				return v, true
			}
		}
	}
	return "", false
}

// What another oracle says is no find, nor what the same one says of something else.
func TestAFindIsOfTheBugItself(t *testing.T) {
	all := []string{"retry: two manifests", "account: unaccounted"}
	for v, want := range map[string]bool{
		"retry: two manifests of round 1.0":              true,
		"account: shuffler: 1 items unaccounted for":     true,
		"retry: the broker holds other chunks of it":     false,
		"wish: two manifests of round 1.0":               false,
		"retrying: two manifests of round 1.0":           false,
		"counts: round 2.0: retry: two manifests of 1.0": false,
	} {
		if what, ok := seen(all, []string{"counts: something else", v}); ok != want || ok && what != v {
			t.Errorf("%q: %q, %t", v, what, ok)
		}
	}
}

// Each planted bug, in a copy of the module, is found within 2000 lists, as what its patch says.
func TestPlantedBugsAreFound(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("compiles and runs the simulation for every planted bug: RIFFLE_LONG=1")
	}
	var rows strings.Builder
	for _, patch := range planted(t) {
		if *onlyPlant != "" && *onlyPlant != bugOf(patch) {
			continue
		}
		var s summary
		plant(t, patch, &s, "^TestLists$", "-json", "-lists", fmt.Sprint(mostLists), "-shrink", fmt.Sprint(mostRuns))
		if len(s.Violations) == 0 {
			t.Errorf("%s: not found within %d lists", bugOf(patch), s.Lists)
			continue
		}
		v := s.Violations[0]
		what, ok := seen(sights(t, patch), v.What)
		if !ok {
			t.Errorf("%s: not seen as one of %q: %q", bugOf(patch), sights(t, patch), v.What)
			continue
		}
		row := fmt.Sprintf("| `%s` | %s | %d | %d | %s | %s |\n", bugOf(patch), described(t, patch), s.Lists, v.Seed,
			shortened(what), left(v.List))
		t.Log(row)
		rows.WriteString(row)
	}
	tabulate(t, "|---|---|---|---|---|---|", rows.String())
}

// Each bug that is rare, in a copy of the module, is found by a fixed list.
func TestRarePlantedBugsAreFound(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("compiles the simulation for every planted bug: RIFFLE_LONG=1")
	}
	var rows strings.Builder
	for _, patch := range rare(t) {
		if *onlyPlant != "" && *onlyPlant != bugOf(patch) {
			continue
		}
		found := map[string][]string{}
		plant(t, patch, &found, "^TestFixedLists$", "-fixed")
		rows.WriteString(rareRow(t, patch, found))
	}
	tabulate(t, "|---|---|---|---|", rows.String())
}

// rareRow is the row of the page for a rare bug: the first fixed list that shows it.
func rareRow(t *testing.T, patch string, found map[string][]string) string {
	t.Helper()
	for _, list := range slices.Sorted(maps.Keys(found)) {
		t.Logf("%s: %s: %q", bugOf(patch), list, found[list])
		if what, ok := seen(sights(t, patch), found[list]); ok {
			return fmt.Sprintf("| `%s` | %s | `%s` | %s |\n", bugOf(patch), described(t, patch), list, shortened(what))
		}
	}
	t.Errorf("%s: not seen as one of %q", bugOf(patch), sights(t, patch))
	return ""
}

// tabulate writes the rows of the table of the page whose rule is given, up to the end of the table.
func tabulate(t *testing.T, rule, rows string) {
	t.Helper()
	if !*update || *onlyPlant != "" || t.Failed() {
		return
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, tail, found := strings.Cut(string(b), "\n"+rule+"\n")
	if !found {
		t.Fatal("lab/docs/tables/planted-bugs.txt has no table")
	}
	for strings.HasPrefix(tail, "|") {
		_, tail, _ = strings.Cut(tail, "\n")
	}
	if err := os.WriteFile(page, []byte(head+"\n"+rule+"\n"+rows+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// plant runs a test on a copy of the module with a bug, and reads the result that it writes to the file of a flag.
func plant(t *testing.T, patch string, result any, test, flag string, args ...string) {
	t.Helper()
	path, err := filepath.Abs(patch)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, part := range []string{"go.mod", "go.sum", "internal", "messages", "pkg"} {
		if err := copied(filepath.Join(moduleRoot, part), filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := git(dir, "apply", path); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "result.json")
	// Without paths, what the bug does not touch is compiled once for all copies.
	c := exec.Command("go", slices.Concat([]string{
		"test", "-trimpath", "-vet=off", "-timeout", "2h", "./internal/testing/simulation", "-run", test, "-args",
		flag, file,
	}, args)...)
	c.Dir = dir
	out, _ := c.CombinedOutput() // a list that fails is what is wanted; without a result it is not
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%s: %v: %s", patch, err, out)
	}
	if err := json.Unmarshal(b, result); err != nil {
		t.Fatal(err)
	}
}

// copied copies a file, or a folder with everything below it.
func copied(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, fs.FileMode(0o644))
}

// shortened cuts a violation to what a table has room for.
func shortened(v string) string {
	const room = 160
	if len(v) <= room {
		return v
	}
	return v[:strings.LastIndex(v[:room], " ")] + " ..."
}

// left is what a list that was made smaller still does, for people.
func left(l List) string {
	text := []string{fmt.Sprintf("`%s`", cmp.Or(l.Channel, "shuffle"))}
	for _, option := range []struct {
		is   bool
		name string
	}{{l.Panel, "panel"}, {l.Paper, "profile `paper`"}, {l.Program, "profile `linucb`"},
		{l.ServerNoise, "noise of servers"}} {
		if option.is {
			text = append(text, option.name)
		}
	}
	head := strings.Join(text, ", ") + ": "
	text = nil
	for _, o := range l.Ops {
		words := []string{string(o.Do)}
		for _, word := range []string{o.Who, o.What} {
			if word != "" {
				words = append(words, word)
			}
		}
		if o.N > 0 {
			words = append(words, fmt.Sprint(o.N))
		}
		if o.Ms > 0 {
			words = append(words, fmt.Sprintf("%d ms", o.Ms))
		}
		text = append(text, strings.Join(words, " "))
	}
	return head + strings.Join(text, "; ")
}

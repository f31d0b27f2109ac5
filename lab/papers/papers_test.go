package papers_test

import (
	"bytes"
	"flag"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/riffle-dp/riffle/lab/experiment"
	"github.com/riffle-dp/riffle/lab/papers"
)

var update = flag.Bool("update", false, "write lab/docs/papers.md")

const (
	top  = "../.."
	page = top + "/lab/docs/papers.md"
)

func TestPapersPageIsCurrent(t *testing.T) {
	root := os.DirFS(top)
	all, err := papers.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("no file in %s", papers.Folder)
	}
	for _, fault := range papers.Check(root, all) {
		t.Error(fault)
	}
	want := papers.Page(all)
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, want) {
		t.Errorf("lab/docs/papers.md is not current (%v): run go test ./lab/papers -update", err)
	}
}

// Every numbered algorithm, table and figure of the papers, counted in the papers themselves, has a row. (Algorithm 3
// of the first is in no copy.)
func TestEveryNumberedItemHasARow(t *testing.T) {
	all, err := papers.Load(os.DirFS(top))
	if err != nil {
		t.Fatal(err)
	}
	items := map[string]string{}
	for _, p := range all {
		for _, r := range p.Rows {
			items[path.Base(p.File)] += r.Item + "\n"
		}
	}
	for file, want := range map[string]map[string][]string{
		"glm.yaml": {"Algorithm": {"1", "2", "4", "5", "6", "7"}, "Table": {"1", "2"}, "Figure": {"1a", "1b"},
			"Theorem": {"5.1", "6.2", "E.3", "F.1", "J.8", "K.1"}},
		"improved.yaml": {"Algorithm": {"1", "2", "3", "4", "5", "6", "7", "8", "9"}, "Table": {"1"}, "Figure": {"1"},
			"Theorem": {"3.2", "3.4", "4.1", "A.1", "A.2", "C.2", "C.3", "E.1", "F.2"}},
		"layered.yaml": {"Algorithm": {"1", "2", "3", "4", "5", "6"}, "Figure": {"1", "2"},
			"Theorem": {"1", "2", "3", "4"}},
		"linear.yaml": {"Algorithm": {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13"},
			"Table": {"1"}, "Theorem": {"4.4", "4.5", "5.1", "5.2", "5.3", "6.2", "6.3", "6.4", "C.9", "D.2", "E.7"}},
	} {
		for kind, numbers := range want {
			for _, n := range numbers {
				listed := `\b` + kind + `s? ([\w.]+, )*` + regexp.QuoteMeta(n) + `([^\w.]|$)`
				if !regexp.MustCompile(listed).MatchString(items[file]) {
					t.Errorf("%s has no row for %s %s", file, kind, n)
				}
			}
		}
	}
}

// Every reference to nothing is found, and so is a learner without a row.
func TestRowsThatPointToNothingAreFound(t *testing.T) {
	root := os.DirFS(top)
	good := papers.Row{Item: "Algorithm 1", What: "the paper profile", File: "pkg/glm/learner/paper.go",
		Symbol: "paperRun.open", Command: "riffle-lab simulate headline --seeds 2 --only riffle,uniform --json"}
	faults := func(change func(*papers.Row)) string {
		r := good
		change(&r)
		var own []string
		paper := papers.Paper{File: "x.yaml", Paper: papers.Title{Title: "T"}, Rows: []papers.Row{r}}
		for _, f := range papers.Check(root, []papers.Paper{paper}) {
			if strings.HasPrefix(f, "x.yaml") {
				own = append(own, f)
			}
		}
		return strings.Join(own, "\n")
	}
	if f := faults(func(*papers.Row) {}); f != "" {
		t.Fatalf("a good row: %s", f)
	}
	for name, c := range map[string]struct {
		change func(*papers.Row)
		want   string
	}{
		"no item":         {func(r *papers.Row) { r.Item = "" }, "needs an item"},
		"no file":         {func(r *papers.Row) { r.File = "" }, "needs a file"},
		"no command":      {func(r *papers.Row) { r.Command = "" }, "needs a file and a command"},
		"no number":       {func(r *papers.Row) { r.WhyNot = "too slow" }, "no number"},
		"file":            {func(r *papers.Row) { r.File = "pkg/glm/learner/papers.go" }, "papers.go"},
		"symbol":          {func(r *papers.Row) { r.Symbol = "paperRun.opens" }, "declares no"},
		"a field":         {func(r *papers.Row) { r.Symbol = "schedule" }, "declares no"},
		"experiment":      {func(r *papers.Row) { r.Command = "riffle-lab simulate headlines" }, "none is called"},
		"two experiments": {func(r *papers.Row) { r.Command = "riffle-lab simulate headline kappa" }, "2 experiments"},
		"algorithm": {func(r *papers.Row) { r.Command = "riffle-lab simulate headline --only rifle" },
			"no algorithm"},
		"flag": {func(r *papers.Row) { r.Command = "riffle-lab simulate headline --seed 2" },
			"no flag --seed"},
		"command": {func(r *papers.Row) { r.Command = "riffle-lab simulates headline" }, "no command"},
		"program": {func(r *papers.Row) { r.Command = "python table.py" }, "neither riffle"},
		"package": {func(r *papers.Row) { r.Command = "go test ./pkg/glmm -run TestBounds" }, "no test"},
		"test": {func(r *papers.Row) { r.Command = "go test ./pkg/glm/statistic -run TestBoundsHoldX" },
			"no test"},
		"all tests": {func(r *papers.Row) { r.Command = "go test ./..." }, "names no package"},
	} {
		if f := faults(c.change); !strings.Contains(f, c.want) {
			t.Errorf("%s: %q, want %q", name, f, c.want)
		}
	}
	for _, command := range []string{
		"RIFFLE_LONG=1 go test ./pkg/glm/statistic -run 'TestBoundsHold$'", "riffle demo --data synthetic",
		"riffle plan --json",
	} {
		if f := faults(func(r *papers.Row) { r.Command = command }); f != "" {
			t.Errorf("%s: %s", command, f)
		}
	}
}

// With no rows at all every learner, every file that makes one and every paper of an experiment is missed.
func TestLearnersWithoutARowAreFound(t *testing.T) {
	root := fstest.MapFS{"lab/learn/bandit/new.go": {Data: []byte(
		"package bandit\n\nfunc New(s learn.Setting) (*learn.Learner, error) { return nil, nil }\n")},
		"lab/learn/bandit/part.go": {Data: []byte("package bandit\n\nfunc Part(people int) int { return people }\n")}}
	text := strings.Join(papers.Check(root, nil), "\n")
	want := []string{"new.go makes a learner, New"}
	for _, kind := range experiment.Learners() {
		want = append(want, "runs the learner "+kind)
	}
	for _, name := range experiment.Names() {
		if e, err := experiment.Load(name); err != nil || e.Paper != "" {
			want = append(want, "experiment "+name+" is of")
		}
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("not found: %s", w)
		}
	}
	if strings.Contains(text, "part.go") {
		t.Error("a file that makes no learner needs no row")
	}
}

// A file with a key that nobody reads, or without YAML, is refused; a title may be a string or its parts.
func TestPapersAreReadStrictly(t *testing.T) {
	load := func(text string) ([]papers.Paper, error) {
		return papers.Load(fstest.MapFS{path.Join(papers.Folder, "x.yaml"): &fstest.MapFile{Data: []byte(text)}})
	}
	for _, text := range []string{"paper: T\nrow: []\n", "paper: [", "paper: T\nrows: [{item: A, mesured: 3}]\n"} {
		if _, err := load(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	all, err := load("paper: {title: T, authors: A and B, year: 2024}\nrows: [{item: A, what: b}]\n")
	if err != nil || all[0].Paper.Title != "T" {
		t.Fatalf("%+v, %v", all, err)
	}
	if s := string(papers.Page(all)); !strings.Contains(s, "A and B, 2024.") ||
		!strings.Contains(s, "- A: not repeated\n") {
		t.Error(s)
	}
	if all, err = load("paper: T\nrows: [{item: A, what: b}]\n"); err != nil || all[0].Paper.Title != "T" {
		t.Errorf("%+v, %v", all, err)
	}
}

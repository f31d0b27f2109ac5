package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
)

var update = flag.Bool("update", false, "write the generated pages instead of comparing them")

var docs = filepath.Join("..", "..", "docs")

// Every alert is explained under its name, and nothing else is.
func TestAlertsAreExplained(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(docs, "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := func(pattern string, text []byte) map[string]bool {
		out := map[string]bool{}
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			out[string(m[1])] = true
		}
		return out
	}
	alerts, explained := names(`(?m)^\s*- alert: (\w+)`, rules), names(`(?m)^### (Riffle\w+)`, page)
	if len(alerts) == 0 {
		t.Fatal("no alerts")
	}
	for name := range alerts {
		if !explained[name] {
			t.Errorf("%s is not explained in docs/operations.md", name)
		}
	}
	for name := range explained {
		if !alerts[name] {
			t.Errorf("docs/operations.md explains %s, which is no alert", name)
		}
	}
}

// Every breach that an audit can find is explained, and docs/audit.md lists all of them by who can have done it.
func TestBreachesAreExplained(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "internal", "audit", "whats.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t\w+\s+What = "(\w+)"`).FindAllSubmatch(source, -1) {
		declared[string(m[1])] = true
	}
	if len(declared) == 0 {
		t.Fatal("no breaches")
	}
	var by []string // who can have done it, in the order of the explanations
	lists := map[string]string{}
	for _, e := range audit.Explanations() {
		if !declared[string(e.What)] {
			t.Errorf("%s is explained twice, or is no breach", e.What)
		}
		delete(declared, string(e.What))
		if lists[e.By] == "" {
			by = append(by, e.By)
		}
		lists[e.By] += fmt.Sprintf("- `%s`: %s\n", e.What, e.Means)
	}
	for what := range declared {
		t.Errorf("%s has no explanation", what)
	}
	var list strings.Builder
	for _, who := range by {
		fmt.Fprintf(&list, "\n*By %s:*\n\n%s", who, lists[who])
	}
	const begin, end = "<!-- breaches: written by go test ./cmd/riffle -run Breaches -update -->\n", "\n<!-- breaches: end -->"
	path := filepath.Join(docs, "audit.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	written, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("docs/audit.md has no place for the breaches")
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+list.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written != list.String() {
		t.Error("docs/audit.md does not list the breaches as they are explained: run go test ./cmd/riffle -run Breaches -update")
	}
}

// Every test that the README or a page in docs names exists. A name that ends in an ellipsis stands for any test whose
// name begins so.
func TestNamedTestsExist(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	root := filepath.Join("..", "..")
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	exist, in := map[string]bool{}, map[string]bool{}
	if err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			exist[string(m[1])], in[filepath.Base(filepath.Dir(path))+" "+string(m[1])] = true, true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b((?:Test|Benchmark|Fuzz)[A-Z]\w*)(…?)`)
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		names := named.FindAllStringSubmatch(string(text), -1)
		if filepath.Base(page) == "conditions.md" && len(names) < 100 {
			t.Errorf("%s names %d tests only", page, len(names))
		}
		for _, m := range names {
			found := exist[m[1]]
			for name := range exist {
				found = found || m[2] != "" && strings.HasPrefix(name, m[1])
			}
			if !found {
				t.Errorf("%s names %s, which is no test", page, m[0])
			}
		}
	}
	// The conditions name packages by letters, too.
	packages := map[string]string{
		"R": "randomizer", "S": "shuffler", "A": "analyzer", "C": "contract", "D": "demo", "P": "plan",
	}
	text, err := os.ReadFile(filepath.Join(docs, "conditions.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("\\b([RSACDP]) `(Test\\w+)`").FindAllStringSubmatch(string(text), -1) {
		if !in[packages[m[1]]+" "+m[2]] {
			t.Errorf("conditions.md looks for %s in %s, where it is not", m[2], packages[m[1]])
		}
	}
}

package main

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/pkg/plan"
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
	const begin, end = "<!-- breaches: written by go test ./cmd/riffle -run Breaches -update -->\n",
		"\n<!-- breaches: end -->"
	holdsBetween(t, "audit.md", begin, end, list.String(), "Breaches")
}

// holdsBetween holds that a page of docs has a text between two marks, or writes it there with -update; run is the name
// by which the test is run.
func holdsBetween(t *testing.T, page, begin, end, want, run string) {
	t.Helper()
	path := filepath.Join(docs, page)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	written, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("docs/%s has no place for what is written there: %s", page, begin)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written != want {
		t.Errorf("docs/%s is not current: run go test ./cmd/riffle -run %s -update\n%s", page, run, want)
	}
}

// Every test that the README, a page in docs or the list of the conditions' tests names exists. A name that ends in an
// ellipsis is that of any test whose name begins so.
func TestNamedTestsExist(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	root := filepath.Join("..", "..")
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	exist := map[string]bool{}
	if err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			exist[m[1]] = true
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
	for _, page := range append(pages, filepath.Join(root, "README.md"), conditionsFile) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			found := exist[m[1]]
			for name := range exist {
				found = found || m[2] != "" && strings.HasPrefix(name, m[1])
			}
			if !found {
				t.Errorf("%s names %s, which is no test", page, m[0])
			}
		}
	}
}

// conditionsFile lists the tests of the conditions of docs/conditions.md.
var conditionsFile = filepath.Join(docs, "conditions", "tests.csv")

// Every condition on the page has a test in the file, in every channel, and the file has no other conditions.
func TestEveryConditionHasTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docs, "conditions.md"))
	if err != nil {
		t.Fatal(err)
	}
	var stated []string
	for _, m := range regexp.MustCompile(`(?m)^(\d+)\. `).FindAllStringSubmatch(string(page), -1) {
		stated = append(stated, m[1])
		if m[1] != strconv.Itoa(len(stated)) {
			t.Fatalf("docs/conditions.md counts %s as number %d", m[1], len(stated))
		}
	}
	text, err := os.ReadFile(conditionsFile)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	held := map[string][]string{} // the channels in which a condition has tests
	for _, row := range rows[1:] {
		for _, test := range strings.Fields(row[2]) {
			if !strings.HasPrefix(test, "Test") {
				t.Errorf("condition %s: %s is no test", row[0], test)
			}
		}
		if row[2] == "" || !slices.Contains(stated, row[0]) {
			t.Errorf("no test, or no condition on the page: %q", row)
		}
		held[row[0]] = append(held[row[0]], strings.Fields(row[1])...)
	}
	for _, number := range stated {
		for _, c := range plan.Channels() {
			if in := held[number]; !slices.Contains(in, string(c)) && !slices.Contains(in, "all") {
				t.Errorf("condition %s has no test in %s", number, c)
			}
		}
	}
}

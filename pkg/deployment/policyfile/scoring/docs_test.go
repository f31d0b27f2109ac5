package scoring_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile/scoring"
)

// The examples of docs/policy.md run with the policy of the golden file, and say what the page says.
func TestExamplesOfThePageRun(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		m := regexp.MustCompile("(?s)```" + language + " unchecked\n(.*?)```").FindSubmatch(page)
		if m == nil {
			t.Fatalf("docs/policy.md has no block of %s", language)
		}
		return string(m[1])
	}
	text, err := os.ReadFile(filepath.Join("..", "testdata", "policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := policyfile.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, write := range map[string]func(*policyfile.File) ([]byte, error){
		"choose.py": scoring.Python, "choose.sql": scoring.SQL,
	} {
		text, err := write(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, want, said := strings.Cut(block("python"), "  # ")
	if got := python(t, folder, block("python"), ""); !said || got != want {
		t.Errorf("the page says %q, Python %q", want, got)
	}
	const run = `
import sqlite3
db = sqlite3.connect(":memory:")
db.executescript(sys.stdin.read())
print([row[1] for row in db.execute(open("choose.sql").read()) if row[3] == 1])
`
	if got := python(t, folder, run, block("sql")); strings.TrimSpace(got) != "[2]" {
		t.Errorf("the query plays %s", got)
	}
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// riffle audit explain reads an export as riffle audit does, answers in words and in JSON, and lists what there is
// where a name is unknown. riffle audit --html writes the page, with a breach, too.
func TestAuditExplainsAndWritesAPage(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	t.Parallel()
	c := ledger.Small(glm.Joint, plan.Central, 3)
	c.Batch = 12
	l, err := ledger.Make(ledger.Options{Configuration: c})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "export")
	if _, err := audit.WriteFolder(t.Context(), dir, l, l.Bundle); err != nil {
		t.Fatal(err)
	}
	html := filepath.Join(t.TempDir(), "audit.html")
	for _, x := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"explain", "release", "2.0", dir}, 0, "Release 2.0"},
		{[]string{"explain", "2", dir}, 0, "Release 2.0"},
		{[]string{"explain", "epoch 1", dir}, 0, "Release 1.0"},
		{[]string{"explain", "plan", "1", dir}, 0, "The plan of epoch 1"},
		{[]string{"explain", "split_view"}, 0, "contradict each other"},
		{[]string{"explain", "split_view", dir}, 0, "No breach, here or elsewhere"},
		{[]string{"explain", "epoch", "99", dir}, 1, "the epochs 1 to"},
		{[]string{"explain", "nonsense", dir}, 1, "split_view"},
		{[]string{"explain", "1", dir, dir}, 1, "one folder"},
		{[]string{dir, "--html", html}, 0, "No breach"},
		{[]string{dir, "--html", filepath.Join(dir, "no", "such", "page.html")}, 1, "page.html"},
	} {
		out, exit := runRiffle(t, append([]string{"audit"}, x.args...)...)
		if exit != x.exit || !strings.Contains(out, x.want) {
			t.Errorf("%q: exit %d, want %d and %q in\n%s", x.args, exit, x.exit, x.want, out)
		}
	}
	doc, err := os.ReadFile(html)
	if err != nil || !strings.Contains(string(doc), "Nothing is wrong in what was checked") ||
		!strings.Contains(string(doc), "lay beside the logs") {
		t.Errorf("the page does not give the result: %v", err)
	}
	trust := filepath.Join(dir, "bundle.json")
	text, exit := runRiffle(t, "audit", "explain", "1", dir, "--trust", trust, "--json")
	var answer struct {
		Facts struct {
			Deployment string
			Rounds     []struct{ Reports, Enrolled uint32 }
		}
		Text []struct{ Title string }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || exit != 0 ||
		answer.Facts.Deployment != ledger.Deployment ||
		len(answer.Facts.Rounds) != 1 || answer.Facts.Rounds[0].Reports == 0 || len(answer.Text) == 0 {
		t.Errorf("exit %d, %v: %s", exit, err, text)
	}
}

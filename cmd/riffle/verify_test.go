package main

import (
	"context"
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

// exportOne is a deployment of one cohort, and its export in the folder "export" of the folder in which in names files.
func exportOne(t *testing.T, c plan.Channel) (in func(name string) string) {
	t.Helper()
	l, err := ledger.Make(ledger.Options{Configuration: ledger.Small(glm.Practical, c, 1), Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in = func(name string) string { return filepath.Join(dir, name) }
	if _, err := audit.WriteFolder(context.Background(), in("export"), l, l.Bundle); err != nil {
		t.Fatal(err)
	}
	return in
}

// A certificate of an export is verified with keys from elsewhere, offline: the exit code tells what holds, what does
// not, and what could not be looked at, and the text says whom one must trust.
func TestVerifyTellsWhatACertificateShows(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	t.Parallel()
	in := exportOne(t, plan.Shares)
	good := in("export/certificates/epoch-1.json")
	b, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		if err := os.WriteFile(in(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	lie := write("lie.json", strings.Replace(string(b), `"promised_epsilon": 4`, `"promised_epsilon": 2`, 1))
	junk := write("junk.json", "{}")
	trust := in("export/bundle.json")
	for _, x := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{good, "--trust", trust}, 0, []string{"HOLDS: epoch 1", "the guarantee " + plan.Shares.RestsOn(),
			"It cannot certify", "at most epsilon 3.9", "nothing bounds it", ledger.Version}},
		{[]string{good}, 0, []string{"whoever wrote it can have made them", "keys from the certificate itself"}},
		{[]string{lie, "--trust", trust}, 4, []string{"DOES NOT HOLD", "summary lies: promised_epsilon"}},
		{[]string{junk}, 1, []string{"this is not a certificate"}},
		{[]string{in("missing.json")}, 1, []string{"missing.json"}},
		{[]string{good, "--trust", junk}, 1, []string{"junk.json"}},
	} {
		out, code := runRiffle(t, append([]string{"verify"}, x.args...)...)
		if code != x.code {
			t.Errorf("%v: exit code %d, expected %d:\n%s", x.args, code, x.code, out)
		}
		for _, say := range x.says {
			if !strings.Contains(out, say) {
				t.Errorf("%v does not say %q:\n%s", x.args, say, out)
			}
		}
	}
	if out, _ := runRiffle(t, "verify", good, "--trust", trust); strings.Contains(out, "whoever wrote it") {
		t.Errorf("with --trust it warns of the keys:\n%s", out)
	}
	for path, ok := range map[string]bool{good: true, lie: false} {
		out, _ := runRiffle(t, "verify", path, "--trust", trust, "--json")
		var v verdict
		if err := json.NewDecoder(strings.NewReader(out)).Decode(&v); err != nil || v.OK != ok ||
			(v.Reason == "") != ok || (v.Shows != nil) != ok || ok && len(v.Who) != 4 {
			t.Errorf("%s: %+v, %v", path, v, err)
		}
	}
}

// An export can be copied, and described, without a broker.
func TestAnExportIsDescribedWithoutABroker(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	t.Parallel()
	in := exportOne(t, plan.Local)
	out, code := runRiffle(t, "audit", "export", in("copy"), "--from", in("export"), "--registry", in("r.json"),
		"--losses", in("l.json"))
	if code != 0 || !strings.Contains(out, "1 certificates") || !strings.Contains(out, "whoever wrote the logs") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	for name, key := range map[string]string{"r.json": `"epsilon": `, "l.json": `"infinity_mass": `,
		"copy/bundle.json": "ledger"} {
		if b, err := os.ReadFile(in(name)); err != nil || !strings.Contains(string(b), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out, code := runRiffle(t, "audit", in("copy"), "--trust", in("export/bundle.json")); code != 0 {
		t.Errorf("the copy does not pass the audit:\n%s", out)
	}
	for _, args := range [][]string{
		{"audit", "export", in("copy"), "--from", in("export")}, // there is something already
		{"audit", "export"}, // no folder
		{"audit", "export", in("new"), "--from", in("copy/certificates")},
		{"audit", "export", in("new"), "--keys", in("nothing")},
	} {
		if out, code := runRiffle(t, args...); code != 1 {
			t.Errorf("%v: exit code %d:\n%s", args, code, out)
		}
	}
}

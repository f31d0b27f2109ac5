package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// reminders is a schema of two numbers.
const reminders = `{"version":1,"context":[{"name":"age","kind":"number","low":18,"high":90}],` +
	`"arms":[{"name":"id","kind":"category","values":["none","sms"],"baseline":true}],` +
	`"terms":[["id"],["id","age"]]}`

// named exports a small deployment with a schema, and names the folder and the keys.
func named(t *testing.T) (folder, trust string) {
	t.Helper()
	s, err := feature.Parse([]byte(reminders))
	if err != nil {
		t.Fatal(err)
	}
	c := ledger.Small(glm.Practical, plan.Central, 3)
	c.Schema, c.Learner.Structure = s.Canonical(), s.Structure()
	l, err := ledger.Make(ledger.Options{Configuration: c, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	return exported(t, l)
}

// riffle policy shows and exports the policy of audited logs by the names of the schema; from logs with a breach it
// gives none.
func TestPolicyOfAuditedLogs(t *testing.T) {
	if testing.Short() {
		t.Skip("the script of riffle policy runs the same commands")
	}
	t.Parallel()
	folder, trust := named(t)
	files := t.TempDir()
	picture, out := filepath.Join(files, "policy.svg"), filepath.Join(files, "policy.json")
	if text, exit := runRiffle(t, "policy", "export", folder, "--trust", trust, "--out", out); exit != 0 || text != "" {
		t.Fatalf("exit %d:\n%s", exit, text)
	}
	text, exit := runRiffle(t, "policy", "show", out, "--out", picture)
	if exit != 0 || !strings.Contains(text, "id = sms × age") || !strings.Contains(text, "learnt from 3 cohorts") ||
		!strings.Contains(text, "channel central") || !strings.Contains(text, "●") {
		t.Errorf("exit %d:\n%s", exit, text)
	}
	if svg, err := os.ReadFile(picture); err != nil || !strings.Contains(string(svg), "id = sms × age") {
		t.Errorf("the picture does not name the terms: %v", err)
	}
	if text, exit := runRiffle(t, "policy", "show", folder, "--trust", trust); exit != 0 ||
		strings.Contains(text, "no log was audited") {
		t.Errorf("exit %d of audited logs:\n%s", exit, text)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policyfile.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Terms) != 2 || p.Terms[0].Low == nil || !p.Final || p.Certificate.Recomputed != 3 {
		t.Errorf("%+v", p)
	}

	// The digest is the one that the analyzer signed of its last epoch.
	var report audit.Report
	text, exit = runRiffle(t, "audit", folder, "--trust", trust, "--json")
	if err := json.Unmarshal([]byte(text), &report); err != nil || exit != 0 {
		t.Fatal(exit, err)
	}
	last := report.Rounds[len(report.Rounds)-1].Coefficients
	if len(report.Terms) != 2 || report.Terms[1] != "id = sms × age" || last[1] != p.Terms[1].Coefficient {
		t.Errorf("the audit has %q, %v", report.Terms, last)
	}

	again, exit := runRiffle(t, "policy", "show", out, "--json")
	if exit != 0 || again != string(b) {
		t.Errorf("exit %d: what is read is written otherwise:\n%s", exit, again)
	}
	if text, exit := runRiffle(t, "policy", "show", out, "--trust", trust); exit != 1 ||
		!strings.Contains(text, "nothing in it is signed") {
		t.Errorf("exit %d: %s", exit, text)
	}

	log := filepath.Join(folder, "analyzer.log")
	lines, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	short := lines[:bytes.LastIndexByte(bytes.TrimSpace(lines), '\n')+1]
	if err := os.WriteFile(log, short, 0o600); err != nil {
		t.Fatal(err)
	}
	text, exit = runRiffle(t, "policy", "export", folder, "--trust", trust)
	if exit != command.ExitBreach || strings.Contains(text, "coefficient") {
		t.Errorf("exit %d of logs with a breach:\n%s", exit, text)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// riffle audit FOLDER ends with 0 where nothing is wrong, with 4 where something is, and with 1 where it could not look. It
// warns where the keys that it trusts lie beside the logs.
func TestAuditOfAFolder(t *testing.T) {
	t.Parallel()
	c := ledger.Small(glm.Joint, plan.Central, 3)
	c.Batch = 12
	make := func(seed uint64) (*ledger.Ledger, string, string) {
		l, err := ledger.Make(ledger.Options{Configuration: c, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "export")
		if _, err := audit.WriteFolder(t.Context(), dir, l, l.Bundle); err != nil {
			t.Fatal(err)
		}
		trust := filepath.Join(t.TempDir(), "trust.json")
		text, err := l.Bundle.Encode()
		if err == nil {
			err = os.WriteFile(trust, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return l, dir, trust
	}
	l, dir, trust := make(1)
	_, _, others := make(2)
	longer, err := l.Checkpointed(bus.Shuffler, 2)
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(t.TempDir(), "shuffler.witness.checkpoint")
	if err := os.WriteFile(note, longer, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{dir, "--trust", trust}, 0, "No breach"},
		{[]string{dir, "--trust", trust, "--witness", note, "--view", dir}, 0, "No breach"},
		{[]string{dir}, 0, "Warning: the keys in"},
		{[]string{dir}, 0, "lay beside the logs"},
		{[]string{dir, "--trust", others}, 4, string(audit.ForgedSignature)},
		{[]string{dir, "--trust", trust, "--witness", trust}, 1, "no checkpoint"},
		{[]string{filepath.Join(dir, "certificates"), "--trust", trust}, 1, "not an export"},
		{[]string{dir, "--trust", dir}, 1, ""},
		{[]string{dir, "--trust", trust, "--tolerance", "2"}, 1, "tolerance"},
		{[]string{dir, "--epsilon"}, 1, "reads no folder"},
	} {
		out, exit := witnessed(t, append([]string{"audit"}, x.args...)...)
		if exit != x.exit || !strings.Contains(out, x.want) {
			t.Errorf("%q: exit %d, want %d and %q in\n%s", x.args, exit, x.exit, x.want, out)
		}
	}
	text, exit := witnessed(t, "audit", dir, "--trust", trust, "--json")
	var clean struct {
		OK           bool     `json:"ok"`
		Releases     int      `json:"releases"`
		Epsilon      *float64 `json:"epsilon"`
		EpsilonAlone *float64 `json:"epsilon_alone"`
		Recomputed   int      `json:"policies_recomputed"`
		Breaches     []audit.Breach
	}
	if err := json.Unmarshal([]byte(text), &clean); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if exit != 0 || !clean.OK || clean.Releases != 3 || clean.Recomputed != 3 || clean.Breaches == nil ||
		clean.Epsilon == nil || !(*clean.Epsilon > 0 && *clean.Epsilon <= 4) || clean.EpsilonAlone == nil {
		t.Errorf("exit %d: %+v", exit, clean)
	}

	log := filepath.Join(dir, "shuffler.log")
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	if err := os.WriteFile(log, bytes.Join([][]byte{lines[1], lines[0], lines[2]}, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	text, exit = witnessed(t, "audit", dir, "--trust", trust, "--json")
	text = text[:strings.LastIndex(text, "}")+1]
	var r audit.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if exit != 4 || r.OK || len(r.Breaches) == 0 || r.Breaches[0].Entry == "" || r.Breaches[0].Detail == "" {
		t.Errorf("exit %d: %s", exit, text)
	}
}

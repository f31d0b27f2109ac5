package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/effect"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// living exports a small deployment of panels with a control group, and names the folder and the keys.
func living(t *testing.T, tamper func(*wire.Learned)) (folder, trust string) {
	t.Helper()
	l, err := ledger.Make(ledger.Options{Configuration: ledger.LivingOf(plan.Central, 2, 800), Seed: 5,
		Tamper: ledger.Tamper{Learned: tamper}})
	if err != nil {
		t.Fatal(err)
	}
	return exported(t, l)
}

// exported writes what an auditor exports of a deployment, and says where its keys are.
func exported(t *testing.T, l *ledger.Ledger) (folder, trust string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "export")
	if _, err := audit.WriteFolder(t.Context(), folder, l, l.Bundle); err != nil {
		t.Fatal(err)
	}
	return folder, filepath.Join(folder, "bundle.json")
}

// riffle report says what the control group shows, with the exit codes of an audit.
func TestReportSaysWhetherThePolicyHelps(t *testing.T) {
	if testing.Short() {
		t.Skip("TestReportWithoutAControlGroup runs the same command")
	}
	t.Parallel()
	folder, trust := living(t, nil)
	files := t.TempDir()
	page, picture := filepath.Join(files, "report.html"), filepath.Join(files, "lift.png")
	text, exit := runRiffle(t, "report", folder, "--trust", trust, "--html", page, "--out", picture)
	if exit != 0 || !strings.Contains(text, "than the default arm") || !strings.Contains(text, "epsilon so far") {
		t.Errorf("exit %d:\n%s", exit, text)
	}
	for _, file := range []string{page, picture} {
		if info, err := os.Stat(file); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}

	t.Run("verify", func(t *testing.T) { verifyTellsOfPanels(t, folder, trust) })

	lying, keys := living(t, func(l *wire.Learned) {
		if l.Epoch == 2 {
			l.Lift.Low, l.Lift.High = 0.5, 0.9
		}
	})
	text, exit = runRiffle(t, "report", lying, "--trust", keys, "--json")
	var r effect.Result
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&r); err != nil { // a line on stderr follows
		t.Fatalf("%v in\n%s", err, text)
	}
	if exit != command.ExitBreach || r.OK || r.Breaches != 1 {
		t.Errorf("exit %d: %s", exit, text)
	}
	if len(r.Epochs) != 2 || r.Cumulated == nil || r.Epochs[1].Lift == nil || r.Panel == nil ||
		!(r.SoFar > r.Epochs[0].SoFar && r.SoFar <= r.Epsilon && float64(r.Epsilon) <= r.Promise) {
		t.Errorf("what the lie is not about: %s", text)
	}
	if text, exit := runRiffle(t, "report", filepath.Join(folder, "absent")); exit != 1 {
		t.Errorf("exit %d:\n%s", exit, text)
	}
}

// A deployment without a control group has a report that says so, and no picture.
func TestReportWithoutAControlGroup(t *testing.T) {
	t.Parallel()
	in := exportOne(t, plan.Central)
	if text, exit := runRiffle(t, "report", in("export")); exit != 0 || !strings.Contains(text, "no control group") ||
		!strings.Contains(text, "lay beside the logs") {
		t.Errorf("exit %d:\n%s", exit, text)
	}
	if text, exit := runRiffle(t, "report", in("export"), "--out", in("lift.png")); exit != 1 ||
		!strings.Contains(text, "--out: there is no lift to draw") {
		t.Errorf("exit %d:\n%s", exit, text)
	}
}

// verifyTellsOfPanels checks that the certificate of a panel says from whom it was drawn and for how long it speaks.
func verifyTellsOfPanels(t *testing.T, folder, trust string) {
	t.Helper()
	text, exit := runRiffle(t, "verify", filepath.Join(folder, "certificates", "epoch-2.json"), "--trust", trust)
	for _, want := range []string{"HOLDS: epoch 2", "drawn by both servers from a pool of 4002 devices (at least 4000)",
		"in up to 2 epochs of the deployment, up to 3 decisions in each", "With these reports this epoch reveals"} {
		if exit != 0 || !strings.Contains(text, want) {
			t.Errorf("exit %d, no %q in\n%s", exit, want, text)
		}
	}
}

// riffle plan plans panels, and refuses flags of panels without them.
func TestPlanOfPanels(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	t.Parallel()
	for _, x := range []struct {
		args string
		exit int
		want string
	}{
		{"--registered 3000 --panel 500 --records 4 --mean-decisions 7 --dishonest 0.01 --trust shares", 0,
			"m, in a panel"},
		{"--registered 3000 --panel 500 --json --trust central", 0, `"max_dishonest": `},
		{"--registered 3000", 1, "--panel"},
		{"--registered 3000 --panel 500 --cohort 100", 1, "leave out --cohort"},
		{"--records 4", 1, "--records is of panels"},
		{"--registered 3000 --panel 500 --trust central --out frontier.png", 1, "a plan of panels has none"},
	} {
		if text, exit := runRiffle(t, append([]string{"plan"}, strings.Fields(x.args)...)...); exit != x.exit ||
			!strings.Contains(text, x.want) {
			t.Errorf("%s: exit %d, want %d and %q in\n%s", x.args, exit, x.exit, x.want, text)
		}
	}
}

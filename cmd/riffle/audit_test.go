package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/witness"
	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// beside are what can be given beside a folder: a view without checkpoints, the auditor's key, a witness's public key,
// and a checkpoint that the witness co-signed.
func beside(t *testing.T, l *ledger.Ledger, note string) (view, key, public, signed string) {
	t.Helper()
	dir := t.TempDir()
	view, key = filepath.Join(dir, "view"), filepath.Join(dir, "auditor.key")
	line, err := witness.Generate(filepath.Join(dir, "witness.key"), "university")
	if err != nil {
		t.Fatal(err)
	}
	public, signed = filepath.Join(dir, "public"), filepath.Join(dir, "shuffler.signed.checkpoint")
	by, err := keyfile.LoadIdentity(filepath.Join(dir, "witness.key"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(note)
	if err == nil {
		text, err = transparency.Cosign(text, "university", by, time.Unix(1_700_000_000, 0))
	}
	if err = errors.Join(err, os.Mkdir(view, 0o755), keyfile.WriteHPKE(key, l.Auditor)); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		public: []byte(line), signed: text, filepath.Join(view, "analyzer.log"): nil,
		filepath.Join(view, "shuffler.log"): nil,
	} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return view, key, public, signed
}

// Whoever types a command where no broker runs is told so, and does not wait for ever.
func TestNoBroker(t *testing.T) {
	t.Parallel()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	o := bus.Options{URL: "nats://127.0.0.1:1", Role: bus.Auditor, Seed: seed, Name: "test"}
	if _, err := reach(t.Context(), o, time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "no broker answers at nats://127.0.0.1:1") {
		t.Errorf("error %v, want one that names the address", err)
	}
}

// riffle audit FOLDER ends with 0 where nothing is wrong, with 4 where something is, and with 1 where it could not
// look. It warns where the keys that it trusts lie beside the logs.
func TestAuditOfAFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
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
	longer, err := l.CheckpointAt(bus.Shuffler, 2)
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(t.TempDir(), "shuffler.witness.checkpoint")
	if err := os.WriteFile(note, longer, 0o644); err != nil {
		t.Fatal(err)
	}
	nothing, key, of, signed := beside(t, l, note)
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
		{[]string{dir, "--trust", others}, 4, "other keys than those that you trust"},
		{[]string{dir, "--trust", trust, "--witness", note}, 0,
			"No cosignature on the checkpoints of --witness was verified"},
		{[]string{dir, "--trust", trust, "--witness", trust}, 1, "no checkpoint"},
		{[]string{trust}, 1, "it is a file"},
		{[]string{filepath.Join(dir, "absent")}, 1, "there is no such folder"},
		{[]string{dir, "--trust", note}, 1, "--trust takes the deployment's bundle.json"},
		{[]string{"--keys", dir}, 1, "no FOLDER is given"},
		{[]string{"export", "--from", dir}, 1, "nothing is to be written"},
		{[]string{filepath.Join(dir, "certificates"), "--trust", trust}, 1, "not an export"},
		{[]string{dir, "--trust", dir}, 1, ""},
		{[]string{dir, "--trust", trust, "--tolerance", "2"}, 1, "tolerance"},
		{[]string{dir, "--trust", trust, "--view", nothing}, 1, "no checkpoint of the analyzer's log"},
		{[]string{dir, "--trust", trust, "--auditor-key", key}, 1, "--auditor-key opened no release"},
		{[]string{dir, "--trust", trust, "--issued", note}, 1, "line 1"},
		{[]string{dir, "--trust", trust, "--issued", filepath.Join(dir, "absent")}, 1, "absent"},
		{[]string{dir, "--trust", trust, "--registrar-devices", "3"}, 1, "give them with --issued"},
		{[]string{dir, "--trust", trust, "--witness-key", of}, 1, "university co-signed no checkpoint"},
		{[]string{dir, "--trust", trust, "--witness-key", of, "--witness", signed}, 0, "No breach"},
	} {
		out, exit := runRiffle(t, append([]string{"audit"}, x.args...)...)
		if exit != x.exit || !strings.Contains(out, x.want) {
			t.Errorf("%q: exit %d, want %d and %q in\n%s", x.args, exit, x.exit, x.want, out)
		}
	}
	text, exit := runRiffle(t, "audit", dir, "--trust", trust, "--json")
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
	text, exit = runRiffle(t, "audit", dir, "--trust", trust, "--json")
	text = text[:strings.LastIndex(text, "}")+1]
	var r audit.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if exit != 4 || r.OK || len(r.Breaches) == 0 || r.Breaches[0].Entry == "" || r.Breaches[0].Detail == "" {
		t.Errorf("exit %d: %s", exit, text)
	}
}

// riffle audit without a folder reads the streams of a running deployment, with the auditor's credential, and comes to
// the same: nothing is wrong while the deployment runs, and a round that the shuffler released twice is named.
func TestAuditOfARunningDeployment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := ledger.Small(glm.Joint, plan.Central, 3)
	c.Batch = 12
	l, err := ledger.Make(ledger.Options{Configuration: c, Rounds: 2})
	must(err)
	must(keyring.Generate(in("keys"), keyring.Options{Name: ledger.Deployment}))
	text, err := l.Bundle.Encode()
	must(err)
	must(os.WriteFile(in("trust.json"), text, 0o600))
	server, err := cluster.StartBroker(t.Context(), in("keys"), broker.Options{Dir: in("broker"), MaxStore: 1 << 40},
		bus.ProvisionOptions{})
	must(err)
	defer server.Stop()
	analyzer, err := keyring.LoadAnalyzer(in("keys"))
	must(err)
	shuffler, err := keyring.LoadShuffler(in("keys"))
	must(err)
	logs := map[bus.Role]*translog.Log{}
	for role, seed := range map[bus.Role][]byte{bus.Analyzer: analyzer.Seed, bus.Shuffler: shuffler.Seed} {
		conn, err := bus.Connect(t.Context(), bus.Options{URL: server.URL(), Role: role, Seed: seed, Name: "test"})
		must(err)
		defer conn.Close()
		logs[role], err = translog.Open(t.Context(), translog.Config{Deployment: ledger.Deployment, Role: role,
			Identity: l.Identity(role), Broker: conn.Audit})
		must(err)
		for _, e := range l.Logs[role] {
			must(logs[role].AppendAudit(t.Context(), e.Kind, e.Signed))
		}
	}
	run := func() (string, int) {
		return runRiffle(t, "audit", "--keys", in("keys"), "--broker-url", server.URL(), "--trust", in("trust.json"))
	}
	if out, exit := run(); exit != 0 || !strings.Contains(out, "still running") ||
		!strings.Contains(out, "2 released") {
		t.Errorf("exit %d:\n%s", exit, out)
	}
	other := bus.Options{URL: server.URL(), Role: bus.Auditor, Seed: analyzer.Seed, Name: "test"}
	unknown, err := bus.Connect(t.Context(), other)
	must(err)
	defer unknown.Close()
	// However long it waits, the broker answers it nothing.
	if err := audits(t.Context(), unknown, time.Second); err == nil ||
		!strings.Contains(err.Error(), "the credential is the") {
		t.Errorf("with the analyzer's credential: %v", err)
	}
	m, err := ledger.Open[wire.Manifest](l, bus.Shuffler, 0)
	must(err)
	m.ReportsDigest[0] ^= 1
	signed, _, err := wire.Sign(m, l.Shuffler)
	must(err)
	must(logs[bus.Shuffler].AppendAudit(t.Context(), wire.KindManifest, signed))
	if out, exit := run(); exit != 4 || !strings.Contains(out, string(audit.DoubledRelease)) {
		t.Errorf("exit %d:\n%s", exit, out)
	}
}

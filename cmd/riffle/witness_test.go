package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/witness"
	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// runRiffle runs riffle with these arguments and gives its output and its exit code.
func runRiffle(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, said, err := execute(t, "", args...)
	var own *role.ExitError
	switch {
	case errors.As(err, &own):
		return out + said + err.Error(), own.Code
	case err != nil:
		return out + said + err.Error(), 1
	}
	return out + said, 0
}

// manifestOf is the shuffler's signed manifest of an epoch that was destroyed.
func manifestOf(t *testing.T, deployment string, epoch uint64, by *seal.Identity) []byte {
	t.Helper()
	signed, _, err := wire.Sign(&wire.Manifest{Deployment: deployment, Epoch: epoch, Announcement: make([]byte, 32),
		Outcome: wire.Destroyed}, by)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// A witness follows a deployment's broker and its exports with one memory, and ends with exit code 4 where a log
// contradicts itself.
func TestWitnessFollowsABrokerAndExports(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const name = "trial"
	must(keyring.Generate(in("keys"), keyring.Options{Name: name}))
	keys, err := keyring.LoadShuffler(in("keys"))
	must(err)
	out, code := runRiffle(t, "witness", "keygen", "--key", in("w.key"), "--name", "w1")
	if code != 0 || !strings.Contains(out, "w1+") {
		t.Fatal(out, code)
	}
	server, err := cluster.StartBroker(t.Context(), in("keys"), broker.Options{Dir: in("broker"), MaxStore: 1 << 40},
		bus.ProvisionOptions{})
	must(err)
	defer server.Stop()
	conn, err := bus.Connect(t.Context(),
		bus.Options{URL: server.URL(), Role: bus.Shuffler, Seed: keys.Seed, Name: "test"})
	must(err)
	defer conn.Close()
	log, err := translog.Open(t.Context(), translog.Config{Deployment: name, Role: bus.Shuffler,
		Identity: keys.Identity, Broker: conn.Audit, Path: in("log")})
	must(err)
	defer log.Close()
	run := func(args ...string) (string, int) {
		t.Helper()
		return runRiffle(t, append([]string{"witness", "--once", "--keys", in("keys"), "--key", in("w.key"),
			"--state", in("seen"), "--out", in("out")}, args...)...)
	}
	live := []string{"--broker-url", server.URL()}
	if out, code := run(live...); code != 0 || strings.Count(out, "no checkpoint yet") != 2 {
		t.Errorf("%d: %s", code, out)
	}
	export := func(epochs ...uint64) string {
		t.Helper()
		folder := t.TempDir()
		var tree transparency.Tree
		var lines bytes.Buffer
		for _, epoch := range epochs {
			signed := manifestOf(t, name, epoch, keys.Identity)
			tree.Append(signed)
			must(json.NewEncoder(&lines).Encode(audit.Entry{Kind: wire.KindManifest, Signed: signed}))
		}
		note, err := transparency.Sign(transparency.Checkpoint{Origin: transparency.Origin(name, "shuffler"),
			Size: tree.Size(), Root: tree.Root()}, keys.Identity)
		must(err)
		must(os.WriteFile(filepath.Join(folder, "shuffler.log"), lines.Bytes(), 0o600))
		must(os.WriteFile(filepath.Join(folder, "analyzer.log"), nil, 0o600))
		must(os.WriteFile(filepath.Join(folder, "shuffler.checkpoint"), note, 0o600))
		return folder
	}
	for epoch := range uint64(3) {
		must(log.AppendAudit(t.Context(), wire.KindManifest, manifestOf(t, name, epoch+1, keys.Identity)))
	}
	out, code = run(live...)
	if code != 0 || !strings.Contains(out, "shuffler: 3 entries co-signed by w1. This is the first use") {
		t.Errorf("%d: %s", code, out)
	}
	out, code = run(export(1, 2, 3, 4))
	if code != 0 || !strings.Contains(out, "they begin with the 3 that it saw before") {
		t.Errorf("%d: %s", code, out)
	}
	cosigned, err := os.ReadFile(in("out/shuffler.w1.checkpoint"))
	must(err)
	witnessName, key, err := witness.LoadPublic(in("w.key.pub"))
	must(err)
	c, _, err := transparency.OpenCosigned(cosigned, transparency.Origin(name, "shuffler"), keys.Bundle.Shuffler,
		witnessName, key)
	if err != nil || c.Size != 4 {
		t.Errorf("%+v, %v", c, err)
	}
	for what, args := range map[string][]string{
		"a split view":      {export(1, 2, 3, 5)},
		"another beginning": {export(1, 9, 3, 4, 5)},
		"a rewound log":     live,
	} {
		if out, code := run(args...); code != command.ExitBreach || !strings.Contains(out, "4 entries with the root") {
			t.Errorf("%s: %d: %s", what, code, out)
		}
	}
	if now, err := os.ReadFile(in("out/shuffler.w1.checkpoint")); err != nil || !bytes.Equal(now, cosigned) {
		t.Error("a contradiction was co-signed")
	}
	must(log.AppendAudit(t.Context(), wire.KindManifest, manifestOf(t, name, 4, keys.Identity)))
	if out, code := run(live...); code != 0 {
		t.Errorf("%d: %s", code, out)
	}
	for _, bad := range [][]string{{"--key", in("none")}, {"--keys", in("none")}, {"--every", "0s"}, {"a", "b"}} {
		if out, code := run(bad...); code != 1 {
			t.Errorf("%v: %d: %s", bad, code, out)
		}
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/witness"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Two witnesses co-sign an export, each by itself; what riffle makes of it is a device's beginning.
func TestADeviceBeginsWithWhatRiffleProves(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(keyring.Generate(in("keys"), keyring.Options{Name: "trial"}))
	keys, err := keyring.LoadAnalyzer(in("keys"))
	must(err)
	a := testbed.New(t).Announcement(glm.Practical, 12)
	a.Deployment = "trial"
	export := func(name string, epochs int) {
		var tree transparency.Tree
		var lines bytes.Buffer
		one := a.Clone()
		for range epochs {
			signed, digest, err := wire.Sign(one, keys.Identity)
			must(err)
			one.Epoch, one.Previous = one.Epoch+1, digest[:]
			tree.Append(signed)
			must(json.NewEncoder(&lines).Encode(audit.Entry{Kind: wire.KindAnnouncement, Signed: signed}))
		}
		note, err := transparency.Sign(transparency.Checkpoint{Origin: transparency.Origin("trial", "analyzer"),
			Size: tree.Size(), Root: tree.Root()}, keys.Identity)
		must(err)
		must(os.MkdirAll(in(name), 0o700))
		must(os.WriteFile(filepath.Join(in(name), "analyzer.log"), lines.Bytes(), 0o600))
		must(os.WriteFile(filepath.Join(in(name), "shuffler.log"), nil, 0o600))
		must(os.WriteFile(filepath.Join(in(name), "analyzer.checkpoint"), note, 0o600))
	}
	export("export", 5)
	export("older", 4)
	proof := []string{"witness", "proof", in("export"), "--keys", in("keys"), "--out", in("announcement")}
	var trusted transparency.Witnesses
	for _, name := range []string{"w1", "w2"} {
		if out, code := runRiffle(t, "witness", "keygen", "--key", in(name), "--name", name); code != 0 {
			t.Fatal(out)
		}
		if out, code := runRiffle(t, "witness", in("export"), "--keys", in("keys"), "--key", in(name), "--state",
			in(name+"-seen"), "--out", in("out")); code != 0 {
			t.Fatal(out)
		}
		proof = append(proof, "--checkpoint", in("out/analyzer."+name+".checkpoint"))
		_, key, err := witness.LoadPublic(in(name + ".pub"))
		must(err)
		trusted.All = append(trusted.All, transparency.Witness{Name: name, Key: key})
	}
	trusted.Quorum = 2
	if out, code := runRiffle(t, proof...); code != 0 || !strings.Contains(out, "announcement.tlog-proof") {
		t.Fatal(code, out)
	}
	identity, err := seal.GenerateIdentity()
	must(err)
	d, err := device.Open(device.Config{
		Deployment: "trial", Analyzer: keys.Bundle.Analyzer, Shuffler: keys.Bundle.Shuffler, Identity: identity,
		Limits: device.DefaultLimits(), Witnesses: trusted,
	}, 0, nil)
	must(err)
	shown, err := os.ReadFile(in("announcement.tlog-proof"))
	must(err)
	signed, err := os.ReadFile(in("announcement"))
	must(err)
	must(d.Begin(shown, signed))
	if s := d.Status(); s.Epoch != 5 {
		t.Errorf("it begins in epoch %d", s.Epoch)
	}
	proof[2] = in("older")
	if out, code := runRiffle(t, proof...); code != command.ExitBreach || !strings.Contains(out, "not those of") {
		t.Errorf("another log than the checkpoint's: %d: %s", code, out)
	}
	if out, code := runRiffle(t, proof[:7]...); code != 1 {
		t.Errorf("without a checkpoint: %d: %s", code, out)
	}
}

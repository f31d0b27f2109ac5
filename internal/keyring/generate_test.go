package keyring_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func generate(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "keys")
	hosts := []keyring.HostOptions{{Name: "one", Devices: 5}, {Name: "two-2", Devices: 7}}
	err := keyring.Generate(root, keyring.Options{Name: "demo", Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestGeneratedKeysLoad(t *testing.T) {
	root := generate(t)
	bundle, err := keyring.LoadBundle(root)
	if err != nil || bundle.Deployment != "demo" {
		t.Fatal(bundle, err)
	}
	users, err := keyring.LoadUsers(root)
	if err != nil {
		t.Fatal(err)
	}
	is := func(role string, seed []byte) {
		t.Helper()
		pair, err := nkeys.FromSeed(seed)
		if err != nil {
			t.Fatal(err)
		}
		if public, err := pair.PublicKey(); err != nil || !slices.Contains(users[role], public) {
			t.Errorf("%s's user is not in the users file: %v", role, err)
		}
	}
	analyzer, err := keyring.LoadAnalyzer(root)
	if err != nil {
		t.Fatal(err)
	}
	shuffler, err := keyring.LoadShuffler(root)
	if err != nil {
		t.Fatal(err)
	}
	is("analyzer", analyzer.Seed)
	is("shuffler", shuffler.Seed)
	for _, c := range []struct {
		keys *keyring.ServerKeys
		from wire.Party
	}{{analyzer, bundle.AnalyzerParty()}, {shuffler, bundle.ShufflerParty()}} {
		signed, _, err := wire.Sign(&wire.KeySet{Deployment: c.keys.Bundle.Deployment, Number: 1,
			Keys: [][]byte{c.keys.HPKE[0].Public()}}, c.keys.Identity)
		if err != nil {
			t.Fatal(err)
		}
		set, _, err := wire.Open[wire.KeySet](signed, c.from)
		if err != nil || len(c.keys.HPKE) != 1 || !bytes.Equal(set.Keys[0], c.keys.HPKE[0].Public()) {
			t.Error(set, err)
		}
	}
	if _, err := keyring.LoadRegistrar(root); err != nil {
		t.Error(err)
	}
	for _, role := range []string{"auditor", "admin"} {
		seed, err := keyring.LoadSeed(root, role)
		if err != nil {
			t.Fatal(err)
		}
		is(role, seed)
	}
	ingress, err := keyring.LoadIngress(root)
	if err != nil || ingress.Ticket != shuffler.Ticket || ingress.Ticket == [32]byte{} {
		t.Errorf("the ingress checks tickets with another key than the shuffler makes them with: %v", err)
	}
	is("ingress", ingress.Seed)
	for host, devices := range map[string]uint32{"one": 5, "two-2": 7} {
		h, err := keyring.LoadRandomizer(root, host)
		if err != nil || h.Devices != devices {
			t.Fatal(h, err)
		}
		is("randomizer", h.Seed)
		request := &wire.EnrolRequest{
			Deployment: "demo", Epoch: 1, Announcement: make([]byte, 32), Device: devices - 1, Credential: h.Credential,
		}
		signed, _, err := wire.Sign(request, h.Identity)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wire.OpenEnrolRequest(signed, bundle.RegistrarParty()); err != nil {
			t.Error(err)
		}
	}
	want := []string{"admin", "analyzer", "auditor", "ingress", "randomizer", "shuffler"}
	if got := slices.Sorted(maps.Keys(users)); !slices.Equal(got, want) || len(users["randomizer"]) != 2 {
		t.Error(users)
	}
}

// A new key of tickets is the same for those who make and who check them.
func TestTheTicketKeyIsReplacedForBoth(t *testing.T) {
	root := generate(t)
	before, err := keyring.LoadIngress(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyring.RotateTicket(root); err != nil {
		t.Fatal(err)
	}
	after, err := keyring.LoadIngress(root)
	if err != nil {
		t.Fatal(err)
	}
	shuffler, err := keyring.LoadShuffler(root)
	if err != nil || after.Ticket != shuffler.Ticket || after.Ticket == before.Ticket {
		t.Errorf("ticket keys %v, %v", after.Ticket == shuffler.Ticket, err)
	}
}

// TestNothingPrivateIsOpen walks the folder: what is public is listed here, everything else is for the owner alone.
func TestNothingPrivateIsOpen(t *testing.T) {
	root := generate(t)
	public := map[string]bool{"bundle.json": true, "nats-users.json": true, "credential": true}
	files := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		switch {
		case e.IsDir():
			want = 0o700
		case public[e.Name()]:
			want = 0o644
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		if !e.IsDir() {
			files++
		}
		return nil
	})
	if want := 2 + 3 + 4 + 2 + 1 + 2*3 + 2 + 1 + 8; err != nil || files != want {
		t.Errorf("%d files, want %d, %v", files, want, err)
	}
}

// TestRolesNeedNoMore: bundle.json and the role's own folder are enough.
func TestRolesNeedNoMore(t *testing.T) {
	root := generate(t)
	for folder, load := range map[string]func(string) error{
		"analyzer":       func(r string) error { _, err := keyring.LoadAnalyzer(r); return err },
		"shuffler":       func(r string) error { _, err := keyring.LoadShuffler(r); return err },
		"auditor":        func(r string) error { _, err := keyring.LoadAuditor(r); return err },
		"registrar":      func(r string) error { _, err := keyring.LoadRegistrar(r); return err },
		"randomizer-one": func(r string) error { _, err := keyring.LoadRandomizer(r, "one"); return err },
	} {
		alone := t.TempDir()
		if err := os.CopyFS(filepath.Join(alone, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
		closeAll(t, filepath.Join(alone, folder))
		if err := load(alone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s without a bundle: %v", folder, err)
		}
		text, err := os.ReadFile(filepath.Join(root, keyring.BundleFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(alone, keyring.BundleFile), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := load(alone); err != nil {
			t.Errorf("%s: %v", folder, err)
		}
		// the bundle of another deployment of the same name does not fit
		other, err := os.ReadFile(filepath.Join(generate(t), keyring.BundleFile))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(alone, keyring.BundleFile), other, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := load(alone); !errors.Is(err, keyring.ErrMismatch) {
			t.Errorf("%s with another bundle: %v", folder, err)
		}
	}
}

func closeAll(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Chmod(filepath.Join(folder, e.Name()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGenerateRefusesFaultyOptions(t *testing.T) {
	root := generate(t)
	before := snapshot(t, root)
	if err := keyring.Generate(root, keyring.Options{Name: "demo"}); !errors.Is(err, keyfile.ErrExists) {
		t.Errorf("generates over a deployment: %v", err)
	}
	if !maps.Equal(before, snapshot(t, root)) {
		t.Error("a refused Generate changed the folder")
	}
	for name, o := range map[string]keyring.Options{
		"no name":      {},
		"bad name":     {Name: "a b"},
		"no devices":   {Name: "a", Hosts: []keyring.HostOptions{{Name: "h", Devices: 0}}},
		"bad host":     {Name: "a", Hosts: []keyring.HostOptions{{Name: "../h", Devices: 1}}},
		"no host name": {Name: "a", Hosts: []keyring.HostOptions{{Name: "", Devices: 1}}},
		"twice":        {Name: "a", Hosts: []keyring.HostOptions{{Name: "h", Devices: 1}, {Name: "h", Devices: 2}}},
	} {
		root := filepath.Join(t.TempDir(), "new")
		if err := keyring.Generate(root, o); !errors.Is(err, keyring.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: leaves a folder behind", name)
		}
	}
}

func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

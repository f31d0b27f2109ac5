package keyring_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func generate(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "keys")
	err := keyring.Generate(root, keyring.Options{Name: "demo", Hosts: []keyring.HostOptions{{"one", 5}, {"two-2", 7}}})
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
	if got := slices.Sorted(maps.Keys(users)); !slices.Equal(got,
		[]string{"admin", "analyzer", "auditor", "randomizer", "shuffler"}) || len(users["randomizer"]) != 2 {
		t.Error(users)
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
	if want := 2 + 3 + 3 + 1 + 2*3 + 2 + 1 + 7; err != nil || files != want {
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
		"no devices":   {Name: "a", Hosts: []keyring.HostOptions{{"h", 0}}},
		"bad host":     {Name: "a", Hosts: []keyring.HostOptions{{"../h", 1}}},
		"no host name": {Name: "a", Hosts: []keyring.HostOptions{{"", 1}}},
		"twice":        {Name: "a", Hosts: []keyring.HostOptions{{"h", 1}, {"h", 2}}},
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

func TestAddedHostHasItsKeys(t *testing.T) {
	root := generate(t)
	if err := keyring.AddHost(root, keyring.HostOptions{Name: "three", Devices: 9}); err != nil {
		t.Fatal(err)
	}
	h, err := keyring.LoadRandomizer(root, "three")
	if err != nil || h.Devices != 9 {
		t.Fatal(h, err)
	}
	users, err := keyring.LoadUsers(root)
	if err != nil || len(users["randomizer"]) != 3 {
		t.Error(users, err)
	}
	before := snapshot(t, root)
	if err := keyring.AddHost(root, keyring.HostOptions{Name: "one", Devices: 9}); !errors.Is(err, keyfile.ErrExists) {
		t.Error(err)
	}
	if err := keyring.AddHost(root, keyring.HostOptions{Name: "four"}); !errors.Is(err, keyring.ErrOptions) {
		t.Error(err)
	}
	if !maps.Equal(before, snapshot(t, root)) {
		t.Error("a refused AddHost changed the folder")
	}
}

func TestRotatedUserReplacesTheOld(t *testing.T) {
	root := generate(t)
	old, err := keyfile.LoadSeed(filepath.Join(root, "analyzer", "nats.seed"))
	if err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, root)
	users, err := keyring.LoadUsers(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyring.RotateUser(root, "analyzer"); err != nil {
		t.Fatal(err)
	}
	seed, err := keyfile.LoadSeed(filepath.Join(root, "analyzer", "nats.seed"))
	if err != nil || bytes.Equal(seed, old) {
		t.Fatalf("the seed is the old one, or %v", err)
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	now, err := keyring.LoadUsers(root)
	if err != nil || !slices.Equal(now["analyzer"], []string{public}) {
		t.Errorf("users of the analyzer: %v, %v", now["analyzer"], err)
	}
	now["analyzer"] = users["analyzer"]
	if !reflect.DeepEqual(now, users) {
		t.Errorf("other users changed: %v", now)
	}
	for path, text := range snapshot(t, root) {
		if base := filepath.Base(path); before[path] != text && base != keyring.UsersFile &&
			path != filepath.Join(root, "analyzer", "nats.seed") {
			t.Errorf("%s changed", path)
		}
	}
	before = snapshot(t, root)
	for _, role := range []string{"randomizer", "registrar", "nobody", "randomizer-../x"} {
		if err := keyring.RotateUser(root, role); !errors.Is(err, keyring.ErrOptions) {
			t.Errorf("%s: %v", role, err)
		}
	}
	if !maps.Equal(before, snapshot(t, root)) {
		t.Error("a refused RotateUser changed the folder")
	}
}

func TestRotationKeepsOlderKeys(t *testing.T) {
	root := generate(t)
	first, err := keyring.LoadShuffler(root)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := keyring.RotateHPKE(root, "shuffler"); err != nil {
			t.Fatal(err)
		}
	}
	k, err := keyring.LoadShuffler(root)
	if err != nil || len(k.HPKE) != 3 || !bytes.Equal(k.HPKE[2].Public(), first.HPKE[0].Public()) {
		t.Fatal(k, err)
	}
	if err := os.Remove(filepath.Join(root, "shuffler", "hpke-0001.key")); err != nil {
		t.Fatal(err)
	}
	if k, err = keyring.LoadShuffler(root); err != nil || len(k.HPKE) != 2 {
		t.Fatal(k, err)
	}
	path, err := keyring.RotateHPKE(root, "shuffler")
	if err != nil || !strings.HasSuffix(path, "hpke-0004.key") {
		t.Error(path, err)
	}
	if _, err := keyring.RotateHPKE(root, "registrar"); !errors.Is(err, keyring.ErrOptions) {
		t.Error(err)
	}
	for _, name := range []string{"hpke-0002.key", "hpke-0003.key", "hpke-0004.key"} {
		if err := os.Remove(filepath.Join(root, "shuffler", name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := keyring.LoadShuffler(root); !errors.Is(err, keyring.ErrMismatch) {
		t.Errorf("no HPKE key: %v", err)
	}
}

func TestDamagedKeyringsAreRefused(t *testing.T) {
	root := generate(t)
	if err := os.Chmod(filepath.Join(root, "analyzer", "identity.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.LoadAnalyzer(root); !errors.Is(err, keyfile.ErrPermissions) {
		t.Error(err)
	}
	if _, err := keyring.LoadRandomizer(root, "nobody"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := keyring.LoadRandomizer(root, "../x"); !errors.Is(err, keyring.ErrOptions) {
		t.Error(err)
	}
	if _, err := keyring.LoadSeed(root, "analyzer"); !errors.Is(err, keyring.ErrOptions) {
		t.Error(err)
	}
	// one host with another's credential
	other, err := os.ReadFile(filepath.Join(root, "randomizer-two-2", "credential"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "randomizer-one", "credential"), other, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.LoadRandomizer(root, "one"); !errors.Is(err, keyring.ErrMismatch) {
		t.Error(err)
	}
}

const goldenBundle = `{
  "format": "riffle-bundle-1",
  "deployment": "demo",
  "analyzer": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE",
  "shuffler": "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI",
  "registrar": "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM",
  "auditor": "BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ"
}
`

func TestBundleFile(t *testing.T) {
	loadText := func(text string) (keyring.Bundle, error) {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, keyring.BundleFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return keyring.LoadBundle(root)
	}
	b, err := loadText(goldenBundle)
	if err != nil || b.Deployment != "demo" || b.Analyzer[0] != 1 || b.Shuffler[31] != 2 || b.Registrar[0] != 3 {
		t.Fatal(b, err)
	}
	for name, change := range map[string][2]string{
		"format":         {"bundle-1", "bundle-2"},
		"unknown field":  {`"format"`, `"x": 1, "format"`},
		"name":           {`"demo"`, `"Demo"`},
		"short key":      {"AQEBAQ", "AQEB"},
		"no key":         {`"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"`, `""`},
		"absent key":     {`"analyzer": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE",`, ""},
		"one key twice":  {strings.Repeat("AQEB", 10) + "AQE", strings.Repeat("AgIC", 10) + "AgI"},
		"not an object":  {"{", "["},
		"more than that": {"}\n", "}\n{}"},
	} {
		text := strings.Replace(goldenBundle, change[0], change[1], 1)
		if text == goldenBundle {
			t.Fatal(name)
		}
		if _, err := loadText(text); !errors.Is(err, keyring.ErrBundle) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A bundle says until which epoch a signing key is good, for the two roles that sign statements and from epoch 1.
func TestABundleSaysHowLongAKeyIsGood(t *testing.T) {
	t.Parallel()
	b, err := keyring.LoadBundle(generate(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		until map[string]uint64
		fine  bool
	}{
		{map[string]uint64{"analyzer": 1, "shuffler": 7}, true}, {map[string]uint64{"analyzer": 0}, false},
		{map[string]uint64{"registrar": 3}, false}, {map[string]uint64{"": 3}, false},
	} {
		b.Until = x.until
		text, err := b.Encode()
		path := filepath.Join(t.TempDir(), "trust.json")
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		read, err := keyring.LoadBundleFile(path)
		if x.fine && (err != nil || !maps.Equal(read.Until, x.until)) || !x.fine && !errors.Is(err, keyring.ErrBundle) {
			t.Errorf("%v: %v, %v", x.until, read.Until, err)
		}
	}
}

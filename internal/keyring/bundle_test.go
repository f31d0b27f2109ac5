package keyring_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

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

package keyring_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/keyring"
)

// auditorOf loads the auditor's keys and checks that the newest is the bundle's.
func auditorOf(t *testing.T, root string, want int) *keyring.AuditorKeys {
	t.Helper()
	k, err := keyring.LoadAuditor(root)
	if err != nil || len(k.HPKE) != want || !bytes.Equal(k.HPKE[0].Public(), k.Bundle.Auditor) {
		t.Fatalf("%+v, %v", k, err)
	}
	return k
}

// Rotation of the auditor's key keeps the rest of the bundle, and the keys that open what was sealed before.
func TestAnAuditorsKeyIsRotated(t *testing.T) {
	root := generate(t)
	before := auditorOf(t, root, 1).Bundle
	for n := 2; n <= 3; n++ {
		path, err := keyring.RotateHPKE(root, keyring.Auditor)
		if err != nil || filepath.Dir(path) != filepath.Join(root, "auditor") {
			t.Fatal(path, err)
		}
		after := auditorOf(t, root, n).Bundle
		if after.Auditor = nil; after.Deployment != before.Deployment ||
			!bytes.Equal(after.Analyzer, before.Analyzer) ||
			!bytes.Equal(after.Shuffler, before.Shuffler) ||
			!bytes.Equal(after.Registrar, before.Registrar) {
			t.Errorf("the bundle became %+v", after)
		}
	}
	info, err := os.Stat(filepath.Join(root, keyring.BundleFile))
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := keyring.LoadShuffler(root); err != nil {
		t.Error(err)
	}
}

// An auditor whose folder lacks the key that chunks are sealed to learns it before there is anything to open, and a
// bundle whose key of the auditor hides nothing is refused.
func TestAnAuditorsKeyThatDoesNotFitIsRefused(t *testing.T) {
	root := generate(t)
	if err := os.Remove(filepath.Join(root, "auditor", "hpke-0001.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.LoadAuditor(root); !errors.Is(err, keyring.ErrMismatch) {
		t.Errorf("a key that is gone: %v", err)
	}
	bundle, err := keyring.LoadBundle(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]keyring.Key{
		"low order": make(keyring.Key, 32), "short": make(keyring.Key, 31), "none": nil,
	} {
		bundle.Auditor = key
		if err := bundle.Validate(); !errors.Is(err, keyring.ErrBundle) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

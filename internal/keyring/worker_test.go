package keyring_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

// A worker gets the encryption keys and the credential of its role, old keys too, and never its identity.
func TestAWorkersKeysLackTheIdentity(t *testing.T) {
	root := generate(t)
	if _, err := keyring.RotateHPKE(root, keyring.Shuffler); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "worker")
	if err := keyring.MakeWorker(root, keyring.Shuffler, to); err != nil {
		t.Fatal(err)
	}
	lead, err := keyring.LoadShuffler(root)
	if err != nil {
		t.Fatal(err)
	}
	k, err := keyring.LoadWorker(to, keyring.Shuffler)
	if err != nil || len(k.HPKE) != 2 || !bytes.Equal(k.Seed, lead.Seed) ||
		!slices.EqualFunc(keyring.Secrets(k.HPKE), keyring.Secrets(lead.HPKE), bytes.Equal) {
		t.Fatalf("%+v, %v", k, err)
	}
	if _, err := keyring.LoadShuffler(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a lead with a worker's keys: %v", err)
	}
	if _, err := keyring.LoadWorker(root, keyring.Shuffler); !errors.Is(err, keyring.ErrIdentity) {
		t.Errorf("a worker with the lead's keys: %v", err)
	}
	if _, err := keyring.LoadWorker(to, keyring.Analyzer); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a worker of another role: %v", err)
	}
	if err := keyring.MakeWorker(root, keyring.Shuffler, to); !errors.Is(err, keyfile.ErrExists) {
		t.Errorf("a folder that is in use: %v", err)
	}
	if err := keyring.MakeWorker(root, keyring.Auditor, filepath.Join(t.TempDir(), "w")); !errors.Is(err,
		keyring.ErrOptions) {
		t.Errorf("a role without workers: %v", err)
	}
}

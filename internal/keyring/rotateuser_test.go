package keyring_test

import (
	"bytes"
	"errors"
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
)

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

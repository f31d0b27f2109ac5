package keyring_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// enrolmentOf is what a verifier with this bundle says to the host's request for its last device.
func enrolmentOf(t *testing.T, h *keyring.HostKeys, b keyring.Bundle) (wire.Enrolment, error) {
	t.Helper()
	signed, _, err := wire.Sign(&wire.EnrolRequest{Deployment: "demo", Epoch: 1, Announcement: make([]byte, 32),
		Device: h.Devices - 1, Credential: h.Credential}, h.Identity)
	if err != nil {
		t.Fatal(err)
	}
	return wire.OpenEnrolRequest(signed, b.RegistrarParty())
}

func hostOf(t *testing.T, root string) *keyring.HostKeys {
	t.Helper()
	h, err := keyring.LoadRandomizer(root, "one")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Whoever has the new bundle refuses a host's replaced keys and knows its devices as those that they were. Whoever has
// the old one refuses the new key, which would otherwise give every device a second place.
func TestAHostsNewKeyReplacesTheOldOne(t *testing.T) {
	root := generate(t)
	hosts, bundles := []*keyring.HostKeys{hostOf(t, root)}, []keyring.Bundle{hostOf(t, root).Bundle}
	before, err := keyring.LoadUsers(root)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := keyring.RotateHost(root, "one"); err != nil {
			t.Fatal(err)
		}
		hosts, bundles = append(hosts, hostOf(t, root)), append(bundles, hostOf(t, root).Bundle)
	}
	for i, h := range hosts {
		if h.Devices != 5 || h.Order != hosts[0].Order || i > 0 && bytes.Equal(h.Seed, hosts[i-1].Seed) {
			t.Errorf("key %d: %d devices, another order, or the old seed", i, h.Devices)
		}
		for j, b := range bundles {
			e, err := enrolmentOf(t, h, b)
			if i == j && (err != nil || !bytes.Equal(e.HostKey[:], hosts[0].Identity.Public())) {
				t.Errorf("key %d with its own bundle: %v", i, err)
			}
			if i != j && !errors.Is(err, wire.ErrCredential) {
				t.Errorf("key %d with bundle %d: %v", i, j, err)
			}
		}
	}
	after, err := keyring.LoadUsers(root)
	if err != nil || len(after["randomizer"]) != 2 || after["randomizer"][0] != before["randomizer"][1] ||
		after["randomizer"][1] == before["randomizer"][0] {
		t.Errorf("users %v became %v, %v", before["randomizer"], after["randomizer"], err)
	}
	if entries, err := filepath.Glob(filepath.Join(root, "*.new")); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// A rotation that was ended after it had written the bundle can be run again: the key that nobody has got is replaced
// too.
func TestAnInterruptedRotationCanBeRunAgain(t *testing.T) {
	root := generate(t)
	old, folder := hostOf(t, root), filepath.Join(root, "randomizer-one")
	if err := os.CopyFS(folder+".kept", os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	closeAll(t, folder+".kept")
	if err := keyring.RotateHost(root, "one"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(folder, folder+".new"), os.Rename(folder+".kept", folder)); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.LoadRandomizer(root, "one"); !errors.Is(err, keyring.ErrMismatch) {
		t.Errorf("a replaced key loads: %v", err)
	}
	if err := keyring.RotateHost(root, "one"); err != nil {
		t.Fatal(err)
	}
	h := hostOf(t, root)
	if e, err := enrolmentOf(t, h, h.Bundle); err != nil || !bytes.Equal(e.HostKey[:], old.Identity.Public()) {
		t.Error(err)
	}
}

func TestAWithdrawnHostIsRefused(t *testing.T) {
	root := generate(t)
	old := hostOf(t, root)
	if err := keyring.WithdrawHost(root, "one"); err != nil {
		t.Fatal(err)
	}
	bundle, err := keyring.LoadBundle(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enrolmentOf(t, old, bundle); !errors.Is(err, wire.ErrCredential) {
		t.Error(err)
	}
	if users, err := keyring.LoadUsers(root); err != nil || len(users["randomizer"]) != 1 {
		t.Error(users, err)
	}
	if _, err := keyring.LoadRandomizer(root, "two-2"); err != nil {
		t.Errorf("another host: %v", err)
	}
	before := snapshot(t, root)
	if err := keyring.RotateHost(root, "one"); !errors.Is(err, keyring.ErrOptions) {
		t.Error(err)
	}
	if !maps.Equal(before, snapshot(t, root)) {
		t.Error("a refused RotateHost changed the folder")
	}
}

// Private files that others can read are refused before anything changes.
func TestRotationRefusesOpenFiles(t *testing.T) {
	for file, change := range map[string]func(string) error{
		"randomizer-one/host.key":  func(r string) error { return keyring.RotateHost(r, "one") },
		"randomizer-one/nats.seed": func(r string) error { return keyring.RotateUser(r, "randomizer-one") },
		"registrar/identity.key":   func(r string) error { return keyring.RotateHost(r, "one") },
		"analyzer/nats.seed":       func(r string) error { return keyring.RotateUser(r, "analyzer") },
	} {
		root := generate(t)
		if err := os.Chmod(filepath.Join(root, file), 0o640); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, root)
		if err := change(root); !errors.Is(err, keyfile.ErrPermissions) {
			t.Errorf("%s: %v", file, err)
		}
		if !maps.Equal(before, snapshot(t, root)) {
			t.Errorf("%s: the folder changed", file)
		}
	}
}

// A host's user at the broker is replaced, and no other.
func TestAHostsUserIsReplaced(t *testing.T) {
	root := generate(t)
	before, err := keyring.LoadUsers(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyring.RotateUser(root, "randomizer-one"); err != nil {
		t.Fatal(err)
	}
	public, err := keyfile.PublicUser(hostOf(t, root).Seed)
	if err != nil {
		t.Fatal(err)
	}
	after, err := keyring.LoadUsers(root)
	if want := []string{before["randomizer"][1], public}; err != nil || !slices.Equal(after["randomizer"], want) {
		t.Errorf("%v, %v", after, err)
	}
}

// A bundle that lists a key twice, or a host without need, is refused: it could not say which key is in force.
func TestABundleListsHostsWithoutContradiction(t *testing.T) {
	root := generate(t)
	if err := keyring.RotateHost(root, "one"); err != nil {
		t.Fatal(err)
	}
	b := hostOf(t, root).Bundle
	good := b.Hosts[0]
	for name, bad := range map[string][]keyring.HostKeysOf{
		"in force anyway":  {{Name: "one", First: good.First}},
		"a key twice":      {{Name: "one", First: good.First, Then: []keyring.Key{good.First}}},
		"two hosts of one": {good, {Name: "two-2", First: good.Then[0], Withdrawn: true}},
		"a name twice":     {good, {Name: "one", First: make(keyring.Key, 32), Withdrawn: true}},
		"a short key":      {{Name: "one", First: make(keyring.Key, 31), Withdrawn: true}},
		"a bad name":       {{Name: "One", First: good.First, Withdrawn: true}},
	} {
		if b.Hosts = bad; !errors.Is(b.Validate(), keyring.ErrBundle) {
			t.Errorf("%s: %v", name, b.Validate())
		}
	}
}

// A folder that lies under another host's name is not rotated: its devices would get the places of that host's.
func TestAnotherHostsFolderIsNotRotated(t *testing.T) {
	root := generate(t)
	if err := keyring.RotateHost(root, "one"); err != nil {
		t.Fatal(err)
	}
	one, two := filepath.Join(root, "randomizer-one"), filepath.Join(root, "randomizer-two-2")
	if err := errors.Join(os.RemoveAll(one), os.Rename(two, one)); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, root)
	for name, change := range map[string]func(string, string) error{
		"RotateHost": keyring.RotateHost, "WithdrawHost": keyring.WithdrawHost,
	} {
		if err := change(root, "one"); !errors.Is(err, keyring.ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !maps.Equal(before, snapshot(t, root)) {
		t.Error("a refused change changed the folder")
	}
}

// A host's number is raised by a credential that is signed anew, also once its key was replaced: key, order, user and
// bundle stay. It is never lowered, and no other host's.
func TestAHostsNumberIsRaised(t *testing.T) {
	root := generate(t)
	for _, rotate := range []bool{false, true} {
		if rotate {
			if err := keyring.RotateHost(root, "one"); err != nil {
				t.Fatal(err)
			}
		}
		old := hostOf(t, root)
		raised := keyring.HostOptions{Name: "one", Devices: old.Devices + 7}
		if err := keyring.RaiseHost(root, raised); err != nil {
			t.Fatal(err)
		}
		now := hostOf(t, root)
		if now.Devices != raised.Devices || now.Order != old.Order || !bytes.Equal(now.Seed, old.Seed) ||
			!bytes.Equal(now.Identity.Public(), old.Identity.Public()) {
			t.Errorf("%d devices, or another key, order or user", now.Devices)
		}
		e, err := enrolmentOf(t, now, old.Bundle) // for its last device, at a shuffler that has the bundle from before
		if err != nil || e.Covers != raised.Devices {
			t.Errorf("%+v, %v", e, err)
		}
		for _, devices := range []uint32{old.Devices, raised.Devices, 0} {
			err := keyring.RaiseHost(root, keyring.HostOptions{Name: "one", Devices: devices})
			if !errors.Is(err, keyring.ErrOptions) {
				t.Errorf("to %d: %v", devices, err)
			}
		}
		if hostOf(t, root).Devices != raised.Devices {
			t.Error("a refused change changed the credential")
		}
	}
	if err := keyring.RaiseHost(root, keyring.HostOptions{Name: "nobody", Devices: 9}); err == nil {
		t.Error("a host that is not there is raised")
	}
	if err := keyring.WithdrawHost(root, "one"); err != nil {
		t.Fatal(err)
	}
	err := keyring.RaiseHost(root, keyring.HostOptions{Name: "one", Devices: 900})
	if !errors.Is(err, keyring.ErrOptions) {
		t.Errorf("a withdrawn host: %v", err)
	}
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

package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// RotateHost gives a randomizer host a new key, a credential for it, and a new user at the broker. The bundle then
// lists the new key behind the old one: the shuffler and the analyzer, once they have that bundle, refuse the old key,
// and know the host's devices as those that they were. So the new key gives no device a further epoch. The order in
// which the host numbers its devices is kept. The registrar's folder and the host's must be there.
func RotateHost(root, name string) error {
	r, err := LoadRegistrar(root)
	if err != nil {
		return err
	}
	old, err := loadHost(root, name, r.Bundle)
	if err != nil {
		return err
	}
	bundle, listed := r.Bundle.list(name, old.first)
	if listed.Withdrawn {
		return fmt.Errorf("%w: host %q was withdrawn; admit it under another name", ErrOptions, name)
	}
	host, err := seal.GenerateIdentity()
	if err != nil {
		return err
	}
	listed.Then = append(listed.Then, host.Public())
	users, err := LoadUsers(root)
	if err != nil {
		return err
	}
	users[Randomizer] = without(users[Randomizer], old.user)

	// Everything lies in a folder beside the host's before the bundle names the new key. Whoever is interrupted runs
	// the command again: the bundle may then list a key that no one has.
	next := Randomizer + "-" + name + ".new"
	if err := os.RemoveAll(filepath.Join(root, next)); err != nil {
		return err
	}
	err = newUser(root, next, Randomizer, users)
	if err == nil {
		err = writeHost(filepath.Join(root, next), host, old.order[:], wire.Credential{Deployment: bundle.Deployment,
			HostKey: host.Public(), Devices: old.devices, FirstKey: listed.First, NotAfter: old.notAfter}, r.Identity)
	}
	if err == nil {
		err = replaceBundle(root, bundle)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(filepath.Join(root, next)))
	}
	if err := writeUsers(root, users); err != nil {
		return err
	}
	if err := os.RemoveAll(hostFolder(root, name)); err != nil {
		return err
	}
	return os.Rename(filepath.Join(root, next), hostFolder(root, name))
}

// WithdrawHost makes the shuffler and the analyzer, once they have the new bundle, refuse everything that a host's key
// signs, and the broker its user. The host's folder stays.
func WithdrawHost(root, name string) error {
	bundle, err := LoadBundle(root)
	if err != nil {
		return err
	}
	old, err := loadHost(root, name, bundle)
	if err != nil {
		return err
	}
	users, err := LoadUsers(root)
	if err != nil {
		return err
	}
	bundle, listed := bundle.list(name, old.first)
	listed.Withdrawn = true
	if err := replaceBundle(root, bundle); err != nil {
		return err
	}
	users[Randomizer] = without(users[Randomizer], old.user)
	return writeUsers(root, users)
}

// list returns a copy of the bundle that lists the host, with its place in it.
func (b Bundle) list(name string, first Key) (Bundle, *HostKeysOf) {
	b.Hosts = slices.Clone(b.Hosts)
	i := slices.IndexFunc(b.Hosts, func(h HostKeysOf) bool { return h.Name == name })
	if i < 0 {
		b.Hosts = append(b.Hosts, HostKeysOf{Name: name, First: first})
		i = len(b.Hosts) - 1
	}
	b.Hosts[i].Then = slices.Clone(b.Hosts[i].Then)
	return b, &b.Hosts[i]
}

// hostNow is what a change of a host's keys begins with.
type hostNow struct {
	first   Key
	key     Key // the present one
	devices uint32
	// last epoch in which it may enrol them; 0: no end
	notAfter uint64
	order    [32]byte
	user     string // public nkey
}

// loadHost reads a host's folder, whose key may have been replaced by a run that was interrupted.
func loadHost(root, name string, bundle Bundle) (*hostNow, error) {
	if err := checkName(ErrOptions, "a host", name); err != nil {
		return nil, err
	}
	folder := hostFolder(root, name)
	k, c, err := readHost(folder, bundle)
	if err != nil {
		return nil, err
	}
	now := &hostNow{first: c.HostKey, key: c.HostKey, devices: c.Devices, notAfter: c.NotAfter, order: k.Order}
	if len(c.FirstKey) > 0 {
		now.first = c.FirstKey
	}
	for _, h := range bundle.Hosts {
		if h.Name == name != bytes.Equal(h.First, now.first) {
			return nil, fmt.Errorf("%s: %w: the bundle lists another key for host %q", folder, ErrMismatch, h.Name)
		}
	}
	now.user, err = keyfile.PublicUser(k.Seed)
	return now, err
}

// readHost reads a host's folder and checks that the registrar admitted the host.
func readHost(folder string, bundle Bundle) (k *HostKeys, c *wire.Credential, err error) {
	k = &HostKeys{Bundle: bundle}
	if k.Identity, err = keyfile.LoadIdentity(filepath.Join(folder, hostFile)); err != nil {
		return nil, nil, err
	}
	if k.Seed, err = keyfile.LoadSeed(filepath.Join(folder, seedFile)); err != nil {
		return nil, nil, err
	}
	path := filepath.Join(folder, credentialFile)
	if k.Credential, err = os.ReadFile(filepath.Clean(path)); err != nil {
		return nil, nil, err
	}
	registrar := bundle.RegistrarParty()
	registrar.Hosts = registrar.Hosts.Past() // a host that was withdrawn keeps its folder
	if _, err := wire.OpenCredential(k.Credential, registrar); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", path, ErrMismatch, err)
	}
	if c, err = wire.ReadCredential(k.Credential); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if !bytes.Equal(c.HostKey, k.Identity.Public()) {
		return nil, nil, fmt.Errorf("%s: %w: the credential is another host's", path, ErrMismatch)
	}
	k.Devices, k.Order = c.Devices, OrderOf(k.Identity)
	if len(c.FirstKey) > 0 {
		path := filepath.Join(folder, orderFile)
		order, err := keyfile.LoadPrivate(path)
		if err != nil {
			return nil, nil, err
		}
		if len(order) != len(k.Order) {
			return nil, nil, fmt.Errorf("%s: %w: %d bytes, must be %d", path, ErrMismatch, len(order), len(k.Order))
		}
		k.Order = [32]byte(order)
	}
	return k, c, nil
}

// writeHost writes all of a host's folder but its user at the broker. order is nil where the key is the host's first.
func writeHost(folder string, host *seal.Identity, order []byte, c wire.Credential, by *seal.Identity) error {
	if err := keyfile.WriteIdentity(filepath.Join(folder, hostFile), host); err != nil {
		return err
	}
	if order != nil {
		if err := keyfile.Create(filepath.Join(folder, orderFile), order, 0o600); err != nil {
			return err
		}
	}
	signed, _, err := wire.Sign(&c, by)
	if err != nil {
		return err
	}
	return keyfile.Create(filepath.Join(folder, credentialFile), signed, 0o644)
}

// OrderOf is the secret from which follows in which order a host numbers its devices, as its first key gives it. It
// outlives the key: a host whose state was set back must give the numbers again that it gave before.
func OrderOf(first *seal.Identity) [32]byte { return first.Derive([]byte("riffle/v1/device numbers")) }

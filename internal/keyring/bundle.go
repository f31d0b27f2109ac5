package keyring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var (
	// ErrBundle means a trust bundle or users file that cannot be used.
	ErrBundle = errors.New("trust bundle or users file is not usable")
	// ErrMismatch means keys or credentials that belong to another deployment than the bundle beside them.
	ErrMismatch = errors.New("keys do not belong to this bundle")
)

// Names of files and folders.
const (
	BundleFile = "bundle.json"
	UsersFile  = "nats-users.json"
)

const (
	bundleFormat = "riffle-bundle-1"
	usersFormat  = "riffle-nats-users-1"
	maxFile      = 16 << 20
)

// Key is an Ed25519 public key, base64 in text.
type Key []byte

// MarshalText is unpadded base64.
func (k Key) MarshalText() ([]byte, error) { return []byte(keyfile.EncodeKey(k)), nil }

// UnmarshalText reads unpadded base64 of 32 bytes.
func (k *Key) UnmarshalText(text []byte) (err error) {
	*k, err = keyfile.DecodeKey(string(text))
	return err
}

// Bundle is what all roles must agree on beforehand: whose signatures to believe. It is public, but must reach each
// role by a way on which no one can change it: an attacker who replaces it can take the analyzer's and the shuffler's
// place at once.
type Bundle struct {
	Deployment string `json:"deployment"`
	Analyzer   Key    `json:"analyzer"`  // signs announcements, counts and its key set
	Shuffler   Key    `json:"shuffler"`  // signs manifests, enrolment replies and its key set
	Registrar  Key    `json:"registrar"` // signs credentials
	// Auditor is the HPKE public key that what is retained is sealed to.
	Auditor Key `json:"auditor"`
	// Until is the last epoch for which a role's signing key is good, by role (analyzer or shuffler); a role that is
	// not in it has a key without an end. Only audits look at it: whoever had a key taken from them says so here
	// (EndKey).
	Until map[string]uint64 `json:"until,omitempty"`
	// Hosts are those whose key was replaced or that were withdrawn. The shuffler and the analyzer refuse what is
	// signed with a key that is not in force, and know a host's devices by its first key.
	Hosts []HostKeysOf `json:"hosts,omitempty"`
}

// HostKeysOf are the keys of one host, by its name.
type HostKeysOf struct {
	Name      string `json:"name"`
	First     Key    `json:"first"`               // with which the host was first admitted
	Then      []Key  `json:"then,omitempty"`      // that replaced it, in order; the last one is in force
	Withdrawn bool   `json:"withdrawn,omitempty"` // none of them is in force
}

// hosts are the bundle's in the form in which statements are held against them.
func (b Bundle) hosts() (*wire.Hosts, error) {
	var list []wire.HostKeys
	names := map[string]bool{}
	for _, h := range b.Hosts {
		if err := checkName(ErrBundle, "a host", h.Name); err != nil {
			return nil, err
		}
		if names[h.Name] {
			return nil, fmt.Errorf("%w: host %q is a duplicate", ErrBundle, h.Name)
		}
		names[h.Name] = true
		one := wire.HostKeys{Withdrawn: h.Withdrawn}
		for i, key := range append([]Key{h.First}, h.Then...) {
			if len(key) != 32 {
				return nil, fmt.Errorf("%w: host %q has a key of %d bytes, must have 32", ErrBundle, h.Name, len(key))
			}
			if i == 0 {
				one.First = [32]byte(key)
			} else {
				one.Then = append(one.Then, [32]byte(key))
			}
		}
		list = append(list, one)
	}
	if len(list) == 0 {
		return nil, nil
	}
	hosts, err := wire.NewHosts(list)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	return hosts, nil
}

// Validate refuses a bundle with a bad name, a missing key, or one key in two roles.
func (b Bundle) Validate() error {
	if err := checkName(ErrBundle, "the deployment", b.Deployment); err != nil {
		return err
	}
	keys := []struct {
		role string
		key  Key
	}{{"analyzer", b.Analyzer}, {"shuffler", b.Shuffler}, {"registrar", b.Registrar}}
	for i, k := range keys {
		if len(k.key) != 32 {
			return fmt.Errorf("%w: %s has a key of %d bytes, must have 32", ErrBundle, k.role, len(k.key))
		}
		for _, other := range keys[:i] {
			if bytes.Equal(k.key, other.key) {
				return fmt.Errorf("%w: %s and %s have the same key; each role needs its own", ErrBundle, other.role,
					k.role)
			}
		}
	}
	if err := seal.CheckHPKEPublic(b.Auditor); err != nil {
		return fmt.Errorf("%w: the auditor's key: %w", ErrBundle, err)
	}
	if _, err := b.hosts(); err != nil {
		return err
	}
	for role, epoch := range b.Until {
		if role != Analyzer && role != Shuffler || epoch == 0 {
			return fmt.Errorf("%w: until names %q and epoch %d; it can name %s and %s, and epochs from 1", ErrBundle,
				role,
				epoch, Analyzer, Shuffler)
		}
	}
	return nil
}

// AnalyzerParty is whom the analyzer's statements must come from.
func (b Bundle) AnalyzerParty() wire.Party {
	return wire.Party{Deployment: b.Deployment, Key: b.Analyzer}
}

// ShufflerParty is whom the shuffler's statements must come from.
func (b Bundle) ShufflerParty() wire.Party {
	return wire.Party{Deployment: b.Deployment, Key: b.Shuffler}
}

// RegistrarParty is whom credentials must come from, with the hosts whose keys were replaced or withdrawn.
func (b Bundle) RegistrarParty() wire.Party {
	hosts, _ := b.hosts() // Validate has refused a list that is not usable
	return wire.Party{Deployment: b.Deployment, Key: b.Registrar, Hosts: hosts}
}

type bundleJSON struct {
	Format string `json:"format"`
	Bundle
}

type usersJSON struct {
	Format string              `json:"format"`
	Users  map[string][]string `json:"users"` // public nkeys by role
}

// LoadBundle reads the bundle of a key folder.
func LoadBundle(root string) (Bundle, error) { return LoadBundleFile(filepath.Join(root, BundleFile)) }

// LoadBundleFile reads a bundle from a file of any name.
func LoadBundleFile(path string) (Bundle, error) {
	var b bundleJSON
	if err := load(path, &b); err != nil {
		return Bundle{}, err
	}
	if b.Format != bundleFormat {
		return Bundle{}, fmt.Errorf("%s: %w: format %q, expected %q", path, ErrBundle, b.Format, bundleFormat)
	}
	if err := b.Validate(); err != nil {
		return Bundle{}, fmt.Errorf("%s: %w", path, err)
	}
	return b.Bundle, nil
}

// Encode is the bundle as its file holds it.
func (b Bundle) Encode() ([]byte, error) { return encodeJSON(bundleJSON{bundleFormat, b}) }

// LoadUsers reads the public nkeys by role, for the broker.
func LoadUsers(root string) (map[string][]string, error) {
	var u usersJSON
	if err := load(filepath.Join(root, UsersFile), &u); err != nil {
		return nil, err
	}
	if u.Format != usersFormat {
		return nil, fmt.Errorf("%s: %w: format %q, expected %q", filepath.Join(root, UsersFile), ErrBundle, u.Format,
			usersFormat)
	}
	return u.Users, nil
}

// load reads one JSON object.
func load(path string, into any) error {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := strict.Unmarshal(text, into, strict.Options{}); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrBundle, err)
	}
	return nil
}

// replaceBundle replaces the bundle of a folder in one step.
func replaceBundle(root string, b Bundle) error {
	if err := b.Validate(); err != nil {
		return err
	}
	text, err := b.Encode()
	if err != nil {
		return err
	}
	return keyfile.Replace(filepath.Join(root, BundleFile), text, 0o644)
}

// writeBundle writes the bundle as a new file.
func writeBundle(path string, b Bundle) error {
	text, err := b.Encode()
	if err != nil {
		return err
	}
	return keyfile.Create(path, text, 0o644)
}

func encodeJSON(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}

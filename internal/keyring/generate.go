package keyring

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Options says which deployment to make keys for.
type Options struct {
	Name  string        // of the deployment: a-z, 0-9, "-", at most 63
	Hosts []HostOptions // randomizer hosts; more can be added with AddHost
	// Brokers that get a certificate of the deployment's own authority; more can be added with AddBroker. None: no
	// authority is made, and TLS, if any, comes from elsewhere.
	Brokers []BrokerOptions
}

// HostOptions is one randomizer host.
type HostOptions struct {
	Name    string // a-z, 0-9, "-"
	Devices uint32 // how many devices it may enrol, each once; at least 1
	// NotAfter is the last epoch in which they may; 0: no end, and where a host is raised the one that it has.
	NotAfter uint64
}

// NATS roles, which are also the names of the folders (randomizer's with the host's name after it).
const (
	Randomizer = "randomizer"
	Ingress    = "ingress"
	Shuffler   = "shuffler"
	Analyzer   = "analyzer"
	Auditor    = "auditor"
	Admin      = "admin"
	registrar  = "registrar"
)

// Files inside the folders.
const (
	identityFile   = "identity.key"
	hostFile       = "host.key"
	credentialFile = "credential"
	seedFile       = "nats.seed"
	orderFile      = "order.key"  // of a host whose key was replaced
	ticketFile     = "ticket.key" // of the shuffler and the ingress: tickets for reports are made and checked with it
)

// ErrOptions means a name, a role or a number that a deployment cannot have.
var ErrOptions = errors.New("invalid argument")

// Generate makes all keys of a deployment in a folder that is empty or does not exist. bundle.json is written last:
// where an error is returned, what was written before is removed again. Running it twice gives two deployments that
// do not know each other.
func Generate(root string, o Options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s: %w: the folder is not empty; choose a new one", root, keyfile.ErrExists)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, empty(root))
		}
	}()
	bundle := Bundle{Deployment: o.Name}
	users := map[string][]string{}
	for role, key := range map[string]*Key{Analyzer: &bundle.Analyzer, Shuffler: &bundle.Shuffler,
		registrar: &bundle.Registrar} {
		if *key, err = newIdentity(filepath.Join(root, role)); err != nil {
			return err
		}
	}
	for _, role := range []string{Analyzer, Shuffler, Ingress, Auditor, Admin} {
		if err := newUser(root, role, role, users); err != nil {
			return err
		}
	}
	for _, role := range []string{Analyzer, Shuffler, Auditor} {
		_, key, err := newHPKE(root, role)
		if err != nil {
			return err
		}
		if role == Auditor {
			bundle.Auditor = key.Public()
		}
	}
	if err := RotateTicket(root); err != nil {
		return err
	}
	by, err := keyfile.LoadIdentity(filepath.Join(root, registrar, identityFile))
	if err != nil {
		return err
	}
	for _, h := range o.Hosts {
		if err := newHost(root, o.Name, h, by, users); err != nil {
			return err
		}
	}
	if err := writeUsers(root, users); err != nil {
		return err
	}
	if len(o.Brokers) > 0 {
		now := time.Now()
		if err := newAuthority(root, o.Name, now); err != nil {
			return err
		}
		for _, b := range o.Brokers {
			if err := addBroker(root, b, now); err != nil {
				return err
			}
		}
	}
	return writeBundle(filepath.Join(root, BundleFile), bundle)
}

// AddHost admits one more randomizer host to a deployment whose registrar's key is in the folder. The broker must
// read the users file again.
func AddHost(root string, h HostOptions) error {
	if err := h.check(); err != nil {
		return err
	}
	r, err := LoadRegistrar(root)
	if err != nil {
		return err
	}
	users, err := LoadUsers(root)
	if err != nil {
		return err
	}
	if _, err := os.Stat(hostFolder(root, h.Name)); err == nil {
		return fmt.Errorf("%s: %w", hostFolder(root, h.Name), keyfile.ErrExists)
	}
	err = newHost(root, r.Bundle.Deployment, h, r.Identity, users)
	if err == nil {
		err = writeUsers(root, users)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(hostFolder(root, h.Name)))
	}
	return nil
}

// RotateHPKE makes a new HPKE key for the analyzer, the shuffler or the auditor and returns its file; older keys still
// open messages until their files are deleted. The analyzer and the shuffler seal and announce with it once restarted.
// The auditor's is in the bundle, which is replaced in one step: the shuffler retains with it once it has the new
// bundle and is restarted.
func RotateHPKE(root, role string) (string, error) {
	if role != Analyzer && role != Shuffler && role != Auditor {
		return "", fmt.Errorf("%w: %q has no HPKE key; only %s, %s and %s have one", ErrOptions, role, Analyzer,
			Shuffler,
			Auditor)
	}
	if role != Auditor {
		path, _, err := newHPKE(root, role)
		return path, err
	}
	bundle, err := LoadBundle(root)
	if err != nil {
		return "", err
	}
	path, key, err := newHPKE(root, role)
	if err != nil {
		return "", err
	}
	bundle.Auditor = key.Public()
	if err := replaceBundle(root, bundle); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return path, nil
}

// RotateTicket gives the shuffler and the ingress a new key for tickets. Those that were made with the old one are good
// for nothing once the ingress is restarted.
func RotateTicket(root string) error {
	var ticket [32]byte
	rand.Read(ticket[:]) // never fails
	for _, role := range []string{Shuffler, Ingress} {
		path := filepath.Join(root, role, ticketFile)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := keyfile.WriteSecret(path, ticket); err != nil {
			return err
		}
	}
	return nil
}

// newHPKE makes a role's next HPKE key in its folder.
func newHPKE(root, role string) (path string, key *seal.HPKEKey, err error) {
	folder := filepath.Join(root, role)
	files, err := hpkeFiles(folder)
	if err != nil {
		return "", nil, err
	}
	next := 1
	if len(files) > 0 {
		next = files[0].number + 1
	}
	if key, err = seal.GenerateHPKE(); err != nil {
		return "", nil, err
	}
	path = filepath.Join(folder, fmt.Sprintf("hpke-%04d.key", next))
	return path, key, keyfile.WriteHPKE(path, key)
}

func (o Options) check() error {
	if err := checkName(ErrOptions, "the deployment", o.Name); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, h := range o.Hosts {
		if err := h.check(); err != nil {
			return err
		}
		if seen[h.Name] {
			return fmt.Errorf("%w: two hosts are called %q", ErrOptions, h.Name)
		}
		seen[h.Name] = true
	}
	seen = map[string]bool{}
	for _, b := range o.Brokers {
		if err := b.check(); err != nil {
			return err
		}
		if seen[b.Name] {
			return fmt.Errorf("%w: two brokers are called %q", ErrOptions, b.Name)
		}
		seen[b.Name] = true
	}
	return nil
}

func (h HostOptions) check() error {
	if err := checkName(ErrOptions, "a host", h.Name); err != nil {
		return err
	}
	if h.Devices == 0 {
		return fmt.Errorf("%w: host %q has no devices", ErrOptions, h.Name)
	}
	return nil
}

// checkName refuses a name that cannot be part of a subject at the broker or of a file's name; its error wraps kind. of
// is what has the name.
func checkName(kind error, of, name string) error {
	if wire.CheckDeployment(name) != nil {
		return fmt.Errorf("%w: the name of %s is %q; it must have 1 to %d characters of a-z, 0-9 and \"-\", and not "+
			"begin with \"-\"", kind, of, name, wire.MaxDeployment)
	}
	return nil
}

func hostFolder(root, name string) string { return filepath.Join(root, Randomizer+"-"+name) }

func newIdentity(folder string) (Key, error) {
	if err := keyfile.Folder(folder); err != nil {
		return nil, err
	}
	id, err := seal.GenerateIdentity()
	if err != nil {
		return nil, err
	}
	return id.Public(), keyfile.WriteIdentity(filepath.Join(folder, identityFile), id)
}

// newUser makes a NATS user of a role in a folder and notes its public key.
func newUser(root, folder, role string, users map[string][]string) error {
	path := filepath.Join(root, folder)
	if err := keyfile.Folder(path); err != nil {
		return err
	}
	seed, public, err := keyfile.NewSeed()
	if err != nil {
		return err
	}
	users[role] = append(users[role], public)
	return keyfile.WriteSeed(filepath.Join(path, seedFile), seed)
}

func newHost(root, deployment string, h HostOptions, by *seal.Identity, users map[string][]string) error {
	folder := hostFolder(root, h.Name)
	if err := newUser(root, Randomizer+"-"+h.Name, Randomizer, users); err != nil {
		return err
	}
	host, err := seal.GenerateIdentity()
	if err != nil {
		return err
	}
	return writeHost(folder, host, nil, wire.Credential{Deployment: deployment, HostKey: host.Public(),
		Devices: h.Devices, NotAfter: h.NotAfter}, by)
}

// writeUsers replaces the users file in one step.
func writeUsers(root string, users map[string][]string) error {
	text, err := encodeJSON(usersJSON{usersFormat, users})
	if err != nil {
		return err
	}
	path := filepath.Join(root, UsersFile)
	if err := keyfile.Create(path+".new", text, 0o644); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return nil
}

// empty removes what Generate wrote, and nothing else: the folder was empty before.
func empty(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	var faults []error
	for _, e := range entries {
		if name := e.Name(); e.IsDir() || strings.HasPrefix(name, UsersFile) || name == BundleFile ||
			name == AuthorityFile {
			faults = append(faults, os.RemoveAll(filepath.Join(root, name)))
		}
	}
	return errors.Join(faults...)
}

package keyring

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ServerKeys is what the analyzer or the shuffler needs.
type ServerKeys struct {
	Bundle   Bundle
	Identity *seal.Identity
	HPKE     []*seal.HPKEKey // newest first
	Seed     []byte          // NATS
	Ticket   [32]byte        // of the shuffler: what tickets for reports are made with
}

// IngressKeys is what an ingress needs.
type IngressKeys struct {
	Bundle Bundle
	Seed   []byte   // NATS
	Ticket [32]byte // the shuffler's: what tickets for reports are checked with
}

// AuditorKeys is what an auditor needs to open what is retained.
type AuditorKeys struct {
	Bundle Bundle
	HPKE   []*seal.HPKEKey // newest first; may be empty
	Seed   []byte          // NATS
}

// HostKeys is what a randomizer host needs.
type HostKeys struct {
	Bundle     Bundle
	Identity   *seal.Identity // the host key
	Credential []byte         // the registrar's, for enrolment requests
	Devices    uint32         // devices 0..Devices-1 may enrol
	Seed       []byte         // NATS
	Order      [32]byte       // OrderOf the host's first key
}

// RegistrarKeys is what the registrar needs.
type RegistrarKeys struct {
	Bundle   Bundle
	Identity *seal.Identity
}

// LoadAnalyzer reads the analyzer's keys and checks that they are the bundle's.
func LoadAnalyzer(root string) (*ServerKeys, error) { return loadServer(root, Analyzer) }

// LoadShuffler reads the shuffler's keys and checks that they are the bundle's.
func LoadShuffler(root string) (*ServerKeys, error) {
	k, err := loadServer(root, Shuffler)
	if err != nil {
		return nil, err
	}
	k.Ticket, err = keyfile.LoadSecret(filepath.Join(root, Shuffler, ticketFile))
	return k, err
}

// LoadIngress reads the keys of an ingress.
func LoadIngress(root string) (*IngressKeys, error) {
	bundle, err := LoadBundle(root)
	if err != nil {
		return nil, err
	}
	k := &IngressKeys{Bundle: bundle}
	if k.Seed, err = keyfile.LoadSeed(filepath.Join(root, Ingress, seedFile)); err != nil {
		return nil, err
	}
	k.Ticket, err = keyfile.LoadSecret(filepath.Join(root, Ingress, ticketFile))
	return k, err
}

func loadServer(root, role string) (*ServerKeys, error) {
	bundle, err := LoadBundle(root)
	if err != nil {
		return nil, err
	}
	want := bundle.Analyzer
	if role == Shuffler {
		want = bundle.Shuffler
	}
	k := &ServerKeys{Bundle: bundle}
	folder := filepath.Join(root, role)
	if k.Identity, err = loadIdentity(filepath.Join(folder, identityFile), want, role); err != nil {
		return nil, err
	}
	if k.Seed, err = keyfile.LoadSeed(filepath.Join(folder, seedFile)); err != nil {
		return nil, err
	}
	if k.HPKE, err = loadHPKE(folder); err != nil {
		return nil, err
	}
	if n := len(k.HPKE); n == 0 || n > wire.MaxKeys {
		return nil, fmt.Errorf("%s: %w: %d HPKE keys (hpke-NNNN.key), must be 1 to %d; retire keys by deleting "+
			"their files", folder, ErrMismatch, n, wire.MaxKeys)
	}
	return k, nil
}

// LoadAuditor reads the auditor's keys. It checks that the key of the bundle is among them.
func LoadAuditor(root string) (*AuditorKeys, error) {
	bundle, err := LoadBundle(root)
	if err != nil {
		return nil, err
	}
	k := &AuditorKeys{Bundle: bundle}
	folder := filepath.Join(root, Auditor)
	if k.Seed, err = keyfile.LoadSeed(filepath.Join(folder, seedFile)); err != nil {
		return nil, err
	}
	if k.HPKE, err = loadHPKE(folder); err != nil {
		return nil, err
	}
	named := func(key *seal.HPKEKey) bool { return bytes.Equal(key.Public(), bundle.Auditor) }
	if !slices.ContainsFunc(k.HPKE, named) {
		return nil, fmt.Errorf("%s: %w: the bundle names another encryption key of the auditor", folder, ErrMismatch)
	}
	return k, nil
}

// loadHPKE reads the HPKE keys of a folder, newest first.
func loadHPKE(folder string) (keys []*seal.HPKEKey, err error) {
	files, err := hpkeFiles(folder)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		key, err := keyfile.LoadHPKE(f.path)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// LoadRegistrar reads the registrar's key and checks that it is the bundle's.
func LoadRegistrar(root string) (*RegistrarKeys, error) {
	bundle, err := LoadBundle(root)
	if err != nil {
		return nil, err
	}
	id, err := loadIdentity(filepath.Join(root, registrar, identityFile), bundle.Registrar, registrar)
	if err != nil {
		return nil, err
	}
	return &RegistrarKeys{Bundle: bundle, Identity: id}, nil
}

// LoadRandomizer reads a host's keys and checks that the registrar admitted the host to the bundle's deployment.
func LoadRandomizer(root, host string) (*HostKeys, error) {
	if err := checkName(ErrOptions, "a host", host); err != nil {
		return nil, err
	}
	bundle, err := LoadBundle(root)
	if err != nil {
		return nil, err
	}
	folder := hostFolder(root, host)
	k, c, err := readHost(folder, bundle)
	if err != nil {
		return nil, err
	}
	if _, err := bundle.RegistrarParty().Hosts.First([32]byte(c.HostKey)); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", folder, ErrMismatch, err)
	}
	return k, nil
}

// LoadSeed reads the NATS seed of a role that connects without any other key: Auditor or Admin.
func LoadSeed(root, role string) ([]byte, error) {
	if role != Auditor && role != Admin {
		return nil, fmt.Errorf("%w: %q needs other keys than a seed, too; only %s and %s do not", ErrOptions, role,
			Auditor, Admin)
	}
	return keyfile.LoadSeed(filepath.Join(root, role, seedFile))
}

func loadIdentity(path string, want Key, role string) (*seal.Identity, error) {
	id, err := keyfile.LoadIdentity(path)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(id.Public(), want) {
		return nil, fmt.Errorf("%s: %w: the bundle names another %s", path, ErrMismatch, role)
	}
	return id, nil
}

type numbered struct {
	number int
	path   string
}

// hpkeFiles lists hpke-NNNN.key, the highest number first.
func hpkeFiles(folder string) ([]numbered, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []numbered
	for _, e := range entries {
		name, isHPKE := strings.CutPrefix(e.Name(), "hpke-")
		name, isKey := strings.CutSuffix(name, ".key")
		if !isHPKE || !isKey {
			continue
		}
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %w: a key file is called hpke-NNNN.key", filepath.Join(folder, e.Name()),
				ErrMismatch)
		}
		files = append(files, numbered{n, filepath.Join(folder, e.Name())})
	}
	slices.SortFunc(files, func(a, b numbered) int { return cmp.Compare(b.number, a.number) })
	return files, nil
}

package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// WorkerKeys is what a worker of the analyzer or the shuffler needs: all of the role but its identity.
type WorkerKeys struct {
	Bundle Bundle
	HPKE   []*seal.HPKEKey // newest first
	Seed   []byte          // NATS
}

// ErrIdentity means a folder for workers in which a role's identity is: a worker must not be able to sign.
var ErrIdentity = errors.New("the identity of the role must not be where its workers run")

// LoadWorker reads the keys for workers of the analyzer or the shuffler. It refuses a folder in which the role's
// identity is, too: whoever takes over a worker must not get it.
func LoadWorker(root, role string) (*WorkerKeys, error) {
	bundle, err := LoadBundle(root)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(root, role)
	identity := filepath.Join(folder, identityFile)
	if _, err := os.Lstat(identity); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: make a folder for workers with riffle keygen worker %s", identity, ErrIdentity,
			role)
	}
	k := &WorkerKeys{Bundle: bundle}
	if k.Seed, err = keyfile.LoadSeed(filepath.Join(folder, seedFile)); err != nil {
		return nil, err
	}
	if k.HPKE, err = loadHPKE(folder); err != nil {
		return nil, err
	}
	if n := len(k.HPKE); n == 0 || n > wire.MaxKeys {
		return nil, fmt.Errorf("%s: %w: %d HPKE keys (hpke-NNNN.key), must be 1 to %d: the same as the role's lead has",
			folder, ErrMismatch, n, wire.MaxKeys)
	}
	return k, nil
}

// MakeWorker copies what workers of the analyzer or the shuffler need into a folder that is empty or does not exist:
// the bundle, the authority where there is one, the role's encryption keys and its credential for the broker.
func MakeWorker(root, role, to string) (err error) {
	if role != Analyzer && role != Shuffler {
		return fmt.Errorf("%w: %q has no workers; %s and %s can have some", ErrOptions, role, Analyzer, Shuffler)
	}
	if _, err := loadServer(root, role); err != nil { // nothing of another deployment
		return err
	}
	files, err := hpkeFiles(filepath.Join(root, role))
	if err != nil {
		return err
	}
	if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s: %w: the folder is not empty; choose a new one", to, keyfile.ErrExists)
	}
	if err := keyfile.Folder(filepath.Join(to, role)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(filepath.Join(to, role)))
		}
	}()
	private := []string{filepath.Join(role, seedFile)}
	for _, f := range files {
		private = append(private, filepath.Join(role, filepath.Base(f.path)))
	}
	for _, name := range private {
		text, err := keyfile.LoadPrivate(filepath.Join(root, name))
		if err != nil {
			return err
		}
		if err := keyfile.Create(filepath.Join(to, name), text, 0o600); err != nil {
			return err
		}
	}
	for _, name := range []string{AuthorityFile, BundleFile} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) && name == AuthorityFile {
			continue
		}
		if err != nil {
			return err
		}
		if err := keyfile.Create(filepath.Join(to, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Secrets are the private halves of the keys, in their order: what lead and workers seal to each other with.
func Secrets(keys []*seal.HPKEKey) (all [][]byte) {
	for _, k := range keys {
		all = append(all, k.Bytes())
	}
	return all
}

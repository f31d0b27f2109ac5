// Package keyfile keeps keys in files: one key per file, one line of text, comments before it.
//
//	# Riffle private key (Ed25519 identity). Anyone who reads this file can act as its owner.
//	riffle-ed25519-private <base64 of the private key> <base64 of the public key>
//
// A private file is created with mode 0600 and never over an existing one; Load refuses one that group or others can
// read or write. The public key in a private file serves to notice damage: it must belong to the private one.
//
// A NATS seed is kept as the nkeys tools write it, the bare seed, so that any NATS client can use the file.
package keyfile

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/nats-io/nkeys"
	"github.com/riffle-dp/riffle/pkg/seal"
)

var (
	// ErrPermissions means that others than the owner can get at a private key.
	ErrPermissions = errors.New("private key file is open to others")
	// ErrFormat means a file that is no key file of the wanted kind.
	ErrFormat = errors.New("not a key file of this kind")
	// ErrExists means that there is a file already; keys are never overwritten.
	ErrExists = errors.New("file exists, and keys are not overwritten")
)

const (
	identityKind = "ed25519"
	hpkeKind     = "x25519-hpke"
	secretKind   = "secret"
	maxSize      = 4 << 10
)

// WriteIdentity creates a private key file of a signing key.
func WriteIdentity(path string, id *seal.Identity) error {
	return writePrivate(path, identityKind, "Ed25519 identity", id.Bytes(), id.Public())
}

// LoadIdentity reads what WriteIdentity wrote.
func LoadIdentity(path string) (*seal.Identity, error) {
	private, public, err := loadPrivate(path, identityKind)
	if err != nil {
		return nil, err
	}
	id, err := seal.NewIdentity(private)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrFormat, err)
	}
	return id, match(path, id.Public(), public)
}

// WriteHPKE creates a private key file of an HPKE key.
func WriteHPKE(path string, key *seal.HPKEKey) error {
	return writePrivate(path, hpkeKind, "HPKE, X25519", key.Bytes(), key.Public())
}

// LoadHPKE reads what WriteHPKE wrote.
func LoadHPKE(path string) (*seal.HPKEKey, error) {
	private, public, err := loadPrivate(path, hpkeKind)
	if err != nil {
		return nil, err
	}
	key, err := seal.NewHPKEKey(private)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrFormat, err)
	}
	return key, match(path, key.Public(), public)
}

// WriteSecret creates a private file of a secret of 32 bytes that several roles share.
func WriteSecret(path string, secret [32]byte) error {
	text := fmt.Sprintf("# Riffle secret. Keep it to the roles whose folders have it.\nriffle-%s-private %s\n",
		secretKind, EncodeKey(secret[:]))
	return Create(path, []byte(text), 0o600)
}

// LoadSecret reads what WriteSecret wrote.
func LoadSecret(path string) (secret [32]byte, err error) {
	text, err := readPrivate(path)
	if err != nil {
		return secret, err
	}
	f, err := fields(path, text, "riffle-"+secretKind+"-private", 1)
	if err != nil {
		return secret, err
	}
	b, err := DecodeKey(f[0])
	if err != nil {
		return secret, fmt.Errorf("%s: %w", path, err)
	}
	return [32]byte(b), nil
}

// NewSeed makes a user of the broker: its seed, which is secret (SU..., one line), and its public nkey (U...).
func NewSeed() (seed []byte, public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", fmt.Errorf("NATS user: %w", err)
	}
	defer pair.Wipe()
	own, err := pair.Seed()
	if err != nil {
		return nil, "", fmt.Errorf("NATS user: %w", err)
	}
	seed = bytes.Clone(own) // the pair wipes its own
	if public, err = pair.PublicKey(); err != nil {
		return nil, "", fmt.Errorf("NATS user: %w", err)
	}
	return seed, public, nil
}

// WriteSeed creates a file that holds a NATS seed.
func WriteSeed(path string, seed []byte) error {
	if _, err := nkeys.FromSeed(seed); err != nil {
		return fmt.Errorf("%s: %w: no NATS seed: %w", path, ErrFormat, err)
	}
	return Create(path, append(bytes.Clone(seed), '\n'), 0o600)
}

// LoadSeed reads a NATS seed, under the same conditions as a private key.
func LoadSeed(path string) ([]byte, error) {
	text, err := readPrivate(path)
	if err != nil {
		return nil, err
	}
	seed := bytes.TrimSpace(text)
	if _, err := nkeys.FromSeed(seed); err != nil {
		return nil, fmt.Errorf("%s: %w: no NATS seed", path, ErrFormat) // the library's error could show the seed
	}
	return seed, nil
}

// PublicUser is the public nkey of a NATS seed, by which the broker knows its user.
func PublicUser(seed []byte) (string, error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return "", fmt.Errorf("%w: no NATS seed", ErrFormat) // the library's error could show the seed
	}
	return pair.PublicKey()
}

// LoadPrivate reads a private file of another format, such as a TLS key, under the same conditions as a
// private key.
func LoadPrivate(path string) ([]byte, error) { return readPrivate(path) }

// EncodeKey is how a public key is written in text: unpadded base64.
func EncodeKey(key []byte) string { return base64.RawStdEncoding.EncodeToString(key) }

// DecodeKey reads EncodeKey's form of a key of 32 bytes.
func DecodeKey(text string) ([]byte, error) {
	key, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil || len(key) != 32 || EncodeKey(key) != text { // the decoder skips newlines
		return nil, fmt.Errorf("%w: a key is 43 characters of base64 without padding", ErrFormat)
	}
	return key, nil
}

// Replace puts a file of this content and mode in the place of another, or of none, in one step.
func Replace(path string, content []byte, mode fs.FileMode) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a run that was ended
		return err
	}
	if err := Create(next, content, mode); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}

// Create writes a new file with exactly this mode, whole and synced, and fails with ErrExists if there is one already.
func Create(path string, content []byte, mode fs.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w; move it away first", path, ErrExists)
	}
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if err := f.Chmod(mode); err != nil { // the umask may have taken bits of a public file
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

func writePrivate(path, kind, words string, private, public []byte) error {
	text := fmt.Sprintf("# Riffle private key (%s). Anyone who reads this file can act as its "+
		"owner.\nriffle-%s-private %s %s\n",
		words, kind, EncodeKey(private), EncodeKey(public))
	return Create(path, []byte(text), 0o600)
}

func loadPrivate(path, kind string) (private, public []byte, err error) {
	text, err := readPrivate(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := fields(path, text, "riffle-"+kind+"-private", 2)
	if err != nil {
		return nil, nil, err
	}
	if private, err = DecodeKey(f[0]); err == nil {
		public, err = DecodeKey(f[1])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return private, public, nil
}

// fields finds the one line that is no comment and returns what follows its first word.
func fields(path string, text []byte, word string, want int) ([]string, error) {
	var found []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s: %w: more than one key", path, ErrFormat)
		}
		found = f
	}
	if len(found) != want+1 || found[0] != word {
		return nil, fmt.Errorf("%s: %w: no line %q with %d fields", path, ErrFormat, word, want)
	}
	return found[1:], nil
}

func match(path string, derived, stored []byte) error {
	if !bytes.Equal(derived, stored) {
		return fmt.Errorf("%s: %w: its private and public halves do not belong together; restore it from a copy", path,
			ErrFormat)
	}
	return nil
}

// readPrivate looks at the permissions of the file it has opened, not of the name, so that no one can swap it in
// between.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file", path, ErrFormat)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" { // Windows has no such bits
		return nil, fmt.Errorf("%s: %w: mode %04o; run: chmod 600 %s (and think about who may have read it)", path,
			ErrPermissions, mode, path)
	}
	return readAll(f)
}

func readAll(f *os.File) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", f.Name(), ErrFormat, maxSize)
	}
	return text, nil
}

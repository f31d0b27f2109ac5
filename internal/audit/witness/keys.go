package witness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
)

// publicEnding is what the name of a witness's public line has after that of the key file.
const publicEnding = ".pub"

// Generate makes the key of a witness, in the file path, and its public line, in path.pub, which it returns. It
// overwrites neither: the error wraps keyfile.ErrExists, or transparency.ErrName.
func Generate(path, name string) (line string, err error) {
	id, err := seal.GenerateIdentity()
	if err != nil {
		return "", err
	}
	if line, err = transparency.VerifierKey(name, id.Public()); err != nil {
		return "", err
	}
	if err := keyfile.WriteIdentity(path, id); err != nil {
		return "", err
	}
	return line, keyfile.Create(path+publicEnding, []byte(line+"\n"), 0o644)
}

// LoadPublic reads the public line of a witness from a file: whose cosignatures to believe.
func LoadPublic(path string) (name string, key []byte, err error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return "", nil, err
	}
	if name, key, err = transparency.ParseVerifierKey(string(text)); err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	return name, key, nil
}

// Load is the witness whose key Generate made in the file key. It makes the folders state and out where there are none.
func Load(key, state, out string) (*Witness, error) {
	id, err := keyfile.LoadIdentity(key)
	if err != nil {
		return nil, err
	}
	name, public, err := LoadPublic(key + publicEnding)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(public, id.Public()) {
		return nil, fmt.Errorf("%s%s is not of the key in %s: restore the file that riffle witness keygen made", key,
			publicEnding, key)
	}
	if err := keyfile.Folder(state); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	return &Witness{Name: name, Key: id, State: channel.Folder(state), Out: out}, nil
}

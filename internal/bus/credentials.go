package bus

import (
	"bytes"
	"fmt"
	"os"

	"github.com/nats-io/nkeys"
)

// NewSeed makes a role's key: the seed, which is secret (SU..., one line), and the public key (U...) for ServerOptions.Users.
func NewSeed() (seed []byte, public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", fmt.Errorf("bus: new key: %w", err)
	}
	defer pair.Wipe()
	own, err := pair.Seed()
	if err != nil {
		return nil, "", fmt.Errorf("bus: new key: %w", err)
	}
	seed = bytes.Clone(own) // the pair wipes its own
	if public, err = pair.PublicKey(); err != nil {
		return nil, "", fmt.Errorf("bus: new key: %w", err)
	}
	return seed, public, nil
}

// PublicKey derives the public key of a seed. An ErrCredentials says what is wrong with it, never what it holds.
func PublicKey(seed []byte) (string, error) {
	pair, err := userPair(seed)
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

// ReadSeed reads a seed file. A file that others may read or write is refused: chmod 600 it, or 640 for a service's group.
func ReadSeed(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCredentials, err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %04o, anybody may use it; chmod 600 it", ErrCredentials, path, info.Mode().Perm())
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrCredentials, err)
	}
	seed = bytes.TrimSpace(seed)
	if _, err := PublicKey(seed); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return seed, nil
}

func userPair(seed []byte) (nkeys.KeyPair, error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("%w: not an nkey seed", ErrCredentials)
	}
	public, err := pair.PublicKey()
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return nil, fmt.Errorf("%w: the seed is not a user's (SU...)", ErrCredentials)
	}
	return pair, nil
}

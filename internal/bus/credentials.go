package bus

import (
	"bytes"
	"fmt"

	"github.com/nats-io/nkeys"

	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
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

// ReadSeed reads a seed file as keyfile reads every private key: one that group or others can read or write is an ErrCredentials.
func ReadSeed(path string) ([]byte, error) {
	seed, err := keyfile.LoadSeed(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCredentials, err)
	}
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

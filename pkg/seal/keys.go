package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/cloudflare/circl/dh/x25519"
)

// HPKEKey is a private X25519 key with its public half. Every way of printing it shows only a short form of the public
// half.
type HPKEKey struct {
	private, public x25519.Key
}

// GenerateHPKE makes a fresh HPKE key.
func GenerateHPKE() (*HPKEKey, error) {
	var private [HPKEKeySize]byte
	rand.Read(private[:]) // never returns an error: without randomness the process ends
	return NewHPKEKey(private[:])
}

// NewHPKEKey takes the 32 bytes of a private key, as Bytes returns them. It returns ErrKey for another length.
func NewHPKEKey(private []byte) (*HPKEKey, error) {
	if len(private) != HPKEKeySize {
		return nil, fmt.Errorf("%w: HPKE private key of %d bytes, want %d", ErrKey, len(private), HPKEKeySize)
	}
	k := new(HPKEKey)
	copy(k.private[:], private)
	x25519.KeyGen(&k.public, &k.private)
	return k, nil
}

// Public returns a copy of the public half, 32 bytes.
func (k *HPKEKey) Public() []byte { return append([]byte(nil), k.public[:]...) }

// Bytes returns a copy of the private key, 32 bytes, for a key file.
func (k *HPKEKey) Bytes() []byte { return append([]byte(nil), k.private[:]...) }

// Format prints the start of the public half whatever the verb.
func (k *HPKEKey) Format(f fmt.State, _ rune) { printShort(f, "hpke", k.public[:]) }

// IdentitySize is the length in bytes of an identity's public half.
const IdentitySize = ed25519.PublicKeySize

// Identity is an Ed25519 signing key. Every way of printing it shows only a short form of the public half.
type Identity struct {
	key ed25519.PrivateKey
}

// GenerateIdentity makes a fresh identity.
func GenerateIdentity() (*Identity, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("seal: no randomness: %w", err)
	}
	return &Identity{key: key}, nil
}

// Signer is who signs: an *Identity, or what NewSigner returns.
type Signer interface {
	Public() []byte // a copy of the Ed25519 public key, 32 bytes
	sign(message []byte) ([]byte, error)
}

// elsewhere is a signer whose private key is not in this process's memory.
type elsewhere struct {
	public []byte
	ask    func(message []byte) ([]byte, error)
}

// NewSigner takes an Ed25519 public key and what signs a message with its private key, which may be where nobody can
// read it: in a browser's store of keys, or in a phone's. It returns ErrKey for a key of another length than 32 bytes.
// What ask returns is verified, so that nothing leaves with the signature of another key: it is ErrSignature then.
func NewSigner(public []byte, ask func(message []byte) (signature []byte, err error)) (Signer, error) {
	if len(public) != IdentitySize {
		return nil, fmt.Errorf("%w: Ed25519 public key of %d bytes, want %d", ErrKey, len(public), IdentitySize)
	}
	return elsewhere{bytes.Clone(public), ask}, nil
}

// Public returns a copy of the public key, 32 bytes.
func (e elsewhere) Public() []byte { return bytes.Clone(e.public) }

func (e elsewhere) sign(message []byte) ([]byte, error) {
	signature, err := e.ask(message)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	case !ed25519.Verify(e.public, message, signature):
		return nil, fmt.Errorf("%w: the signer holds another key than the one it was opened with", ErrSignature)
	}
	return signature, nil
}

// NewIdentity takes the 32 bytes of an Ed25519 seed, as Bytes returns them. It returns ErrKey for another length.
func NewIdentity(seed []byte) (*Identity, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%w: Ed25519 seed of %d bytes, want %d", ErrKey, len(seed), ed25519.SeedSize)
	}
	return &Identity{key: ed25519.NewKeyFromSeed(seed)}, nil
}

func (id *Identity) sign(message []byte) ([]byte, error) { return ed25519.Sign(id.key, message), nil }

// Public returns a copy of the public half, 32 bytes.
func (id *Identity) Public() []byte { return append([]byte(nil), id.key[ed25519.SeedSize:]...) }

// Bytes returns a copy of the seed, 32 bytes, for a key file.
func (id *Identity) Bytes() []byte { return id.key.Seed() }

// Derive returns a secret of 32 bytes that follows from the identity and from what it is for: HKDF-SHA256 over the seed
// of the identity, without salt, with purpose as info. Whoever knows it learns nothing of the identity or of the
// secrets of other purposes. An identity that is restored from its file derives the same secrets.
func (id *Identity) Derive(purpose []byte) [32]byte { return Derive(id.key.Seed(), purpose) }

// Derive returns a secret of 32 bytes that follows from another secret and from what it is for: HKDF-SHA256 without
// salt, with purpose as info.
func Derive(secret, purpose []byte) [32]byte {
	key, err := hkdf.Key(sha256.New, secret, nil, string(purpose), 32)
	if err != nil { // only for more than 255 blocks, or for short secrets where FIPS 140-3 is enforced
		panic("seal: " + err.Error())
	}
	return [32]byte(key)
}

// Random fills b from the system's cryptographic generator.
func Random(b []byte) { rand.Read(b) } // never returns an error: without randomness the process ends

// Format prints the start of the public half whatever the verb.
func (id *Identity) Format(f fmt.State, _ rune) { printShort(f, "ed25519", id.key[ed25519.SeedSize:]) }

func printShort(f fmt.State, kind string, public []byte) { fmt.Fprintf(f, "%s:%x..", kind, public[:6]) }

// CheckHPKEPublic reports whether b is a public key that messages can be sealed to; the error wraps ErrKey. A point of
// low order gives the same shared secret for every sender and so hides nothing.
func CheckHPKEPublic(b []byte) error {
	_, err := publicKey(b)
	return err
}

func publicKey(b []byte) (key x25519.Key, err error) {
	if len(b) != HPKEKeySize {
		return key, fmt.Errorf("%w: %d bytes, want %d", ErrKey, len(b), HPKEKeySize)
	}
	copy(key[:], b)
	var shared x25519.Key
	if !x25519.Shared(&shared, &x25519.Key{}, &key) {
		return key, errLowOrder
	}
	return key, nil
}

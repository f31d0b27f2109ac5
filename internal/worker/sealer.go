package worker

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/entropy"
)

const (
	nameSize = 8  // bytes of a key's name
	saltSize = 24 // random bytes of one body
	tagSize  = 16
	// SealOverhead is by how many bytes a sealed body is longer than the body.
	SealOverhead = nameSize + saltSize + tagSize
)

var (
	// ErrKey says that a body was sealed with a key that this process does not have.
	ErrKey = errors.New("worker: sealed with a key that this process does not have: lead and workers need the same " +
		"key files of the role")
	// ErrSealed says that a body is not what a process of this role sealed for this place.
	ErrSealed = errors.New("worker: not sealed by a process of this role for this place")
)

// Sealer seals what the processes of one role hand each other over the broker. The key follows from the role's HPKE
// keys, which lead and workers have and the broker does not. Whoever steals the role's credential for the broker can
// thus neither read nor forge anything of it. Each body has an AES-256-GCM key of its own, by HKDF-SHA256 with a random
// salt, so there is no bound on how many are sealed. A Sealer is safe for concurrent use.
type Sealer struct {
	role   bus.Role
	keys   []sealerKey
	mu     sync.Mutex
	random *entropy.Source
}

type sealerKey struct {
	name   []byte
	secret []byte
}

// NewSealer takes the role's private HPKE keys, the newest first: bodies are sealed with the first, and opened with
// any. When a new key is made, the processes that have it and those that do not cannot open each other's bodies until
// all are restarted; until then tasks wait or are done by the lead.
func NewSealer(role bus.Role, secrets [][]byte) (*Sealer, error) {
	b := &Sealer{role: role, random: entropy.New()}
	for _, s := range secrets {
		key, err := hkdf.Key(sha256.New, s, nil, "riffle 1 workers of the "+string(role), sha256.Size+nameSize)
		if err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		b.keys = append(b.keys, sealerKey{name: key[sha256.Size:], secret: key[:sha256.Size]})
	}
	if len(b.keys) == 0 {
		return nil, errors.New("worker: a sealer needs at least one key of its role")
	}
	return b, nil
}

// Seal appends the sealed body to dst. It can be opened under the same place only: a place names what the body is and
// where it belongs.
func (b *Sealer) Seal(dst []byte, place string, body []byte) []byte {
	salt := b.draw(saltSize)
	dst = append(append(dst, b.keys[0].name...), salt...)
	return b.keys[0].cipher(salt).Seal(dst, make([]byte, nonceSize), body, []byte(place))
}

// Open returns the body. Errors: ErrKey, ErrSealed.
func (b *Sealer) Open(place string, sealed []byte) ([]byte, error) {
	if len(sealed) < SealOverhead {
		return nil, fmt.Errorf("%w: %d bytes", ErrSealed, len(sealed))
	}
	name, salt := sealed[:nameSize], sealed[nameSize:nameSize+saltSize]
	for _, k := range b.keys {
		if !bytes.Equal(k.name, name) {
			continue
		}
		body, err := k.cipher(salt).Open(nil, make([]byte, nonceSize), sealed[nameSize+saltSize:], []byte(place))
		if err != nil {
			return nil, ErrSealed
		}
		return body, nil
	}
	return nil, ErrKey
}

// nonceSize is that of AES-GCM. The nonce is zero, because no key is used twice.
const nonceSize = 12

func (k sealerKey) cipher(salt []byte) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, k.secret, salt, "riffle 1 body", 32)
	if err != nil {
		panic("worker: " + err.Error()) // only for lengths that HKDF cannot give
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("worker: " + err.Error()) // only for keys of another length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("worker: " + err.Error()) // only for ciphers of another block size
	}
	return aead
}

// draw returns random bytes; n is a multiple of 8.
func (b *Sealer) draw(n int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []byte
	for len(out) < n {
		out = binary.LittleEndian.AppendUint64(out, b.random.Uint64())
	}
	return out
}

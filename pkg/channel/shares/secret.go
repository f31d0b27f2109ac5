package shares

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// SecretSize is the length in bytes of an epoch's secret.
const SecretSize = 32

// Secret is what the verification keys of an epoch's rounds are derived from. The shuffler derives it from its identity
// before the epoch has a device, commits to it in every reply to an enrolment, and gives it to the analyzer, sealed.
// Devices must not know it: whoever knows a round's key before he makes a report can make one that proves what is
// false. Every way of printing it shows only the start of the commitment.
type Secret struct{ seed [SecretSize]byte }

// NewSecret derives the secret of the epoch whose first announcement has this digest. It is the same in every process
// that has the shuffler's identity, so no restart, restore or second attempt can draw a second one.
func NewSecret(shuffler *seal.Identity, first [32]byte) Secret {
	return Secret{shuffler.Derive(append([]byte("riffle/v1/verification"), first[:]...))}
}

// ParseSecret reads what Bytes returns. The error wraps wire.ErrSize.
func ParseSecret(b []byte) (Secret, error) {
	if len(b) != SecretSize {
		return Secret{}, fmt.Errorf("%w: a secret of %d bytes, must have %d", wire.ErrSize, len(b), SecretSize)
	}
	return Secret{[SecretSize]byte(b)}, nil
}

// Bytes is the secret for the analyzer.
func (s Secret) Bytes() []byte { return s.seed[:] }

// Commitment is what devices bind their reports to: SHA-256 of the secret. A report for one commitment cannot be
// prepared under a key that follows from another secret.
func (s Secret) Commitment() []byte {
	c := sha256.Sum256(s.seed[:])
	return c[:]
}

// Format prints the start of the commitment whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "secret:%x..", s.Commitment()[:6]) }

// key is the verification key of a round. Nothing else makes one, and nothing takes one from outside: two keys for one
// report would give its entries away (package comment).
func (s Secret) key(r *Round) sumvec.VerifyKey {
	info := append([]byte("riffle/v1/verification key"), r.digest[:]...)
	return seal.Derive(s.seed[:], binary.BigEndian.AppendUint32(info, r.number))
}

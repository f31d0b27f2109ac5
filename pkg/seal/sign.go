package seal

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Kind names a type of signed statement. Its domain string goes before the body in every signature and digest.
type Kind uint8

// The kinds of statements.
const (
	Announcement Kind = iota + 1
	KeySet
	Manifest
	Counts
	Credential
	EnrolRequest
	EnrolReply
	Report
	Accepted
	Share
	Summed
	Configuration
	Learned
	Pool
	Draw
	IssuerCertificate
	Issued
)

var kinds = [...]string{
	Announcement: "announcement",
	KeySet:       "keyset",
	Manifest:     "manifest",
	Counts:       "counts",
	Credential:   "credential",
	EnrolRequest: "enrol-request",
	EnrolReply:   "enrol-reply",
	Report:       "report",
	Accepted:     "accepted",
	Share:        "share",
	Summed:       "summed",

	Configuration: "configuration",
	Learned:       "learned",
	Pool:          "pool",
	Draw:          "draw",

	IssuerCertificate: "issuer-certificate",
	Issued:            "issued",
}

// String is the kind's word in errors and logs.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kinds[k]
}

// Domain is the string that goes before the body. It ends in a zero byte, so that no domain is the start of another.
func (k Kind) Domain() string { return "riffle/v1/" + k.String() + "\x00" }

// SignatureSize is the length in bytes of a signature.
const SignatureSize = ed25519.SignatureSize

// ErrSignature means that a signature does not belong to this key, kind and body.
var ErrSignature = errors.New("seal: signature does not verify")

// Sign signs domain || body. It fails only where a signer of NewSigner does.
func Sign(kind Kind, body []byte, by Signer) ([]byte, error) { return by.sign(kind.message(body)) }

// Verify checks a signature over domain || body. Errors: ErrKey for a public key of the wrong length, ErrSignature.
func Verify(kind Kind, body, public, signature []byte) error {
	if len(public) != ed25519.PublicKeySize {
		return fmt.Errorf("%w: Ed25519 public key of %d bytes, want %d", ErrKey, len(public), ed25519.PublicKeySize)
	}
	if !ed25519.Verify(public, kind.message(body), signature) {
		return ErrSignature
	}
	return nil
}

// Digest is SHA-256 over domain || body: the name of a statement in other statements.
func Digest(kind Kind, body []byte) [32]byte {
	return sha256.Sum256(kind.message(body))
}

func (k Kind) message(body []byte) []byte {
	domain := k.Domain()
	return append(append(make([]byte, 0, len(domain)+len(body)), domain...), body...)
}

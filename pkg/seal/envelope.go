package seal

import (
	"fmt"

	"github.com/cloudflare/circl/dh/x25519"
)

// EnvelopeOverhead is how many bytes longer than its content an envelope is: an encapsulated key and a tag.
const EnvelopeOverhead = EncapsulatedSize + tagSize

// EnvelopeDomain says what an envelope is for: an envelope of one domain opens as no other. The domain starts the info
// string, and a digest of 32 bytes follows. No domain may start with another one.
type EnvelopeDomain string

// The domains of envelopes.
const (
	LocalEnvelope   EnvelopeDomain = "riffle/v1/local-box"   // a report of the channel local
	CentralEnvelope EnvelopeDomain = "riffle/v1/central-box" // a report of the channel central
	ShareEnvelope   EnvelopeDomain = "riffle/v1/share"       // the analyzer's part of a report of the channel shares
	// the secret of an epoch's verification keys in the channel shares
	SecretEnvelope EnvelopeDomain = "riffle/v1/secret-box"
	// a chunk that the shuffler forwarded, retained for the auditor
	RetainedEnvelope EnvelopeDomain = "riffle/v1/retained-chunk"
)

// EnvelopeSealer encrypts envelopes of any content to one key in one context. It is safe for concurrent use.
type EnvelopeSealer struct {
	receiver x25519.Key
	schedule *schedule
}

// NewEnvelopeSealer prepares sealing to an HPKE public key. context is the digest of what envelopes are bound to, such
// as the round's announcement. It returns ErrKey for a key that is not 32 bytes long or is of low order.
func NewEnvelopeSealer(receiver []byte, domain EnvelopeDomain, context [32]byte) (*EnvelopeSealer, error) {
	key, err := publicKey(receiver)
	if err != nil {
		return nil, fmt.Errorf("receiver's HPKE key: %w", err)
	}
	return &EnvelopeSealer{key, newSchedule(domain.info(context))}, nil
}

// AppendSeal appends an envelope to dst, EnvelopeOverhead longer than its content: the encapsulated key, then the
// ciphertext. The envelope opens only with the same associated data, which may be nil.
func (s *EnvelopeSealer) AppendSeal(dst, content, aad []byte) ([]byte, error) {
	return appendSeal(dst, &s.receiver, s.schedule, content, aad)
}

// EnvelopeOpener opens envelopes of one context. It is safe for concurrent use.
type EnvelopeOpener struct {
	key      *HPKEKey
	schedule *schedule
}

// NewEnvelopeOpener takes the private key that envelopes were sealed to, and their domain and context.
func NewEnvelopeOpener(key *HPKEKey, domain EnvelopeDomain, context [32]byte) *EnvelopeOpener {
	return &EnvelopeOpener{key, newSchedule(domain.info(context))}
}

// Open decrypts an envelope. Errors: ErrSize, ErrOpen.
func (o *EnvelopeOpener) Open(envelope, aad []byte) ([]byte, error) {
	if len(envelope) < EnvelopeOverhead {
		return nil, fmt.Errorf("%w: %d bytes, an envelope has at least %d", ErrSize, len(envelope), EnvelopeOverhead)
	}
	return appendOpen(nil, o.key, o.schedule, envelope[:EncapsulatedSize], envelope[EncapsulatedSize:], aad)
}

func (d EnvelopeDomain) info(context [32]byte) []byte { return append([]byte(d), context[:]...) }

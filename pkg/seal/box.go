package seal

import (
	"fmt"

	"github.com/cloudflare/circl/dh/x25519"
)

// BoxOverhead is how many bytes longer than its content a box is: an encapsulated key and a tag.
const BoxOverhead = EncapsulatedSize + tagSize

// BoxDomain says what a box is for: a box of one domain opens as no other. The domain starts the info string, and a
// digest of 32 bytes follows. No domain may start with another one.
type BoxDomain string

// The domains of boxes.
const (
	LocalBox   BoxDomain = "riffle/v1/local-box"   // a report of the channel local
	CentralBox BoxDomain = "riffle/v1/central-box" // a report of the channel central
	ShareBox   BoxDomain = "riffle/v1/share"       // the analyzer's part of a report of the channel shares
	SecretBox  BoxDomain = "riffle/v1/secret-box"  // the secret of an epoch's verification keys in the channel shares
	// a chunk that the shuffler forwarded, retained for the auditor
	RetainedBox BoxDomain = "riffle/v1/retained-chunk"
)

// BoxSealer encrypts boxes of any content to one key in one context. It is safe for concurrent use.
type BoxSealer struct {
	receiver x25519.Key
	schedule *schedule
}

// NewBoxSealer prepares sealing to an HPKE public key. context is the digest of what boxes are bound to, such as the
// round's announcement. It returns ErrKey for a key that is not 32 bytes long or is of low order.
func NewBoxSealer(receiver []byte, domain BoxDomain, context [32]byte) (*BoxSealer, error) {
	key, err := publicKey(receiver)
	if err != nil {
		return nil, fmt.Errorf("receiver's HPKE key: %w", err)
	}
	return &BoxSealer{key, newSchedule(domain.info(context))}, nil
}

// AppendSeal appends a box to dst, BoxOverhead longer than its content: the encapsulated key, then the ciphertext. The
// box opens only with the same associated data, which may be nil.
func (s *BoxSealer) AppendSeal(dst, content, aad []byte) ([]byte, error) {
	return appendSeal(dst, &s.receiver, s.schedule, content, aad)
}

// BoxOpener opens boxes of one context. It is safe for concurrent use.
type BoxOpener struct {
	key      *HPKEKey
	schedule *schedule
}

// NewBoxOpener takes the private key that boxes were sealed to, and their domain and context.
func NewBoxOpener(key *HPKEKey, domain BoxDomain, context [32]byte) *BoxOpener {
	return &BoxOpener{key, newSchedule(domain.info(context))}
}

// Open decrypts a box. Errors: ErrSize, ErrOpen.
func (o *BoxOpener) Open(box, aad []byte) ([]byte, error) {
	if len(box) < BoxOverhead {
		return nil, fmt.Errorf("%w: %d bytes, a box has at least %d", ErrSize, len(box), BoxOverhead)
	}
	return appendOpen(nil, o.key, o.schedule, box[:EncapsulatedSize], box[EncapsulatedSize:], aad)
}

func (d BoxDomain) info(context [32]byte) []byte { return append([]byte(d), context[:]...) }

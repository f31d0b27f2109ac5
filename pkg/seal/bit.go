package seal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cloudflare/circl/hpke"
)

const (
	bitPlain = 4
	// BitSize is the length in bytes of every bit message.
	BitSize = EncapsulatedSize + bitPlain + tagSize
	// bitDomain starts the info string of bit messages; the announcement's digest follows.
	bitDomain = "riffle/v1/bit"
)

var (
	// ErrKey means a key of the wrong length, or a public key of low order (anyone could open what is sealed to it).
	ErrKey = errors.New("seal: not a usable key")
	// ErrSize means a message of a length that its format does not allow.
	ErrSize = errors.New("seal: wrong message size")
	// ErrOpen means that a message was not sealed to this key and context, or was changed on the way.
	ErrOpen = errors.New("seal: message does not open: other key, other context, or tampered with")
	// ErrPlaintext means a message that opens but whose content does not follow the format.
	ErrPlaintext = errors.New("seal: message opens but its content is malformed")
)

// BitSealer encrypts bit messages to one analyzer key for one round. Make one per round and share it between devices.
// It is safe for concurrent use.
type BitSealer struct {
	sender *hpke.Sender
}

// NewBitSealer prepares sealing to the analyzer's HPKE public key. context is the digest of the round's announcement.
// It returns ErrKey for a key that is not 32 bytes long or is of low order.
func NewBitSealer(analyzer []byte, context [32]byte) (*BitSealer, error) {
	sender, err := newSender(analyzer, bitInfo(context))
	if err != nil {
		return nil, fmt.Errorf("analyzer's HPKE key: %w", err)
	}
	return &BitSealer{sender}, nil
}

// AppendSeal appends one bit message of BitSize bytes to dst: the bit of one coordinate (from 0) of one release (its
// index in the round).
func (s *BitSealer) AppendSeal(dst []byte, release uint8, coordinate uint16, one bool) ([]byte, error) {
	plain := [bitPlain]byte{0: release}
	binary.BigEndian.PutUint16(plain[1:], coordinate)
	if one {
		plain[3] = 1
	}
	encapsulated, ciphertext, err := sealOne(*s.sender, plain[:], nil)
	if err != nil {
		return dst, err
	}
	return append(append(dst, encapsulated...), ciphertext...), nil
}

// BitOpener decrypts the bit messages of one round. It is safe for concurrent use.
type BitOpener struct {
	key  *HPKEKey
	info []byte
}

// NewBitOpener prepares opening with the analyzer's HPKE key. context is the digest of the round's announcement.
func NewBitOpener(analyzer *HPKEKey, context [32]byte) *BitOpener {
	return &BitOpener{analyzer, bitInfo(context)}
}

// Open decrypts one bit message. Errors: ErrSize, ErrOpen, ErrPlaintext.
func (o *BitOpener) Open(message []byte) (release uint8, coordinate uint16, one bool, err error) {
	if len(message) != BitSize {
		return 0, 0, false, fmt.Errorf("%w: %d bytes, a bit message has %d", ErrSize, len(message), BitSize)
	}
	plain, err := o.key.open(o.info, message[:EncapsulatedSize], message[EncapsulatedSize:], nil)
	if err != nil {
		return 0, 0, false, err
	}
	if plain[3] > 1 {
		return 0, 0, false, fmt.Errorf("%w: bit is %d", ErrPlaintext, plain[3])
	}
	return plain[0], binary.BigEndian.Uint16(plain[1:]), plain[3] == 1, nil
}

func bitInfo(context [32]byte) []byte { return append([]byte(bitDomain), context[:]...) }

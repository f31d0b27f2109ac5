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
	// ErrKey means a key of the wrong length, or a public key that is no use (of low order: anybody could open what is sealed to it).
	ErrKey = errors.New("seal: not a usable key")
	// ErrSize means a message that has not the one length it can have.
	ErrSize = errors.New("seal: wrong message size")
	// ErrOpen means that a message was not sealed to this key and context, or was changed on its way.
	ErrOpen = errors.New("seal: message does not open: other key, other context, or tampered with")
	// ErrPlaintext means a message that opens but does not hold what it must: its sender does not follow the format.
	ErrPlaintext = errors.New("seal: message opens but its content is malformed")
)

// BitSealer encrypts bit messages to one analyzer key for one round. Make one per round and share it between devices. Safe for concurrent
// use.
type BitSealer struct {
	sender *hpke.Sender
}

// NewBitSealer prepares sealing to the analyzer's HPKE public key. context is the digest of the round's announcement. It returns ErrKey for a
// key that is not 32 bytes long or is of low order.
func NewBitSealer(analyzer []byte, context [32]byte) (*BitSealer, error) {
	if err := CheckHPKEPublic(analyzer); err != nil {
		return nil, fmt.Errorf("analyzer's HPKE key: %w", err)
	}
	key, err := kemID.Scheme().UnmarshalBinaryPublicKey(analyzer)
	if err != nil {
		return nil, fmt.Errorf("analyzer's HPKE key: %w: %w", ErrKey, err)
	}
	sender, err := suite().NewSender(key, bitInfo(context))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return &BitSealer{sender}, nil
}

// AppendSeal appends one bit message of BitSize bytes to dst: the bit of one coordinate (from 0) of one release (its index in the round).
func (s *BitSealer) AppendSeal(dst []byte, release uint8, coordinate uint16, one bool) ([]byte, error) {
	sender := *s.sender // Setup notes its mode in the sender: each message has a copy of its own
	encapsulated, sealer, err := sender.Setup(nil)
	if err != nil {
		return dst, fmt.Errorf("seal: %w", err)
	}
	plain := [bitPlain]byte{0: release}
	binary.BigEndian.PutUint16(plain[1:], coordinate)
	if one {
		plain[3] = 1
	}
	ciphertext, err := sealer.Seal(plain[:], nil)
	if err != nil {
		return dst, fmt.Errorf("seal: %w", err)
	}
	return append(append(dst, encapsulated...), ciphertext...), nil
}

// BitOpener decrypts the bit messages of one round. Safe for concurrent use.
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
	receiver, err := suite().NewReceiver(o.key.kem, o.info)
	if err != nil {
		return 0, 0, false, fmt.Errorf("seal: %w", err)
	}
	opener, err := receiver.Setup(message[:EncapsulatedSize])
	if err != nil {
		return 0, 0, false, ErrOpen // a low-order point: RFC 9180, section 7.1.4
	}
	plain, err := opener.Open(message[EncapsulatedSize:], nil)
	if err != nil {
		return 0, 0, false, ErrOpen
	}
	if plain[3] > 1 {
		return 0, 0, false, fmt.Errorf("%w: bit is %d", ErrPlaintext, plain[3])
	}
	return plain[0], binary.BigEndian.Uint16(plain[1:]), plain[3] == 1, nil
}

func bitInfo(context [32]byte) []byte { return append([]byte(bitDomain), context[:]...) }

package seal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cloudflare/circl/dh/x25519"
)

const (
	// LabelSize is the length in bytes of a label, which says where a bit belongs: its release (1) and its coordinate
	// (2, big endian).
	LabelSize = 3
	bitPlain  = LabelSize + 1
	// BitSize is the length in bytes of every bit message: the encapsulated key, the label, the bit, and the tag of the
	// AEAD.
	BitSize = EncapsulatedSize + bitPlain + tagSize
	// bitDomain starts the info string of bit messages; the announcement's digest follows.
	bitDomain = "riffle/v1/labelled-bit"
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

	errLowOrder = fmt.Errorf("%w: point of low order", ErrKey)
	errBit      = fmt.Errorf("%w: its bit is neither 0 nor 1", ErrPlaintext)
)

// BitSealer encrypts bit messages to one analyzer key for one round. Make one per round and share it between devices.
// It is safe for concurrent use.
type BitSealer struct {
	receiver x25519.Key
	schedule *schedule
}

// NewBitSealer prepares sealing to the analyzer's HPKE public key. context is the digest of the round's announcement.
// It returns ErrKey for a key that is not 32 bytes long or is of low order.
func NewBitSealer(analyzer []byte, context [32]byte) (*BitSealer, error) {
	receiver, err := publicKey(analyzer)
	if err != nil {
		return nil, fmt.Errorf("analyzer's HPKE key: %w", err)
	}
	return &BitSealer{receiver, newSchedule(bitInfo(context))}, nil
}

// AppendSeal appends one bit message of BitSize bytes to dst: the bit of one coordinate (from 0) of one release (its
// index in the round). It allocates nothing but what dst lacks.
func (s *BitSealer) AppendSeal(dst []byte, release uint8, coordinate uint16, one bool) ([]byte, error) {
	ones := 0
	if one {
		ones = 1
	}
	return s.AppendSealRun(dst, release, coordinate, 1, ones)
}

// AppendSealRun appends so many bit messages of one coordinate (from 0) of one release (its index in the round) to dst,
// BitSize bytes each: those of ones first, then those of zeros. ones is from 0 to messages. Every message has its own
// ephemeral key, and the time that one takes does not depend on its bit. It allocates nothing but what dst lacks.
func (s *BitSealer) AppendSealRun(
	dst []byte, release uint8, coordinate uint16, messages, ones int,
) ([]byte, error) {
	if ones < 0 || ones > messages {
		// how many is nobody's to read
		return dst, errors.New("seal: there are from none to as many ones as bit messages")
	}
	var w exchange
	// The ephemeral keys of the next messages: what the system gives at once without being interrupted. No key stays
	// here after the call, so that no copy of the process seals with one a second time unless it is made meanwhile.
	var keys [256]byte
	defer func() { w.wipe(); clear(keys[:]) }()
	begin := len(dst)
	dst = slices.Grow(dst, messages*BitSize)
	for n := range messages {
		next := n * HPKEKeySize % len(keys)
		if next == 0 {
			rand.Read(keys[:min(len(keys), (messages-n)*HPKEKeySize)])
		}
		copy(w.ephemeral[:], keys[next:])
		if !w.send(&s.receiver, s.schedule) {
			return dst[:begin], errLowOrder
		}
		plain := [bitPlain]byte{0: release}
		binary.BigEndian.PutUint16(plain[1:], coordinate)
		if n < ones {
			plain[3] = 1
		}
		dst = append(dst, w.encapsulated[:]...)
		dst = dst[:len(dst)+bitPlain+tagSize]
		to := dst[len(dst)-bitPlain-tagSize:]
		copy(to, plain[:LabelSize])
		w.sealShort(to[LabelSize:], plain[LabelSize:], to[:LabelSize])
	}
	return dst, nil
}

// Label is the label within a bit message, which has BitSize bytes. Whoever writes to it breaks the message.
func Label(message []byte) []byte { return message[EncapsulatedSize:][:LabelSize:LabelSize] }

// BitOpener decrypts the bit messages of one round. It is safe for concurrent use.
type BitOpener struct {
	key      *HPKEKey
	schedule *schedule
}

// NewBitOpener prepares opening with the analyzer's HPKE key. context is that of NewBitSealer.
func NewBitOpener(analyzer *HPKEKey, context [32]byte) *BitOpener {
	return &BitOpener{analyzer, newSchedule(bitInfo(context))}
}

// Open decrypts one bit message. Errors: ErrSize, ErrOpen, ErrPlaintext. With the last two, release and coordinate are
// still those of the label.
func (o *BitOpener) Open(message []byte) (release uint8, coordinate uint16, one bool, err error) {
	if len(message) != BitSize {
		return 0, 0, false, fmt.Errorf("%w: %d bytes, a bit message has %d", ErrSize, len(message), BitSize)
	}
	var w exchange
	defer w.wipe()
	return o.open(&w, message)
}

// OpenAll decrypts bit messages that are one after another and gives each function their content in their order, as
// Open does: its error is ErrOpen or ErrPlaintext. Its own error is ErrSize, where the length is not a multiple of
// BitSize; nothing is opened then. It allocates nothing.
func (o *BitOpener) OpenAll(
	messages []byte, each func(release uint8, coordinate uint16, one bool, err error),
) error {
	if len(messages)%BitSize != 0 {
		return fmt.Errorf("%w: %d bytes, bit messages have %d each", ErrSize, len(messages), BitSize)
	}
	var w exchange
	defer w.wipe()
	for message := range slices.Chunk(messages, BitSize) {
		each(o.open(&w, message))
	}
	return nil
}

func (o *BitOpener) open(w *exchange, message []byte) (release uint8, coordinate uint16, one bool, err error) {
	var plain [bitPlain]byte
	label, sealed := Label(message), message[EncapsulatedSize+LabelSize:]
	copy(plain[:], label)
	switch opened := w.receive(o.key, message[:EncapsulatedSize], o.schedule) &&
		w.openShort(plain[LabelSize:], sealed, label); {
	case !opened:
		err = ErrOpen
	case plain[LabelSize] > 1:
		err = errBit
	}
	return plain[0], binary.BigEndian.Uint16(plain[1:]), err == nil && plain[LabelSize] == 1, err
}

func bitInfo(context [32]byte) []byte {
	return append([]byte(bitDomain), context[:]...)
}

package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cloudflare/circl/dh/x25519"
)

// reportDomain is the info string of report envelopes.
const reportDomain = "riffle/v1/report-envelope"

// CiphertextOverhead is how many bytes longer than the plaintext an envelope's ciphertext is.
const CiphertextOverhead = tagSize

// ErrUnknownKey means an envelope sealed to a key that the opener does not hold: a key retired too early, or one of
// another deployment.
var ErrUnknownKey = errors.New("seal: envelope is sealed to a key that is not held here")

// ReportContext is what an envelope is bound to besides its receiver.
type ReportContext struct {
	Deployment string
	Epoch      uint64
	Round      uint32
}

// AAD is the associated data: epoch (8 bytes, big endian), round (4), deployment.
func (c ReportContext) AAD() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 12+len(c.Deployment)), c.Epoch)
	b = binary.BigEndian.AppendUint32(b, c.Round)
	return append(b, c.Deployment...)
}

// Envelope is a sealed report, or request, with the key that it is sealed to.
type Envelope struct {
	Key          []byte // the receiver's HPKE public key, 32 bytes
	Encapsulated []byte // 32 bytes
	Ciphertext   []byte // CiphertextOverhead longer than the plaintext
}

// SealReport encrypts a report to the shuffler's HPKE public key; aad is ReportContext.AAD. It returns ErrKey for a key
// that is not 32 bytes long or is of low order. It is safe for concurrent use.
func SealReport(shuffler, aad, plaintext []byte) (Envelope, error) {
	if len(shuffler) != HPKEKeySize {
		return Envelope{}, fmt.Errorf("shuffler's HPKE key: %w: %d bytes, want %d", ErrKey, len(shuffler), HPKEKeySize)
	}
	receiver := x25519.Key(shuffler)
	sealed := make([]byte, 0, EncapsulatedSize+len(plaintext)+CiphertextOverhead)
	sealed, err := appendSeal(sealed, &receiver, newSchedule([]byte(reportDomain)), plaintext, aad)
	if err != nil {
		return Envelope{}, fmt.Errorf("shuffler's HPKE key: %w", err)
	}
	return Envelope{receiver[:], sealed[:EncapsulatedSize:EncapsulatedSize], sealed[EncapsulatedSize:]}, nil
}

// ReportOpener opens envelopes with any of several keys: the newest, and older ones while reports sealed to them may
// still arrive.
type ReportOpener struct {
	keys     []*HPKEKey
	schedule *schedule
}

// NewReportOpener takes the keys that are accepted. Without any it returns ErrKey.
func NewReportOpener(keys ...*HPKEKey) (*ReportOpener, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: none given", ErrKey)
	}
	return &ReportOpener{append([]*HPKEKey(nil), keys...), newSchedule([]byte(reportDomain))}, nil
}

// Open decrypts an envelope. Errors: ErrUnknownKey, ErrSize, ErrOpen.
func (o *ReportOpener) Open(e Envelope, aad []byte) ([]byte, error) {
	if len(e.Encapsulated) != EncapsulatedSize || len(e.Ciphertext) < CiphertextOverhead {
		return nil, fmt.Errorf("%w: envelope with %d bytes encapsulated and %d of ciphertext",
			ErrSize, len(e.Encapsulated), len(e.Ciphertext))
	}
	for _, k := range o.keys {
		if bytes.Equal(k.public[:], e.Key) {
			return appendOpen(nil, k, o.schedule, e.Encapsulated, e.Ciphertext, aad)
		}
	}
	return nil, ErrUnknownKey
}

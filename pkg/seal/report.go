package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// reportDomain is the info string of report envelopes.
const reportDomain = "riffle/v1/report-envelope"

// EnvelopeOverhead is how many bytes longer than the plaintext an envelope's ciphertext is.
const EnvelopeOverhead = tagSize

// ErrUnknownKey means an envelope sealed to a key that the opener does not hold: one retired too early, or another deployment's.
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

// Envelope is a sealed report.
type Envelope struct {
	Key          []byte // the receiver's HPKE public key, 32 bytes
	Encapsulated []byte // 32 bytes
	Ciphertext   []byte // EnvelopeOverhead longer than the plaintext
}

// SealReport encrypts a report to the shuffler's HPKE public key.
func SealReport(shuffler, aad, plaintext []byte) (Envelope, error) {
	if _, err := publicKey(shuffler); err != nil {
		return Envelope{}, fmt.Errorf("shuffler's HPKE key: %w", err)
	}
	key, err := kemID.Scheme().UnmarshalBinaryPublicKey(shuffler)
	if err != nil {
		return Envelope{}, fmt.Errorf("shuffler's HPKE key: %w: %w", ErrKey, err)
	}
	sender, err := suite().NewSender(key, []byte(reportDomain))
	if err != nil {
		return Envelope{}, fmt.Errorf("seal: %w", err)
	}
	encapsulated, sealer, err := sender.Setup(nil)
	if err != nil {
		return Envelope{}, fmt.Errorf("seal: %w", err)
	}
	ciphertext, err := sealer.Seal(plaintext, aad)
	if err != nil {
		return Envelope{}, fmt.Errorf("seal: %w", err)
	}
	return Envelope{Key: bytes.Clone(shuffler), Encapsulated: encapsulated, Ciphertext: ciphertext}, nil
}

// ReportOpener opens envelopes with any of several keys: the newest, and older ones while reports sealed to them may be under way.
type ReportOpener struct {
	keys []*HPKEKey
}

// NewReportOpener takes the keys that are accepted; at least one.
func NewReportOpener(keys ...*HPKEKey) (*ReportOpener, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: none given", ErrKey)
	}
	return &ReportOpener{keys: append([]*HPKEKey(nil), keys...)}, nil
}

// Open decrypts an envelope. Errors: ErrUnknownKey, ErrSize, ErrOpen.
func (o *ReportOpener) Open(e Envelope, aad []byte) ([]byte, error) {
	if len(e.Encapsulated) != EncapsulatedSize || len(e.Ciphertext) < EnvelopeOverhead {
		return nil, fmt.Errorf("%w: envelope with %d bytes encapsulated and %d of ciphertext", ErrSize, len(e.Encapsulated), len(e.Ciphertext))
	}
	for _, k := range o.keys {
		if !bytes.Equal(k.public[:], e.Key) {
			continue
		}
		return k.openReport(e, aad)
	}
	return nil, ErrUnknownKey
}

func (k *HPKEKey) openReport(e Envelope, aad []byte) ([]byte, error) {
	receiver, err := suite().NewReceiver(k.kem, []byte(reportDomain))
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	opener, err := receiver.Setup(e.Encapsulated)
	if err != nil {
		return nil, ErrOpen
	}
	plain, err := opener.Open(e.Ciphertext, aad)
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}

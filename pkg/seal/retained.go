package seal

import (
	"encoding/binary"
	"fmt"
)

// RetainedContext is what a retained chunk is bound to besides the auditor's key: it opens as no other.
type RetainedContext struct {
	Deployment   string
	Epoch        uint64
	Round, Index uint32   // Index is the chunk's within its round, from 0
	Announcement [32]byte // digest of the round's announcement
}

// aad is the associated data: epoch (8 bytes, big endian), round (4), index (4), deployment.
func (c RetainedContext) aad() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16+len(c.Deployment)), c.Epoch)
	b = binary.BigEndian.AppendUint32(b, c.Round)
	b = binary.BigEndian.AppendUint32(b, c.Index)
	return append(b, c.Deployment...)
}

// SealRetained encrypts a chunk that is retained to the auditor's HPKE public key: an envelope of RetainedEnvelope,
// EnvelopeOverhead longer than the chunk. Sealed twice, a chunk gives two envelopes. It returns ErrKey for a key that
// is not 32 bytes long or is of low order.
func SealRetained(auditor []byte, c RetainedContext, chunk []byte) ([]byte, error) {
	sealer, err := NewEnvelopeSealer(auditor, RetainedEnvelope, c.Announcement)
	if err != nil {
		return nil, fmt.Errorf("auditor's key: %w", err)
	}
	return sealer.AppendSeal(make([]byte, 0, len(chunk)+EnvelopeOverhead), chunk, c.aad())
}

// OpenRetained decrypts what SealRetained made. Errors: ErrSize, ErrOpen.
func OpenRetained(auditor *HPKEKey, c RetainedContext, sealed []byte) ([]byte, error) {
	return NewEnvelopeOpener(auditor, RetainedEnvelope, c.Announcement).Open(sealed, c.aad())
}

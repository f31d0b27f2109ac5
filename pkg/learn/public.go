package learn

import (
	"crypto/sha256"
	"encoding/binary"
)

// Public is a source of public randomness: the words of SHA-256 of a purpose, an epoch and a counter, the same for
// whoever asks. It protects nobody, and no noise that a guarantee counts comes from it: it is for what a learner draws
// of its own, so that an auditor draws the same (package posterior has the draws of a policy from such hashes).
type Public struct {
	purpose      string
	epoch, count uint64
	left         []byte // of the last hash
}

// publicDomain separates these hashes from all others.
const publicDomain = "riffle/v1/public-randomness\x00"

// NewPublic is the source of a purpose in an epoch, from its begin.
func NewPublic(purpose string, epoch int) *Public {
	return &Public{purpose: purpose + "\x00", epoch: uint64(epoch)}
}

// Uint64 implements protocol.Source.
func (p *Public) Uint64() uint64 {
	if len(p.left) == 0 {
		b := append([]byte(publicDomain), p.purpose...)
		b = binary.BigEndian.AppendUint64(b, p.epoch)
		h := sha256.Sum256(binary.BigEndian.AppendUint64(b, p.count))
		p.count, p.left = p.count+1, h[:]
	}
	word := binary.BigEndian.Uint64(p.left)
	p.left = p.left[8:]
	return word
}

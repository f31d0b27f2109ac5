// Package public is public randomness: what follows from a purpose and numbers alone, the same for whoever asks. It
// protects nobody, and no noise that a guarantee counts comes from it. It is for what a policy or a learner draws of
// its own, so that an auditor draws the same.
package public

import (
	"crypto/sha256"
	"encoding/binary"
)

// Words are those of SHA-256 of a domain and of numbers, which are 8 bytes each, in big-endian order. A domain ends in
// a zero byte, so that none is the start of another.
func Words(domain string, numbers ...uint64) (words [4]uint64) {
	b := []byte(domain)
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	h := sha256.Sum256(b)
	for i := range words {
		words[i] = binary.BigEndian.Uint64(h[8*i:])
	}
	return words
}

// Source is a source of the words of a purpose in an epoch.
type Source struct {
	domain       string
	epoch, count uint64
	words        [4]uint64
	left         int // of the words
}

// NewSource is the source of a purpose in an epoch, from its begin. The purpose has no zero byte.
func NewSource(purpose string, epoch int) *Source {
	return &Source{domain: "riffle/v1/public-randomness\x00" + purpose + "\x00", epoch: uint64(epoch)}
}

// Uint64 implements protocol.Source.
func (s *Source) Uint64() uint64 {
	if s.left == 0 {
		s.words, s.left = Words(s.domain, s.epoch, s.count), len(s.words)
		s.count++
	}
	word := s.words[len(s.words)-s.left]
	s.left--
	return word
}

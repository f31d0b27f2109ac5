// Package entropy is where the roles take random bits from: the operating system's generator, and nothing else.
//
// Tests and simulations inject seeded sources where a protocol.Source is asked for; the roles' mains ask this
// package, which has no option. A test of this package holds that no program of the roles names a seeded generator.
package entropy

import (
	"crypto/rand"
	"encoding/binary"
)

// bufferSize is how many bytes are read from the system's generator at a time: a read costs about a microsecond, a
// byte of it nothing.
const bufferSize = 512

// Source yields words of the system's generator. It belongs to one goroutine. Nothing is expanded from a seed in the
// process, so a container started from an image, or a virtual machine resumed from a snapshot, repeats at most what
// one buffer still held.
type Source struct {
	buffer [bufferSize]byte
	next   int
}

// New returns a source.
func New() *Source { return &Source{next: bufferSize} }

// Uint64 returns 64 uniform random bits, each given out once. If the system's generator fails the process ends:
// crypto/rand does not return, because nothing that is sent without fresh noise would be private.
func (s *Source) Uint64() uint64 {
	if s.next == bufferSize {
		rand.Read(s.buffer[:])
		s.next = 0
	}
	word := s.buffer[s.next : s.next+8]
	s.next += 8
	v := binary.LittleEndian.Uint64(word)
	clear(word)
	return v
}

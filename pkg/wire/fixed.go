package wire

import (
	"bytes"
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// fixed reads the fields of a message whose layout is known, in their order and in their one encoding, without copying
// them: what it returns shares the message's memory. Where anything else is, it fails once and for all.
type fixed struct {
	rest   []byte
	failed bool
}

// whole reports whether every field was there, and nothing else.
func (f *fixed) whole() bool { return !f.failed && len(f.rest) == 0 }

// cut is the next n bytes, which must be behind this tag and, for bytes, this length. It is nil where they do not.
func (f *fixed) cut(number protowire.Number, t protowire.Type, n int) []byte {
	var room [2 * binary.MaxVarintLen64]byte
	head := protowire.AppendTag(room[:0], number, t)
	if t == protowire.BytesType {
		head = protowire.AppendVarint(head, uint64(n))
	}
	if f.failed = f.failed || len(f.rest)-len(head) < n || !bytes.HasPrefix(f.rest, head); f.failed {
		return nil
	}
	value := f.rest[len(head) : len(head)+n : len(head)+n]
	f.rest = f.rest[len(head)+n:]
	return value
}

// bytes is a field of n bytes.
func (f *fixed) bytes(number protowire.Number, n int) []byte {
	return f.cut(number, protowire.BytesType, n)
}

// array is a field of 32 bytes.
func (f *fixed) array(number protowire.Number) (a [32]byte) {
	copy(a[:], f.bytes(number, len(a)))
	return a
}

func (f *fixed) fixed32(number protowire.Number) uint32 {
	if b := f.cut(number, protowire.Fixed32Type, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (f *fixed) fixed64(number protowire.Number) uint64 {
	if b := f.cut(number, protowire.Fixed64Type, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

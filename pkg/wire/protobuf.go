package wire

import (
	"encoding/binary"
	"math/bits"
)

// wireType says how a field is written: the types of protobuf's encoding that its schema here uses.
type wireType uint64

const (
	varintType  wireType = 0
	fixed64Type wireType = 1
	bytesType   wireType = 2
	fixed32Type wireType = 5
)

func appendTag(b []byte, n int, t wireType) []byte {
	return binary.AppendUvarint(b, uint64(n)<<3|uint64(t))
}

func appendBytes[B []byte | string](b []byte, n int, v B) []byte {
	b = binary.AppendUvarint(appendTag(b, n, bytesType), uint64(len(v)))
	return append(b, v...)
}

// varintSize is how many bytes a number takes.
func varintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// sizeOfBytes is how many bytes so many bytes take with their length.
func sizeOfBytes(n int) int { return varintSize(uint64(n)) + n }

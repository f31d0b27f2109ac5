package wire

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
)

// Chunk is a part of what the shuffler sends of a round: in most channels a run of permuted messages.
type Chunk struct {
	Epoch   uint64
	Round   uint32
	Index   uint32 // from 0
	Payload []byte // the channel's, 1 to MaxChunk bytes
}

// BuildChunk encodes a chunk.
func BuildChunk(c Chunk) ([]byte, error) {
	if err := checkChunk(&c); err != nil {
		return nil, named("chunk", err)
	}
	return marshal(chunkFields, &c)
}

// ParseChunk decodes a chunk. Whether it is the shuffler's is known only from the manifest's digest of all chunks
// (ChunksDigest). The payload shares the memory of data.
func ParseChunk(data []byte) (*Chunk, error) {
	if most := MaxChunk + 64; len(data) > most {
		return nil, named("chunk", fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), most))
	}
	c, err := unmarshal(chunkFields, data)
	if err == nil {
		err = checkChunk(c)
	}
	if err != nil {
		return nil, named("chunk", err)
	}
	return c, nil
}

func checkChunk(c *Chunk) error {
	if err := checkRound(c.Epoch, c.Round); err != nil {
		return err
	}
	return checkPayload(c.Payload, MaxChunk)
}

// Messages are the messages of the chunk, of size bytes each, in their order; they share its memory. It is an error if
// the payload is no whole number of them.
func (c *Chunk) Messages(size int) ([][]byte, error) {
	if size < 1 || len(c.Payload)%size != 0 {
		return nil, fmt.Errorf("%w: a chunk of %d bytes, messages have %d", ErrSize, len(c.Payload), size)
	}
	return slices.Collect(slices.Chunk(c.Payload, size)), nil
}

// ChunkDigest is SHA-256 of a chunk's bytes.
func ChunkDigest(chunk []byte) [32]byte { return sum(chunk) }

// MessageDigest is SHA-256 of a message, a leaf under the manifest's messages_root.
func MessageDigest(message []byte) [32]byte { return sum(message) }

// AppendMessageDigests appends the digest, 32 bytes, of each message in a run of messages of this size, which is
// positive.
func AppendMessageDigests(digests, messages []byte, size int) []byte {
	for message := range slices.Chunk(messages, size) {
		digest := MessageDigest(message)
		digests = append(digests, digest[:]...)
	}
	return digests
}

// ChunksDigest is the manifest's chunks_digest: SHA-256 over the chunks' digests, in order of their index.
func ChunksDigest(chunks [][32]byte) [32]byte { return concatenated(chunks) }

// ReportsDigest is the manifest's reports_digest: SHA-256 over the admitted reports' digests, sorted, so that it says
// nothing of their order.
func ReportsDigest(reports [][32]byte) [32]byte {
	sorted := slices.Clone(reports)
	slices.SortFunc(sorted, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	return concatenated(sorted)
}

func concatenated(digests [][32]byte) (out [32]byte) {
	h := sha256.New()
	for i := range digests {
		h.Write(digests[i][:])
	}
	h.Sum(out[:0])
	return out
}

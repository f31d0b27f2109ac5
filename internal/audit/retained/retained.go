// Package retained turns what a shuffler retained of a release back into what it forwarded. A retained chunk is a
// forwarded chunk sealed to the auditor's key (pkg/seal). An exported one is a file that holds these sealed bytes and
// nothing else, under the name that Path gives.
//
// What comes out is still sealed: bit messages, or in the channel local boxes, that only the analyzer's key opens, in
// the order in which they were mixed.
package retained

import (
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var (
	// ErrKey means that none of the auditor's keys opens a chunk as this chunk of this release.
	ErrKey = errors.New("retained chunk does not open: other key, other place, or tampered with")
	// ErrMissing means that fewer chunks are retained than the manifest names.
	ErrMissing = errors.New("retained chunks are missing: their window is over, or they were never retained")
	// ErrDiffers means that what is retained is not what the manifest says was forwarded.
	ErrDiffers = errors.New("what is retained is not what the manifest names")
)

// Path names the file of a retained chunk in an export, with slashes: retained/<epoch>/<round>/<index>.
func Path(epoch uint64, round, index uint32) string {
	return path.Join("retained", strconv.FormatUint(epoch, 10), strconv.FormatUint(uint64(round), 10),
		strconv.FormatUint(uint64(index), 10))
}

// Open opens a retained chunk with whichever of the auditor's keys it was sealed to, and gives the chunk's bytes as
// they were forwarded: wire.ParseChunk reads them, and wire.ChunkDigest of them is what the manifest covers.
//
// Errors: ErrKey. What it opens to is checked by Release.
func Open(sealed []byte, keys []*seal.HPKEKey, c seal.RetainedContext) ([]byte, error) {
	for _, key := range keys {
		if chunk, err := seal.OpenRetained(key, c, sealed); err == nil {
			return chunk, nil
		}
	}
	return nil, fmt.Errorf("chunk %d of round %d of epoch %d: %w", c.Index, c.Round, c.Epoch, ErrKey)
}

// Release holds the opened chunks of one release against its manifest. Chunks may come in any order. It keeps one
// digest for each chunk and nothing else.
type Release struct {
	manifest *wire.Manifest
	size     int                 // of a message, in bytes
	digests  map[uint32][32]byte // of the chunks that came, by index
	messages uint64              // that came
}

// NewRelease begins with the manifest of a release and the round's announcement. Its error says why nothing of such a
// round is retained.
func NewRelease(m *wire.Manifest, a *plan.Announcement) (*Release, error) {
	size := registry.MessageSize(a)
	switch {
	case m.Outcome != wire.Released:
		return nil, fmt.Errorf("round %d of epoch %d was destroyed: nothing left", m.Round, m.Epoch)
	case size == 0:
		return nil, fmt.Errorf("round %d of epoch %d went through the channel %s, which forwards no messages",
			m.Round, m.Epoch, a.Plan.Channel)
	}
	return &Release{manifest: m, size: size, digests: map[uint32][32]byte{}}, nil
}

// Add takes an opened chunk under the index that it was retained under and returns its messages, in the order in which
// they were forwarded. They share the chunk's memory.
//
// Errors: ErrDiffers, or one of package wire, where the chunk is none of this release.
func (r *Release) Add(index uint32, chunk []byte) (messages [][]byte, err error) {
	m := r.manifest
	_, known := r.digests[index]
	c, err := wire.ParseChunk(chunk)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Epoch != m.Epoch || c.Round != m.Round || c.Index != index:
		return nil, fmt.Errorf("%w: chunk %d says that it is chunk %d of round %d of epoch %d", ErrDiffers, index, c.Index,
			c.Round, c.Epoch)
	case index >= m.Chunks:
		return nil, fmt.Errorf("%w: chunk %d, forwarded were %d", ErrDiffers, index, m.Chunks)
	case known:
		return nil, fmt.Errorf("%w: chunk %d came twice", ErrDiffers, index)
	}
	if messages, err = c.Messages(r.size); err != nil {
		return nil, fmt.Errorf("%w: chunk %d: %w", ErrDiffers, index, err)
	}
	r.digests[index] = wire.ChunkDigest(chunk)
	r.messages += uint64(len(messages))
	return messages, nil
}

// Check tells whether the chunks that were added are all that the manifest names, and no other. Errors: ErrMissing,
// ErrDiffers.
func (r *Release) Check() error {
	m := r.manifest
	if n := len(r.digests); n < int(m.Chunks) {
		return fmt.Errorf("%w: of %d chunks of round %d of epoch %d there are %d", ErrMissing, m.Chunks, m.Round,
			m.Epoch, n)
	}
	if r.messages != m.Messages {
		return fmt.Errorf("%w: %d messages of round %d of epoch %d, the manifest says %d", ErrDiffers, r.messages,
			m.Round, m.Epoch, m.Messages)
	}
	digests := make([][32]byte, m.Chunks)
	for i := range digests {
		digests[i] = r.digests[uint32(i)]
	}
	if digest := wire.ChunksDigest(digests); string(digest[:]) != string(m.ChunksDigest) {
		return fmt.Errorf("%w: the digest of round %d of epoch %d is another one", ErrDiffers, m.Round, m.Epoch)
	}
	return nil
}

// Package retained turns what a shuffler retained of a release back into what it forwarded. A retained chunk is a
// forwarded chunk sealed to the auditor's key (pkg/seal). An exported one is a file that holds these sealed bytes and
// nothing else, under the name that Path gives.
//
// What comes out is still sealed: bit messages, or in the channel local envelopes, that only the analyzer's key opens,
// in the order in which they were mixed.
package retained

import (
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// ErrKey means that none of the auditor's keys opens a chunk as this chunk of this release.
var ErrKey = errors.New("retained chunk does not open: other key, other place, or tampered with")

// Path names the file of a retained chunk in an export, with slashes: retained/<epoch>/<round>/<index>.
func Path(epoch uint64, round, index uint32) string {
	return path.Join("retained", strconv.FormatUint(epoch, 10), strconv.FormatUint(uint64(round), 10),
		strconv.FormatUint(uint64(index), 10))
}

// Open opens a retained chunk with whichever of the auditor's keys it was sealed to, and gives the chunk's bytes as
// they were forwarded: wire.ParseChunk reads them, and wire.ChunkDigest of them is what the manifest covers.
//
// Errors: ErrKey. What it opens to is not checked.
func Open(sealed []byte, keys []*seal.HPKEKey, c seal.RetainedContext) ([]byte, error) {
	for _, key := range keys {
		if chunk, err := seal.OpenRetained(key, c, sealed); err == nil {
			return chunk, nil
		}
	}
	return nil, fmt.Errorf("chunk %d of round %d of epoch %d: %w", c.Index, c.Round, c.Epoch, ErrKey)
}

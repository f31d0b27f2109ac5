// Package shuffle is the channel in which a shuffler mixes the bit messages of a whole cohort and the analyzer counts
// them: the vector-summation protocol of the seed paper (Algorithms 4 to 6). This package holds its pure sides.
//
// # What it guarantees
//
// The payload of a device has the same number of bit messages for every coordinate, whatever the record: as many as the
// encoding has levels and noise bits. Every bit is encrypted on its own to the analyzer, under a fresh ephemeral key
// and bound to the announcement (pkg/seal), so that two messages of a report share nothing but their length and the
// label, which says in the clear which coordinate of which release a bit is of. Labels are a function of the
// announcement and of a message's place in the report, the same in all reports: nothing of a record is in them.
// CheckLabels holds a report to it.
//
// # What it does not guarantee
//
// The messages of a payload are in the order of releases and coordinates: nothing is hidden until the shuffler has
// mixed them. The certificate that counts the noise is computed in pkg/plan and pkg/privacy, not here. Encryption draws
// from crypto/rand: pkg/seal takes no other source.
package shuffle

import (
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Name is the channel's name in announcements and limits.
const Name = "shuffle"

// Device implements channel.Device.
type Device struct {
	encodings []protocol.Encoding
	sealer    *seal.BitSealer
	messages  int
}

// NewDevice prepares a round: its encodings in the plan's order, the analyzer's HPKE key, and the digest of
// the announcement. A key of low order or of another length than 32 bytes is seal.ErrKey.
func NewDevice(encodings []protocol.Encoding, analyzer []byte, digest [32]byte) (*Device, error) {
	sealer, err := seal.NewBitSealer(analyzer, digest)
	if err != nil {
		return nil, err
	}
	d := &Device{encodings: encodings, sealer: sealer}
	for _, e := range encodings {
		d.messages += e.Messages()
	}
	return d, nil
}

// Size implements channel.Device.
func (d *Device) Size() int { return d.messages * seal.BitSize }

// Append implements channel.Device: every vector is encoded, and every bit is encrypted on its own.
func (d *Device) Append(dst []byte, _ channel.Sender, vectors [][]float64, src protocol.Source) ([]byte, error) {
	if len(vectors) != len(d.encodings) {
		return dst, fmt.Errorf("shuffle: %d vectors for %d releases", len(vectors), len(d.encodings))
	}
	begin := len(dst)
	dst = slices.Grow(dst, d.Size())
	var ones []uint32
	defer func() { clear(ones) }()
	for i, e := range d.encodings {
		var err error
		if ones, err = e.Encode(ones, vectors[i], src); err != nil {
			return dst, fmt.Errorf("shuffle: encoding: %w", err)
		}
		for j, count := range ones {
			dst, err = d.sealer.AppendSealRun(dst, uint8(i), uint16(j), e.MessagesAt(j), int(count))
			if err != nil {
				return dst, fmt.Errorf("shuffle: sealing: %w", err)
			}
		}
	}
	if made := len(dst) - begin; made != d.Size() {
		return dst, fmt.Errorf("shuffle: a payload of %d bytes instead of %d", made, d.Size())
	}
	return dst, nil
}

// Package envelope holds the pure sides of the channels local and central, whose payload is one sealed envelope: all
// entries of a device, sealed to the analyzer together with a proof of who made them.
//
// # What it guarantees
//
// A payload has the same length for every record of a round. What is in the envelope can be read by the analyzer alone,
// only in the round for which it was made, and in no other channel. The analyzer learns which device made it, so that
// it can refuse copies, and devices that do not exist.
//
// In the channel local each entry carries the device's own noise, drawn exactly (protocol.Encoding.Encode): it protects
// the person from everyone, the analyzer included, and nothing else does. Whether it is enough is for plan.Guarantee to
// say. In the channel central the entries carry no noise: the analyzer sees what each person reports, and whoever takes
// part trusts it.
//
// # What it does not guarantee
//
// An entry can be anything in its range: nothing proves that a device rounded and drew noise as it should. Envelopes
// hide neither that a device reported nor when. There is no forward secrecy towards the analyzer (package seal).
//
// # The format
//
// A payload is an envelope (seal.EnvelopeSealer) under the domain of its channel and the announcement's digest. Its
// content is the entries of all releases of the round, in order, each a big-endian integer of as many bytes as the
// round's largest possible entry needs, and behind them a proof of participation (channel.Sender.AppendProof) of these
// bytes.
package envelope

import (
	"fmt"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// domain is that of a channel's envelopes; empty for a channel that has none.
func domain(c plan.Channel) seal.EnvelopeDomain {
	switch c {
	case plan.Local:
		return seal.LocalEnvelope
	case plan.Central:
		return seal.CentralEnvelope
	}
	return ""
}

// width is the number of bytes of every entry: as many as the largest possible one needs. entries is how many there
// are.
func width(encodings []protocol.Encoding) (bytes, entries int) {
	most := 0
	for _, e := range encodings {
		entries += len(e.Coordinates)
		for j := range e.Coordinates {
			most = max(most, e.MessagesAt(j))
		}
	}
	for bytes = 1; most>>(8*bytes) > 0; bytes++ {
	}
	return bytes, entries
}

// Size is the length in bytes of every payload of a round with these encodings.
func Size(encodings []protocol.Encoding) int {
	bytes, entries := width(encodings)
	return seal.EnvelopeOverhead + bytes*entries + channel.ProofSize
}

// Device implements channel.Device.
type Device struct {
	encodings []protocol.Encoding
	sealer    *seal.EnvelopeSealer
	digest    [32]byte
	width     int
	size      int
}

// NewDevice prepares an announced round of the channel local or central; digest is the announcement's. An analyzer's
// key of low order or of another length than 32 bytes is seal.ErrKey.
func NewDevice(a *plan.Announcement, digest [32]byte) (*Device, error) {
	if domain(a.Plan.Channel) == "" {
		return nil, fmt.Errorf("envelope: the channel %q has no envelopes", a.Plan.Channel)
	}
	sealer, err := seal.NewEnvelopeSealer(a.AnalyzerKey, domain(a.Plan.Channel), digest)
	if err != nil {
		return nil, err
	}
	bytes, _ := width(a.Encodings)
	return &Device{a.Encodings, sealer, digest, bytes, Size(a.Encodings)}, nil
}

// Size implements channel.Device.
func (d *Device) Size() int { return d.size }

// Append implements channel.Device: every vector is encoded with the noise that the plan gives to devices, and all
// entries are proved and sealed together.
func (d *Device) Append(dst []byte, by channel.Sender, vectors [][]float64, src protocol.Source) ([]byte, error) {
	if len(vectors) != len(d.encodings) {
		return dst, fmt.Errorf("envelope: %d vectors for %d releases", len(vectors), len(d.encodings))
	}
	content := make([]byte, 0, d.size-seal.EnvelopeOverhead)
	var entries []uint32
	defer func() { clear(entries); clear(content[:cap(content)]) }()
	for i, e := range d.encodings {
		var err error
		if entries, err = e.Encode(entries, vectors[i], src); err != nil {
			return dst, fmt.Errorf("envelope: encoding: %w", err)
		}
		for _, entry := range entries {
			for at := d.width - 1; at >= 0; at-- {
				content = append(content, byte(entry>>(8*at)))
			}
		}
	}
	content, err := by.AppendProof(content, d.digest, content)
	if err != nil {
		return dst, fmt.Errorf("envelope: proof: %w", err)
	}
	begin := len(dst)
	if dst, err = d.sealer.AppendSeal(dst, content, nil); err != nil {
		return dst[:begin], fmt.Errorf("envelope: %w", err)
	}
	if made := len(dst) - begin; made != d.size {
		return dst[:begin], fmt.Errorf("envelope: a payload of %d bytes instead of %d", made, d.size)
	}
	return dst, nil
}

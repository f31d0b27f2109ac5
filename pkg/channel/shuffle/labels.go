package shuffle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// eachLabel calls f with the label of every message of a report of a round with these encodings, in their order.
func eachLabel(encodings []protocol.Encoding, f func(label []byte)) {
	for i, e := range encodings {
		for j := range e.Coordinates {
			label := binary.BigEndian.AppendUint16([]byte{uint8(i)}, uint16(j))
			for range e.MessagesAt(j) {
				f(label)
			}
		}
	}
}

// LabelsOf is the digest of the labels that the messages of every report of a round with these encodings have, in their
// order: SHA-256 in hexadecimal digits. Device.Append gives message i of a report the label of place i of the plan, so
// that each report has exactly MessagesAt(j) messages for each coordinate j, whatever its device wants.
//
// # What the labels tell
//
// Nothing, to the shuffler: they are a function of the announcement, which is public, and the same in all reports.
// Within a coordinate the ones are before the zeros: to see where they end is to tell the encryption of a zero from
// that of a one. The analyzer learns nothing of them either: it counts messages by coordinate.
func LabelsOf(encodings []protocol.Encoding) string {
	h := sha256.New()
	eachLabel(encodings, func(label []byte) { h.Write(label) })
	return hex.EncodeToString(h.Sum(nil))
}

// WriteLabels writes the labels of LabelsOf into a payload of as many messages. It is for what sends messages that
// nobody can open; Device.Append seals them with their labels.
func WriteLabels(payload []byte, encodings []protocol.Encoding) {
	eachLabel(encodings, func(label []byte) {
		copy(seal.Label(payload), label)
		payload = payload[seal.BitSize:]
	})
}

// CheckLabels reports whether the messages of a report's payload, one after another, have the labels of this digest
// (LabelsOf). The error wraps wire.ErrLabels. A digest is compared, so that neither the shuffler's journal
// nor its workers' tasks have to list what the plan says of every message.
func CheckLabels(payload []byte, labels string) error {
	h := sha256.New()
	for ; len(payload) >= seal.BitSize; payload = payload[seal.BitSize:] {
		h.Write(seal.Label(payload))
	}
	if len(payload) > 0 || hex.EncodeToString(h.Sum(nil)) != labels {
		return fmt.Errorf("%w: the report does not have exactly the planned number of messages for each coordinate, "+
			"in the plan's order", wire.ErrLabels)
	}
	return nil
}

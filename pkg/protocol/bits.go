package protocol

import (
	"fmt"
	"slices"
)

// Bit is the content of one bit message: which coordinate, and one or zero.
type Bit struct {
	Coordinate uint32
	One        bool
}

// MaxReportBits is the largest report that AppendBits writes. Encodings with more messages (the paper's own constants
// ask for about 10^8 per coordinate) can be reasoned about and simulated, not sent.
const MaxReportBits = 1 << 24

// AppendBits appends the bits of one report to dst: exactly Messages() of them for any ones that Encode can return, in
// order of coordinate, ones first. The order says nothing about other devices but everything about this one: encrypt
// each bit on its own. Other counts are refused with ErrCounts, and more than MaxReportBits messages with ErrEncoding.
func (e Encoding) AppendBits(dst []Bit, ones []uint32) ([]Bit, error) {
	if err := e.Validate(); err != nil {
		return dst, err
	}
	if len(ones) != len(e.Coordinates) {
		return dst, fmt.Errorf("%w: %d counts for %d coordinates", ErrCounts, len(ones), len(e.Coordinates))
	}
	messages := e.Messages()
	if messages > MaxReportBits {
		return dst, fmt.Errorf("%w: %d messages per device, more than the %d that a report may have",
			ErrEncoding, messages, MaxReportBits)
	}
	for j, count := range ones {
		if int(count) > e.MessagesAt(j) {
			return dst, fmt.Errorf("%w: %d ones among the %d bits of coordinate %d",
				ErrCounts, count, e.MessagesAt(j), j)
		}
	}
	dst = slices.Grow(dst, messages)
	for j, count := range ones {
		for i := range e.MessagesAt(j) {
			dst = append(dst, Bit{Coordinate: uint32(j), One: i < int(count)})
		}
	}
	return dst, nil
}

// Package registry knows a device's side of every channel that an announcement can name.
package registry

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// ErrUnknown says that no channel has this name.
var ErrUnknown = errors.New("channel is not known")

// entry is what the registry knows of a channel.
type entry struct {
	device  func(a *plan.Announcement, digest [32]byte) (channel.Device, error)
	payload func(encodings []protocol.Encoding) int
}

var channels = map[plan.Channel]entry{
	plan.Shuffle: {
		func(a *plan.Announcement, digest [32]byte) (channel.Device, error) {
			return shuffle.NewDevice(a.Encodings, a.AnalyzerKey, digest)
		},
		func(encodings []protocol.Encoding) (size int) {
			for _, e := range encodings {
				size += e.Messages() * seal.BitSize
			}
			return size
		},
	},
	plan.Local:   {newEnvelope, envelope.Size},
	plan.Central: {newEnvelope, envelope.Size},
	plan.Shares: {
		func(a *plan.Announcement, digest [32]byte) (channel.Device, error) {
			return shares.NewDevice(a, digest)
		},
		shares.PayloadSize,
	},
}

func newEnvelope(a *plan.Announcement, digest [32]byte) (channel.Device, error) {
	return envelope.NewDevice(a, digest)
}

// Known reports whether devices can report through a channel.
func Known(c plan.Channel) bool { return channels[c].device != nil }

// NewDevice is the device's side of the announced round's channel. The announcement is in range, and digest is its own.
func NewDevice(a *plan.Announcement, digest [32]byte) (channel.Device, error) {
	if !Known(a.Plan.Channel) {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, a.Plan.Channel)
	}
	return channels[a.Plan.Channel].device(a, digest)
}

// PayloadSize is the length in bytes of the payload of a report with these encodings; 0 for a channel that is not
// known.
func PayloadSize(c plan.Channel, encodings []protocol.Encoding) int {
	if !Known(c) {
		return 0
	}
	return channels[c].payload(encodings)
}

// MessageSize is the length in bytes of each message that is mixed and forwarded of an announced round: of a bit
// message in shuffle, of an envelope in local and central; 0 for channels that forward no messages.
func MessageSize(a *plan.Announcement) int {
	switch c := a.Plan.Channel; c {
	case plan.Shuffle:
		return seal.BitSize
	case plan.Local, plan.Central:
		return PayloadSize(c, a.Encodings)
	default:
		return 0
	}
}

package registry_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// announcement is a round of two releases in a channel.
func announcement(c plan.Channel, analyzer []byte) *plan.Announcement {
	return &plan.Announcement{
		Deployment: "fixture", Epoch: 1, AnalyzerKey: analyzer,
		Plan: plan.Plan{Channel: c, Rounds: []plan.Round{{Releases: []plan.Release{
			{Shift: 1, NoiseBits: 3, Bias: protocol.BiasHalf}, {Shift: 1, NoiseBits: 5, Bias: protocol.BiasHalf},
		}}}},
		Encodings: []protocol.Encoding{
			{Scale: 4, NoiseBits: 3, Bias: protocol.BiasHalf, Coordinates: []protocol.Coordinate{{Levels: 6},
				{Levels: 9}}},
			{Scale: 2, NoiseBits: 5, Bias: protocol.BiasHalf,
				Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 4}}},
		},
	}
}

// In every channel the payload of a device has the size that the servers compute from the encodings alone, whatever the
// vectors: the shuffler admits no other.
func TestPayloadsHaveTheSizeThatServersExpect(t *testing.T) {
	key := must(seal.NewHPKEKey(bytes.Repeat([]byte{1}, 32)))
	registrar := must(seal.NewIdentity(bytes.Repeat([]byte{2}, 32)))
	host := must(seal.NewIdentity(bytes.Repeat([]byte{3}, 32)))
	credential, _, err := wire.Sign(&wire.Credential{Deployment: "fixture", HostKey: host.Public(), Devices: 2},
		registrar)
	by := channel.Sender{Identity: host, Credential: must(credential, err), Number: 1, Commitment: make([]byte, 32)}
	for _, c := range plan.Channels() {
		if !registry.Known(c) {
			t.Errorf("%s: devices cannot report through it", c)
			continue
		}
		a := announcement(c, key.Public())
		d, err := registry.NewDevice(a, [32]byte{4})
		if err != nil {
			t.Fatal(c, err)
		}
		for i, vectors := range [][][]float64{{{0, 0}, {0}}, {{1e9, -1e9}, {1}}} {
			payload, err := d.Append(nil, by, vectors, rand.NewChaCha8([32]byte{byte(i)}))
			if want := registry.PayloadSize(c, a.Encodings); err != nil || len(payload) != want || d.Size() != want {
				t.Errorf("%s: a payload of %d bytes, announced as %d, expected to be %d; %v", c, len(payload), d.Size(),
					want, err)
			}
		}
		if _, err := registry.NewDevice(announcement(c, make([]byte, 32)), [32]byte{4}); !errors.Is(err, seal.ErrKey) {
			t.Errorf("%s: a key of low order: %v", c, err)
		}
	}
	if _, err := registry.NewDevice(announcement("other", key.Public()), [32]byte{}); !errors.Is(err,
		registry.ErrUnknown) ||
		registry.Known("other") || registry.PayloadSize("other", nil) != 0 {
		t.Errorf("a channel that nobody knows: %v", err)
	}
}

// What is forwarded of a channel is messages of one size, which reports hold one or many of; shares forwards none.
func TestMessagesHaveTheSizeThatIsMixed(t *testing.T) {
	for c, want := range map[plan.Channel]int{
		plan.Shuffle: seal.BitSize, plan.Shares: 0, "other": 0,
		plan.Local:   registry.PayloadSize(plan.Local, announcement(plan.Local, nil).Encodings),
		plan.Central: registry.PayloadSize(plan.Central, announcement(plan.Central, nil).Encodings),
	} {
		if got := registry.MessageSize(announcement(c, nil)); got != want {
			t.Errorf("%s: %d bytes, want %d", c, got, want)
		}
	}
}

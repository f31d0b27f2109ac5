package shuffle

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

var _ channel.Device = (*Device)(nil)

// The payload of a device holds the bits that the encodings give from the same source, in the order of releases and
// coordinates, has the announced size whatever the vectors, and leaves what precedes it alone.
func TestThePayloadHoldsTheEncodedBits(t *testing.T) {
	key, err := seal.NewHPKEKey(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	encodings := []protocol.Encoding{
		{Scale: 4, Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 8}, {Offset: 0, Levels: 3}}, NoiseBits: 5,
			Bias: 1 << 31},
		{Scale: 2, Coordinates: []protocol.Coordinate{{Offset: -2, Levels: 9}}, NoiseBits: 2, Bias: 1 << 30},
	}
	context := [32]byte{7}
	d, err := NewDevice(encodings, key.Public(), context)
	if err != nil {
		t.Fatal(err)
	}
	if want := (8 + 5 + 3 + 5 + 9 + 2) * seal.BitSize; d.Size() != want {
		t.Errorf("size %d, not %d", d.Size(), want)
	}
	opener := seal.NewBitOpener(key, context)
	for seed, vectors := range [][][]float64{{{0, 0}, {0}}, {{0.6, 0.2}, {-1.5}}, {{1, 0.75}, {2}}} {
		payload, err := d.Append([]byte("before"), channel.Sender{}, vectors, rand.NewChaCha8([32]byte{byte(seed)}))
		if err != nil || !bytes.HasPrefix(payload, []byte("before")) || len(payload) != len("before")+d.Size() {
			t.Fatalf("%d bytes, %v", len(payload), err)
		}
		payload = payload[len("before"):]
		if err := CheckLabels(payload, LabelsOf(encodings)); err != nil {
			t.Error(err)
		}
		src := rand.NewChaCha8([32]byte{byte(seed)})
		for i, e := range encodings {
			ones, err := e.Encode(nil, vectors[i], src)
			if err != nil {
				t.Fatal(err)
			}
			bits, err := e.AppendBits(nil, ones)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range bits {
				release, coordinate, one, err := opener.Open(payload[:seal.BitSize])
				if err != nil || int(release) != i || uint32(coordinate) != b.Coordinate || one != b.One {
					t.Fatalf("release %d, coordinate %d, %v, %v; want release %d, %+v", release, coordinate, one, err,
						i, b)
				}
				payload = payload[seal.BitSize:]
			}
		}
	}
	src := rand.NewChaCha8([32]byte{})
	for _, vectors := range [][][]float64{nil, {{0, 0}}, {{0, 0}, {0}, {0}}, {{0}, {0}}, {{0, math.NaN()}, {0}}} {
		if _, err := d.Append(nil, channel.Sender{}, vectors, src); err == nil {
			t.Errorf("vectors %v are taken", vectors)
		}
	}
	if _, err := NewDevice(encodings, make([]byte, 32), context); !errors.Is(err, seal.ErrKey) {
		t.Errorf("a key of low order: %v", err)
	}
}

// What a payload allocates does not grow with its bit messages.
func TestAPayloadAllocatesNothingPerMessage(t *testing.T) {
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	src := rand.NewChaCha8([32]byte{})
	allocations := func(noiseBits uint32) float64 {
		e := protocol.Encoding{Scale: 1, Coordinates: []protocol.Coordinate{{Levels: 3}}, NoiseBits: noiseBits,
			Bias: 1 << 31}
		d, err := NewDevice([]protocol.Encoding{e, e}, key.Public(), [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 0, d.Size())
		return testing.AllocsPerRun(5, func() {
			if buffer, err = d.Append(buffer[:0], channel.Sender{}, [][]float64{{1}, {2}}, src); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocations(1), allocations(100); many != few || few > 4 {
		t.Errorf("%v allocations for 8 messages, %v for 206", few, many)
	}
}

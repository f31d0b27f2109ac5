package envelope

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/testing/allocated"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// three are the encodings of two releases with three entries.
func three() []protocol.Encoding {
	return []protocol.Encoding{
		{Coordinates: []protocol.Coordinate{{Levels: 4}, {Levels: 1}}, NoiseBits: 1},
		{Coordinates: []protocol.Coordinate{{Levels: 7}}},
	}
}

// FuzzFound feeds any bytes as what a worker found in so many envelopes. What is read is written as the same bytes, and
// no sum exceeds what the envelopes that it does not refuse can hold.
func FuzzFound(f *testing.F) {
	f.Add((&Found{
		sum:     []uint64{5, 2, 7},
		by:      []devices.Present{{Participant: devices.Participant{Host: [32]byte{1}, Number: 2}}, {}},
		refused: []byte{0, 1},
	}).append(nil), uint8(2))
	f.Add((&Found{ // more than the one envelope that is not refused can hold
		sum: []uint64{6, 0, 0}, by: make([]devices.Present, 2), refused: []byte{0, 1},
	}).append(nil), uint8(2))
	f.Add(make([]byte, 24), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, envelopes uint8) {
		var found *Found
		var err error
		allocated.ForInput(t, len(b), func() { found, err = parseFound(three(), int(envelopes), b) })
		if err != nil {
			if found != nil || !errors.Is(err, errFound) {
				t.Fatalf("%+v, %v", found, err)
			}
			return
		}
		if again := found.append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x is written as %x", b, again)
		}
		in := uint64(0)
		for i := range found.by {
			if found.reason(i) == "" {
				in++
			}
		}
		for i, most := range []uint64{5, 2, 7} {
			if found.sum[i] > in*most {
				t.Fatalf("entry %d of %d envelopes adds up to %d", i, in, found.sum[i])
			}
		}
	})
}

// FuzzNoisedSums reads any bytes as the file that the analyzer keeps of noised sums, as they are and behind the right
// head and with the right checksum. What is read is what was written; anything else is damage, or about other
// envelopes.
func FuzzNoisedSums(f *testing.F) {
	of := &channel.Round{Announcement: &plan.Announcement{Encodings: three()}, Digest: [32]byte{1}}
	m := &wire.Manifest{Reports: 10, ChunksDigest: bytes.Repeat([]byte{2}, 32)}
	begin := head(noisedDomain, of, m)
	f.Add(make([]byte, 24))
	f.Add(append(bytes.Clone(begin), make([]byte, 24)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range [][]byte{data, appendChecksum(bytes.Clone(data)),
			appendChecksum(append(bytes.Clone(begin), data...))} {
			sums, err := decodeNoised(b, of, m)
			if err != nil {
				if sums != nil || !errors.Is(err, channel.ErrDamagedState) && !errors.Is(err, chunks.Rejected) {
					t.Fatalf("%v, %v", sums, err)
				}
				continue
			}
			if again := encodeNoised(of, m, sums); !bytes.Equal(again, b) {
				t.Fatalf("%x is written as %x", b, again)
			}
		}
	})
}

// FuzzCurated does the same with the file of what a curator gave out.
func FuzzCurated(f *testing.F) {
	of := &channel.Round{Announcement: &plan.Announcement{}, Digest: [32]byte{1}}
	m := &wire.Manifest{Reports: 10, ChunksDigest: bytes.Repeat([]byte{2}, 32)}
	begin := head(curatedDomain, of, m)
	f.Add(make([]byte, 24))
	f.Add(make([]byte, 23))
	f.Add(encodeCurated(of, m, []int64{-1, 2}))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, b := range [][]byte{data, appendChecksum(bytes.Clone(data)),
			appendChecksum(append(bytes.Clone(begin), data...))} {
			given, err := decodeCurated(b, of, m)
			if err != nil {
				if given != nil || !errors.Is(err, channel.ErrDamagedState) && !errors.Is(err, ErrGivenOut) {
					t.Fatalf("%v, %v", given, err)
				}
				continue
			}
			if again := encodeCurated(of, m, given); !bytes.Equal(again, b) || len(given) == 0 {
				t.Fatalf("%x is written as %x", b, again)
			}
		}
	})
}

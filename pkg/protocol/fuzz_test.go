package protocol_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// fuzzed takes numbers off the front of a fuzzer's bytes; zeros once they are used up.
type fuzzed []byte

func (f *fuzzed) next() uint64 {
	var word [8]byte
	*f = (*f)[copy(word[:], *f):]
	return binary.LittleEndian.Uint64(word[:])
}

func (f *fuzzed) float() float64 { return math.Float64frombits(f.next()) }

// encoding takes any encoding at all, valid or not, with few enough noise bits to encode quickly.
func (f *fuzzed) encoding() protocol.Encoding {
	head := f.next()
	e := protocol.Encoding{Scale: f.float(), NoiseBits: uint32(head>>8) % 5000, Bias: protocol.Bias(head >> 32)}
	for range head % 6 {
		e.Coordinates = append(e.Coordinates, protocol.Coordinate{Offset: f.float(), Levels: uint32(f.next())})
	}
	return e
}

func seedFuzz(f *testing.F) {
	words := func(words ...uint64) (data []byte) {
		for _, word := range words {
			data = binary.LittleEndian.AppendUint64(data, word)
		}
		return data
	}
	one, minus, third := math.Float64bits(1), math.Float64bits(-1), math.Float64bits(1.0/3)
	f.Add([]byte{})
	f.Add(words(1<<63|6<<8|2, math.Float64bits(12.9), minus, 26, 0, 13, third, one))
	f.Add(words(1<<62|9<<8|1, math.Float64bits(0.1), minus, 1, math.Float64bits(math.NaN())))
	f.Add(words(1<<63|1<<8|1, math.Float64bits(math.Inf(1)), minus, 1, third))
	f.Add(words(1<<63|1<<8|1, math.Float64bits(1e99), math.Float64bits(-1e100), math.MaxUint32-1,
		math.Float64bits(math.MaxFloat64)))
	f.Add(words(1<<63|1<<8|1, one, 0, math.MaxUint32, third))
}

// Encode never panics. It either refuses, or gives ones that fit the exact number of messages.
func FuzzEncode(f *testing.F) {
	seedFuzz(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		in := fuzzed(data)
		e := in.encoding()
		finite := true
		x := make([]float64, len(e.Coordinates))
		for j := range x {
			x[j] = in.float()
			finite = finite && !math.IsNaN(x[j]) && !math.IsInf(x[j], 0)
		}
		ones, err := e.Encode(nil, x, seeded("fuzz", len(data)))
		if valid := e.Validate() == nil; (err == nil) != (valid && finite) {
			t.Fatalf("%+v, x = %v: %v", e, x, err)
		}
		if err != nil {
			return
		}
		total := 0
		for j := range ones {
			total += e.MessagesAt(j)
			if int(ones[j]) > e.MessagesAt(j) {
				t.Fatalf("%+v, x = %v: %d ones of %d messages", e, x, ones[j], e.MessagesAt(j))
			}
		}
		if total != e.Messages() {
			t.Fatalf("%+v: %d messages, coordinates have %d", e, e.Messages(), total)
		}
		if total > 1<<16 {
			return
		}
		bits, err := e.AppendBits(nil, ones)
		if err != nil || len(bits) != total {
			t.Fatalf("%+v: %d bits of %d, %v", e, len(bits), total, err)
		}
	})
}

// Count and Decode never panic, and what they do not refuse is a finite number.
func FuzzDecodeSums(f *testing.F) {
	seedFuzz(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		in := fuzzed(data)
		e := in.encoding()
		reports := in.next()
		if reports&1 == 0 { // half of the time a number of reports that does not overflow
			reports >>= 33
		}
		ones := make([]uint64, in.next()%7)
		if reports&2 == 0 {
			ones = make([]uint64, len(e.Coordinates))
		}
		for j := range ones {
			ones[j] = in.next()
			if j < len(e.Coordinates) && reports&4 == 0 {
				ones[j] %= reports*uint64(e.MessagesAt(j)) + 1
			}
		}
		for len(in) > 0 && len(ones) > 0 {
			word := in.next()
			bit := protocol.Bit{Coordinate: uint32(word) % 8, One: word>>32&1 == 1}
			if err := protocol.Count(ones, []protocol.Bit{bit}); err != nil && !errors.Is(err, protocol.ErrCounts) {
				t.Fatal(err)
			}
		}
		sums, err := e.Decode(ones, reports, 0)
		if err != nil && !errors.Is(err, protocol.ErrCounts) && !errors.Is(err, protocol.ErrEncoding) {
			t.Fatalf("%+v: untyped error %v", e, err)
		}
		for _, sum := range sums {
			if math.IsNaN(sum) || math.IsInf(sum, 0) {
				t.Fatalf("%+v: %v of %d reports decode to %v", e, ones, reports, sum)
			}
		}
	})
}

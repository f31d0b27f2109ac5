package protocol_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Decode agrees with rational arithmetic to a few roundings of its two terms, for any counts, up to the largest.
func TestDecodeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEncoding(t)
		reports := rapid.OneOf(rapid.Uint64Range(0, 1000), rapid.Uint64Range(0, math.MaxUint32)).Draw(t, "reports")
		ones := make([]uint64, len(e.Coordinates))
		for j := range ones {
			ones[j] = rapid.Uint64Range(0, reports*uint64(e.MessagesAt(j))).Draw(t, "ones")
		}
		sums, err := e.Decode(ones, reports, 0)
		if err != nil {
			t.Fatal(err)
		}
		rat := func(n uint64) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(n)) }
		for j := range sums {
			noise := new(big.Rat).Mul(rat(reports), big.NewRat(int64(e.NoiseBits), 1))
			noise.Mul(noise, big.NewRat(int64(e.Bias), 1<<32))
			data := new(big.Rat).Sub(rat(ones[j]), noise)
			data.Quo(data, new(big.Rat).SetFloat64(e.Scale))
			offset := new(big.Rat).Mul(rat(reports), new(big.Rat).SetFloat64(e.Coordinates[j].Offset))
			want := new(big.Rat).Add(data, offset)
			gap, _ := new(big.Rat).Sub(want, new(big.Rat).SetFloat64(sums[j])).Float64()
			a, _ := data.Float64()
			b, _ := offset.Float64()
			if math.Abs(gap) > 4*0x1p-53*(math.Abs(a)+math.Abs(b)) {
				t.Fatalf("coordinate %d: %v is off by %v", j, sums[j], gap)
			}
		}
	})
}

// Without noise, the decoded sum of one report is the vector, within one level; with noise, the decoded sum is the
// levels' sum plus noise centred exactly: decoding counts that hold the mean noise gives the levels back to the last
// digit.
func TestDecodeUndoesEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEncoding(t)
		e.NoiseBits = 0
		x := make([]float64, len(e.Coordinates))
		for j, c := range e.Coordinates {
			x[j] = c.Offset + rapid.Float64Range(0, 1).Draw(t, "u")*float64(c.Levels)/e.Scale
		}
		levels, err := e.Round(nil, x, seeded("undo", 0))
		if err != nil {
			t.Fatal(err)
		}
		ones := make([]uint64, len(levels))
		for j := range levels {
			ones[j] = uint64(levels[j])
		}
		sums, err := e.Decode(ones, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		for j := range sums {
			size := math.Abs(e.Coordinates[j].Offset) + float64(e.Coordinates[j].Levels)/e.Scale
			if math.Abs(sums[j]-x[j]) > (1+e.ShiftSlack())/e.Scale+8*0x1p-53*size {
				t.Fatalf("coordinate %d: %v came back as %v", j, x[j], sums[j])
			}
		}
	})
	// mean noise 3
	e := protocol.Encoding{Scale: 1, NoiseBits: 8, Bias: 3 << 29,
		Coordinates: []protocol.Coordinate{{Offset: 0, Levels: 1000}}}
	for _, reports := range []uint64{1, 7, 1 << 40} {
		sums, err := e.Decode([]uint64{3*reports + 5}, reports, 0)
		if err != nil || sums[0] != 5 {
			t.Errorf("%d reports: %v, %v; want 5", reports, sums, err)
		}
		if sums, err = e.Decode([]uint64{3*reports - 2}, reports, 0); err != nil || sums[0] != -2 {
			t.Errorf("%d reports: %v, %v; want -2", reports, sums, err)
		}
	}
}

// A count whose value lies a hair above the middle of two floating-point numbers goes to the upper one: 2^65 + 2^12 + 1
// units of 2^-32, where neighbours are 2^13 apart.
func TestDecodeRoundsOnce(t *testing.T) {
	e := protocol.Encoding{Scale: 1, NoiseBits: 1, Bias: 1,
		Coordinates: []protocol.Coordinate{{Offset: 0, Levels: 100}}}
	sums, err := e.Decode([]uint64{1<<33 + 1}, 1<<32-1<<12-1, 0)
	if want := (0x1p65 + 0x1p13) * 0x1p-32; err != nil || sums[0] != want {
		t.Errorf("%v, %v; want %v", sums, err, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	e := uniform(2, -1, 1, 4, 3, protocol.BiasHalf) // 8 levels, 11 messages
	for _, c := range []struct {
		ones    []uint64
		reports uint64
	}{
		{nil, 1}, {[]uint64{1}, 1}, {[]uint64{1, 2, 3}, 1}, {[]uint64{0, 12}, 1}, {[]uint64{1, 0}, 0},
		{[]uint64{0, 0}, math.MaxUint64}, {[]uint64{111, 0}, 10}, {[]uint64{math.MaxUint64, 0}, 10},
	} {
		if sums, err := e.Decode(c.ones, c.reports, 0); !errors.Is(err, protocol.ErrCounts) {
			t.Errorf("Decode(%v, %d) = %v, %v; want ErrCounts", c.ones, c.reports, sums, err)
		}
	}
	if sums, err := e.Decode([]uint64{0, 0}, 0, 0); err != nil || sums[0] != 0 || sums[1] != 0 {
		t.Errorf("no reports: %v, %v; want zeros", sums, err)
	}
	if sums, err := e.Decode([]uint64{110, 110}, 10, 0); err != nil {
		t.Errorf("every bit a one: %v, %v", sums, err)
	}
	// Noise is for sums of levels, once.
	counts := []uint64{80, 0}
	if err := e.AddNoise(counts, 10, constant(math.MaxUint64)); err != nil || counts[0] != 110 || counts[1] != 30 {
		t.Errorf("AddNoise: %v, %v", counts, err)
	}
	if err := e.AddNoise(counts, 10, constant(0)); !errors.Is(err, protocol.ErrCounts) || counts[0] != 110 {
		t.Errorf("AddNoise twice: %v, %v; want ErrCounts", counts, err)
	}
}

// A bit that names no coordinate: nothing is counted, not even the bits before it.
func TestCountRefusesForeignBits(t *testing.T) {
	ones := []uint64{5, 7}
	err := protocol.Count(ones, []protocol.Bit{{Coordinate: 0, One: true}, {Coordinate: 2}})
	if !errors.Is(err, protocol.ErrCounts) || ones[0] != 5 {
		t.Errorf("%v, ones %v; want ErrCounts and the counts unchanged", err, ones)
	}
}

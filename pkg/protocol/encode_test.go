package protocol_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// uniform is an encoding with the same range on every coordinate.
func uniform(coordinates int, lower, upper, scale float64, noiseBits uint32, bias protocol.Bias) protocol.Encoding {
	e := protocol.Encoding{Scale: scale, NoiseBits: noiseBits, Bias: bias}
	for range coordinates {
		c, err := protocol.NewCoordinate(lower, upper, scale)
		if err != nil {
			panic(err)
		}
		e.Coordinates = append(e.Coordinates, c)
	}
	return e
}

// constant is a source that always returns the same word: 0 makes every coin with a fraction come up, MaxUint64 none.
type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

// counting counts the words drawn from a source.
type counting struct {
	src   protocol.Source
	words int
}

func (c *counting) Uint64() uint64 { c.words++; return c.src.Uint64() }

func TestLevelsOfKnownValues(t *testing.T) {
	e := uniform(1, -1, 1, 4, 0, protocol.BiasHalf)
	if got := e.Coordinates[0].Levels; got != 8 {
		t.Fatalf("levels %d, want 8", got)
	}
	// 0.3 is level 5.2: the coin is below the fraction, rounded to 32 binary digits, or it is not.
	threshold := uint64(math.RoundToEven(0.2 * (1 << 32)))
	for _, c := range []struct {
		x    float64
		coin uint64
		want uint32
	}{
		{0.3, 0, 6}, {0.3, (threshold - 1) << 32, 6}, {0.3, threshold << 32, 5}, {0.3, math.MaxUint64, 5},
		{1, 0, 8}, {1, math.MaxUint64, 8}, {-1, 0, 0}, {-1, math.MaxUint64, 0}, {0, 0, 4}, {0.25, 0, 5},
		{7, 0, 8}, {-7, 0, 0}, {math.MaxFloat64, 0, 8}, {-math.MaxFloat64, 0, 0}, {math.SmallestNonzeroFloat64, 0, 4},
		// The fraction may round up to one: the next level, and no coin.
		{math.Nextafter(0.25, 0), 0, 5}, {math.Nextafter(0.25, 0), math.MaxUint64, 5},
	} {
		got, err := e.Encode(nil, []float64{c.x}, constant(c.coin))
		if err != nil || got[0] != c.want {
			t.Errorf("x = %v, coin %#x: level %v, %v; want %d", c.x, c.coin, got, err, c.want)
		}
	}
	// The mean over the coin is 0.3 up to half a unit of 2^-32 levels; the variance of rounding is 0.2*0.8 steps^2 =
	// 0.01.
	up := float64(threshold) / (1 << 32)
	if mean := (5+up)/4 - 1; math.Abs(mean-0.3) > 0x1p-33/4 {
		t.Errorf("mean %v", mean)
	}
	if variance := up * (1 - up) / 16; math.Abs(variance-0.01) > 1e-10 {
		t.Errorf("variance %v", variance)
	}
}

func TestNewCoordinate(t *testing.T) {
	for _, c := range []struct {
		lower, upper, scale float64
		levels              uint32
	}{{-1, 1, 4, 8}, {0, 1, 12.9, 13}, {-0.5, 0.5, 0.35, 1}, {2, 2, 100, 1}, {0, 1, 1, 1},
		{0, math.MaxUint32, 1, math.MaxUint32}} {
		got, err := protocol.NewCoordinate(c.lower, c.upper, c.scale)
		if err != nil || got != (protocol.Coordinate{Offset: c.lower, Levels: c.levels}) {
			t.Errorf("%v to %v at scale %v: %+v, %v; want %d levels", c.lower, c.upper, c.scale, got, err, c.levels)
		}
	}
}

// exactLevel is the level of x in rational arithmetic.
func exactLevel(e protocol.Encoding, j int, x float64) *big.Rat {
	level := new(big.Rat).Sub(new(big.Rat).SetFloat64(x), new(big.Rat).SetFloat64(e.Coordinates[j].Offset))
	level.Mul(level, new(big.Rat).SetFloat64(e.Scale))
	if level.Sign() < 0 {
		return new(big.Rat)
	}
	if top := new(big.Rat).SetInt64(int64(e.Coordinates[j].Levels)); level.Cmp(top) > 0 {
		return top
	}
	return level
}

// meanLevel reads the encoder's mean level off its coin, by bisection: the level it returns for a coin of zero digits,
// minus one, plus the fraction below which the coin comes up. It is exact.
func meanLevel(t fataler, e protocol.Encoding, x []float64, j int) *big.Rat {
	at := func(coin uint64) uint64 {
		levels, err := e.Round(nil, x, constant(coin<<32))
		if err != nil {
			t.Fatalf("%v", err)
		}
		return uint64(levels[j])
	}
	base := at(math.MaxUint32)
	low, high := uint64(0), uint64(1<<32-1) // the least coin that does not come up
	for low < high {
		if mid := (low + high) / 2; at(mid) > base {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return new(big.Rat).Add(new(big.Rat).SetInt(new(big.Int).SetUint64(base)), big.NewRat(int64(low), 1<<32))
}

type fataler interface{ Fatalf(string, ...any) }

// The mean level is within the documented slack of the exact one, for any encoding.
func TestMeanLevelIsExactUpToTheSlack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEncoding(t)
		e.Coordinates = e.Coordinates[:1]
		slack := new(big.Rat).SetFloat64(e.ShiftSlack() / 2)
		x := []float64{drawValue(t, e, 0)}
		got, want := meanLevel(t, e, x, 0), exactLevel(e, 0, x[0])
		if gap := new(big.Rat).Sub(got, want); gap.Abs(gap).Cmp(slack) > 0 {
			t.Fatalf("%+v: x = %v has mean level %v, want %v", e, x[0], got.FloatString(15), want.FloatString(15))
		}
	})
}

func drawEncoding(t *rapid.T) protocol.Encoding {
	e := protocol.Encoding{
		Scale:     math.Exp(rapid.Float64Range(-20, 20).Draw(t, "log scale")),
		NoiseBits: rapid.Uint32Range(0, 300).Draw(t, "noise bits"),
		Bias:      protocol.Bias(rapid.Uint32Range(1, math.MaxUint32).Draw(t, "bias")),
	}
	for range rapid.IntRange(1, 8).Draw(t, "coordinates") {
		levels := rapid.OneOf(rapid.Uint32Range(1, 40), rapid.Uint32Range(1, math.MaxUint32-300)).Draw(t, "levels")
		e.Coordinates = append(e.Coordinates, protocol.Coordinate{
			Offset: rapid.Float64Range(-100, 100).Draw(t, "offset"),
			Levels: levels,
		})
	}
	return e
}

// drawValue draws a value near the range of coordinate j, or any finite number.
func drawValue(t *rapid.T, e protocol.Encoding, j int) float64 {
	c := e.Coordinates[j]
	inside := rapid.Map(rapid.Float64Range(-0.1, 1.1),
		func(u float64) float64 { return c.Offset + u*float64(c.Levels)/e.Scale })
	return rapid.OneOf(inside, inside, inside, rapid.Float64()).Filter(func(x float64) bool {
		return !math.IsInf(x, 0) && !math.IsNaN(x)
	}).Draw(t, "x")
}

// Properties of Encode for any encoding and any vector: ones within the messages, levels within one of the exact value,
// the number of random words independent of the data, and the same stream giving the same ones whatever the
// destination.
func TestEncodeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEncoding(t)
		x, other := make([]float64, len(e.Coordinates)), make([]float64, len(e.Coordinates))
		for j := range x {
			x[j], other[j] = drawValue(t, e, j), drawValue(t, e, j)
		}
		seed := rapid.IntRange(0, 1000).Draw(t, "seed")
		src := &counting{src: seeded("properties", seed)}
		ones, err := e.Encode(nil, x, src)
		if err != nil {
			t.Fatal(err)
		}
		levels, err := e.Round(nil, x, seeded("properties", seed))
		if err != nil {
			t.Fatal(err)
		}
		for j := range ones {
			if int(ones[j]) > e.MessagesAt(j) {
				t.Fatalf("coordinate %d: %d ones of %d messages", j, ones[j], e.MessagesAt(j))
			}
			exact, _ := exactLevel(e, j, x[j]).Float64()
			if math.Abs(float64(levels[j])-exact) > 1+e.ShiftSlack() {
				t.Fatalf("coordinate %d: level %d of exact %v", j, levels[j], exact)
			}
			if noise := int64(ones[j]) - int64(levels[j]); noise < 0 || noise > int64(e.NoiseBits) {
				t.Fatalf("coordinate %d: %d noise bits are one, of %d", j, noise, e.NoiseBits)
			}
		}
		src2 := &counting{src: seeded("properties", seed)}
		dst := make([]uint32, 0, len(x)+3)
		again, err := e.Encode(dst, other, src2)
		if err != nil {
			t.Fatal(err)
		}
		if src.words != src2.words {
			t.Fatalf("%v took %d random words, %v took %d", x, src.words, other, src2.words)
		}
		if &again[0] != &dst[:1][0] {
			t.Fatal("the destination's memory was not used")
		}
	})
}

// Whatever the vector, extremes included, a report has exactly Messages() bits, and MessagesAt(j) for coordinate j.
func TestMessageCountIsConstant(t *testing.T) {
	check := func(t fataler, e protocol.Encoding, x []float64, src protocol.Source) {
		ones, err := e.Encode(nil, x, src)
		if err != nil {
			t.Fatalf("%v", err)
		}
		bits, err := e.AppendBits(nil, ones)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if len(bits) != e.Messages() {
			t.Fatalf("x = %v: %d bits, want %d", x, len(bits), e.Messages())
		}
		counts, messages := make([]uint64, len(x)), make([]int, len(x))
		if err := protocol.Count(counts, bits); err != nil {
			t.Fatalf("%v", err)
		}
		for _, bit := range bits {
			messages[bit.Coordinate]++
		}
		for j := range x {
			if messages[j] != e.MessagesAt(j) || counts[j] != uint64(ones[j]) {
				t.Fatalf("x = %v, coordinate %d: %d of %d bits are ones, want %d of %d",
					x, j, counts[j], messages[j], ones[j], e.MessagesAt(j))
			}
		}
	}
	e := protocol.Encoding{Scale: 4, NoiseBits: 3, Bias: protocol.BiasHalf,
		Coordinates: []protocol.Coordinate{{Offset: -1, Levels: 8}, {Offset: 0, Levels: 3}, {Offset: -0.5, Levels: 1}}}
	extremes := []float64{-math.MaxFloat64, -1, -0.5, math.Copysign(0, -1), 0, math.SmallestNonzeroFloat64, 0.3, 1,
		1 + 1e-15, math.MaxFloat64}
	for _, a := range extremes {
		for _, b := range extremes {
			for _, word := range []uint64{0, math.MaxUint64, 0xaaaaaaaaaaaaaaaa} {
				check(t, e, []float64{a, b, a}, constant(word))
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		e := drawEncoding(t)
		x := make([]float64, len(e.Coordinates))
		for j := range x {
			e.Coordinates[j].Levels = e.Coordinates[j].Levels%50 + 1
			x[j] = drawValue(t, e, j)
		}
		check(t, e, x, seeded("messages", 0))
	})
}

func TestEncodeRefuses(t *testing.T) {
	good := uniform(2, -1, 1, 4, 3, protocol.BiasHalf)
	for _, x := range [][]float64{nil, {}, {1}, {1, 2, 3}, {math.NaN(), 0}, {0, math.Inf(1)}, {math.Inf(-1), 0}} {
		src := &counting{src: seeded("refuses", 0)}
		if ones, err := good.Encode(nil, x, src); !errors.Is(err, protocol.ErrVector) || ones != nil || src.words != 0 {
			t.Errorf("Encode(%v) = %v, %v after %d random words; want ErrVector and none", x, ones, err, src.words)
		}
	}
	// 8 levels and 3 noise bits
	for _, ones := range [][]uint32{nil, {1}, {1, 2, 3}, {12, 0}, {0, 12}, {0, math.MaxUint32}} {
		if bits, err := good.AppendBits(nil, ones); !errors.Is(err, protocol.ErrCounts) || len(bits) != 0 {
			t.Errorf("AppendBits(%v) = %v, %v; want ErrCounts and no bits", ones, bits, err)
		}
	}
	change := func(f func(*protocol.Encoding)) protocol.Encoding {
		e := uniform(2, -1, 1, 4, 3, protocol.BiasHalf)
		f(&e)
		return e
	}
	for name, e := range map[string]protocol.Encoding{
		"zero":          {},
		"scale 0":       change(func(e *protocol.Encoding) { e.Scale = 0 }),
		"scale -1":      change(func(e *protocol.Encoding) { e.Scale = -1 }),
		"scale NaN":     change(func(e *protocol.Encoding) { e.Scale = math.NaN() }),
		"scale Inf":     change(func(e *protocol.Encoding) { e.Scale = math.Inf(1) }),
		"scale tiny":    change(func(e *protocol.Encoding) { e.Scale = 1e-300 }),
		"offset NaN":    change(func(e *protocol.Encoding) { e.Coordinates[1].Offset = math.NaN() }),
		"offset -Inf":   change(func(e *protocol.Encoding) { e.Coordinates[0].Offset = math.Inf(-1) }),
		"no levels":     change(func(e *protocol.Encoding) { e.Coordinates[1].Levels = 0 }),
		"noise, bias 0": change(func(e *protocol.Encoding) { e.Bias = 0 }),
		"too many":      change(func(e *protocol.Encoding) { e.Coordinates[0].Levels = math.MaxUint32 }),
		"no coordinate": change(func(e *protocol.Encoding) { e.Coordinates = nil }),
	} {
		x := make([]float64, len(e.Coordinates))
		counts := make([]uint64, len(e.Coordinates))
		_, err := e.Encode(nil, x, seeded("refuses", 0))
		_, err2 := e.Decode(counts, 1, 0)
		_, err3 := e.AppendBits(nil, make([]uint32, len(x)))
		err4 := e.AddNoise(counts, 1, seeded("refuses", 0))
		for _, err := range []error{e.Validate(), err, err2, err3, err4} {
			if !errors.Is(err, protocol.ErrEncoding) {
				t.Errorf("%s: %v, want ErrEncoding", name, err)
			}
		}
	}
	for _, c := range [][3]float64{{1, 0, 1}, {0, 1, 0}, {0, 1, math.NaN()}, {math.NaN(), 1, 1}, {0, math.Inf(1), 1},
		{0, 1e10, 1}, {-1e200, 1, 1e-99}} {
		if got, err := protocol.NewCoordinate(c[0], c[1], c[2]); !errors.Is(err, protocol.ErrEncoding) {
			t.Errorf("NewCoordinate%v = %v, %v; want ErrEncoding", c, got, err)
		}
	}
	// Messages of a device that would have to be allocated: refused, not attempted.
	huge := uniform(1, 0, 1<<30, 1, 0, protocol.BiasHalf)
	if _, err := huge.AppendBits(nil, []uint32{0}); !errors.Is(err, protocol.ErrEncoding) {
		t.Errorf("AppendBits of %d messages: %v", huge.Messages(), err)
	}
}

package protocol_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

var update = flag.Bool("update", false, "rewrite testdata/encode.json (only after a deliberate change of the encoding)")

// golden is one known answer: these vectors, encoded one after the other from one ChaCha8 stream (c2sp.org/chacha8rand)
// with this seed, give these ones; their sum, counted and decoded, gives these numbers, bit for bit.
type golden struct {
	Name     string            `json:"name"`
	Seed     string            `json:"seed"` // 32 bytes, hexadecimal
	Encoding protocol.Encoding `json:"encoding"`
	Vectors  [][]float64       `json:"vectors"`
	Ones     [][]uint32        `json:"ones"`
	Decoded  []float64         `json:"decoded"`
}

func goldenInputs() []golden {
	ranges := []protocol.Coordinate{{Offset: 0, Levels: 13}, {Offset: -0.7071067811865475, Levels: 19},
		{Offset: 0, Levels: 13}}
	encoding := func(scale float64, noiseBits uint32, bias protocol.Bias, cs ...protocol.Coordinate) protocol.Encoding {
		return protocol.Encoding{Scale: scale, Coordinates: cs, NoiseBits: noiseBits, Bias: bias}
	}
	inside := [][]float64{{0, 0, 0}, {0.36, 0.6788225099390856, 0.64}, {1, 0, 0}, {0.25, -0.35355339059327373, 0.25}}
	outside := [][]float64{{-1, 2, 1e300}, {0.5, -5, 0}}
	return []golden{
		{Name: "outer product, p = 1/2", Encoding: encoding(12.9, 6, protocol.BiasHalf, ranges...), Vectors: inside},
		{Name: "outer product, p = 1/4", Encoding: encoding(12.9, 9, protocol.BiasQuarter, ranges...), Vectors: inside},
		{Name: "clamped, p = 1/3", Encoding: encoding(12.9, 200, 1431655765, ranges...), Vectors: outside},
		{Name: "less than one level per unit", Vectors: [][]float64{{1, -1}, {0.1, 0.2}, {0.3, -0.4}},
			Encoding: encoding(0.35, 65, protocol.BiasHalf, protocol.Coordinate{Offset: -1, Levels: 1},
				protocol.Coordinate{Offset: -1, Levels: 1})},
		{Name: "no noise", Vectors: [][]float64{{0.1}, {1.0 / 3}, {-0.9}},
			Encoding: encoding(1<<19, 0, 0, protocol.Coordinate{Offset: -1, Levels: 1 << 20})},
	}
}

func answer(t *testing.T, g golden) golden {
	var seed [32]byte
	raw, err := hex.DecodeString(g.Seed)
	if err != nil || copy(seed[:], raw) != 32 {
		t.Fatalf("%s: seed %q: %v", g.Name, g.Seed, err)
	}
	src := rand.NewChaCha8(seed)
	counts := make([]uint64, len(g.Encoding.Coordinates))
	g.Ones = nil
	for _, x := range g.Vectors {
		ones, err := g.Encoding.Encode(nil, x, src)
		if err != nil {
			t.Fatal(err)
		}
		g.Ones = append(g.Ones, ones)
		bits, err := g.Encoding.AppendBits(nil, ones)
		if err != nil {
			t.Fatal(err)
		}
		if err := protocol.Count(counts, bits); err != nil {
			t.Fatal(err)
		}
	}
	if g.Decoded, err = g.Encoding.Decode(counts, uint64(len(g.Vectors)), 0); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGolden(t *testing.T) {
	const file = "testdata/encode.json"
	if *update {
		var all []golden
		for i, g := range goldenInputs() {
			g.Seed = hex.EncodeToString(bytes.Repeat([]byte{byte(i), 0x52}, 16))
			all = append(all, answer(t, g))
		}
		text, err := json.MarshalIndent(all, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != len(goldenInputs()) {
		t.Fatalf("%d golden answers for %d inputs; run with -update", len(all), len(goldenInputs()))
	}
	for _, want := range all {
		got := answer(t, want)
		if !slices.EqualFunc(got.Ones, want.Ones, slices.Equal[[]uint32]) {
			t.Errorf("%s: ones %v, want %v", want.Name, got.Ones, want.Ones)
		}
		if !slices.Equal(got.Decoded, want.Decoded) {
			t.Errorf("%s: decoded %v, want %v", want.Name, got.Decoded, want.Decoded)
		}
	}
}

package protocol_test

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

type shuffler func(items []int, src protocol.Source)

func permute(items []int, src protocol.Source) { protocol.Permute(items, src) }

// testPermutations shuffles n items many times and compares the counts of all n! orders with the uniform law.
func testPermutations(shuffle shuffler, n, shuffles int, src protocol.Source) float64 {
	orders := 1
	for i := 2; i <= n; i++ {
		orders *= i
	}
	seen, expected := make([]int, orders), make([]float64, orders)
	for i := range expected {
		expected[i] = float64(shuffles) / float64(orders)
	}
	items := make([]int, n)
	for range shuffles {
		for i := range items {
			items[i] = i
		}
		shuffle(items, src)
		rank := 0 // Lehmer code
		for i, a := range items {
			smaller := 0
			for _, b := range items[i+1:] {
				if b < a {
					smaller++
				}
			}
			rank = rank*(n-i) + smaller
		}
		seen[rank]++
	}
	return chiSquare(seen, expected)
}

// testPositions shuffles n items many times and compares how often item i comes to position j with the uniform law: the
// sum over all i, j of (seen-expected)^2/expected times (n-1)/n is chi-square with (n-1)^2 degrees of freedom.
func testPositions(shuffle shuffler, n, shuffles int, src protocol.Source) float64 {
	seen := make([]int, n*n)
	items := make([]int, n)
	for range shuffles {
		for i := range items {
			items[i] = i
		}
		shuffle(items, src)
		for j, i := range items {
			seen[i*n+j]++
		}
	}
	expected := float64(shuffles) / float64(n)
	var statistic float64
	for _, count := range seen {
		gap := float64(count) - expected
		statistic += gap * gap / expected
	}
	return chiSquareSurvival(statistic*float64(n-1)/float64(n), (n-1)*(n-1))
}

// testShuffle is both tests for several sizes, as one p-value.
func testShuffle(shuffle shuffler, src protocol.Source) (float64, string) {
	return worst([]finding{
		{"orders of 2", testPermutations(shuffle, 2, 200_000, src)},
		{"orders of 3", testPermutations(shuffle, 3, 200_000, src)},
		{"orders of 5", testPermutations(shuffle, 5, 400_000, src)},
		{"orders of 6", testPermutations(shuffle, 6, 400_000, src)},
		{"positions of 60", testPositions(shuffle, 60, 50_000, src)},
	})
}

// False alarm 1e-6 (Bonferroni over five chi-square tests). Power: TestBiasedShufflesAreCaught.
func TestPermuteIsUniform(t *testing.T) {
	statistical(t)
	for seed := range 2 {
		if p, name := testShuffle(permute, seeded("permute", seed)); p < falseAlarm {
			t.Errorf("seed %d: rejected by %s", seed, name)
		}
	}
}

// The same test at the same threshold rejects planted faults, with p below 1e-9.
func TestBiasedShufflesAreCaught(t *testing.T) {
	statistical(t)
	fisherYates := func(draw func(n uint64, src protocol.Source) uint64) shuffler {
		return func(items []int, src protocol.Source) {
			for i := len(items) - 1; i > 0; i-- {
				j := draw(uint64(i)+1, src)
				items[i], items[j] = items[j], items[i]
			}
		}
	}
	exact := func(n uint64, src protocol.Source) uint64 { return rand.New(src).Uint64N(n) }
	for name, shuffle := range map[string]shuffler{
		"any position at every step": func(items []int, src protocol.Source) {
			for i := range items {
				j := exact(uint64(len(items)), src)
				items[i], items[j] = items[j], items[i]
			}
		},
		"never itself (one cycle)": func(items []int, src protocol.Source) {
			for i := len(items) - 1; i > 0; i-- {
				j := exact(uint64(i), src)
				items[i], items[j] = items[j], items[i]
			}
		},
		"remainder of 6 random bits": fisherYates(func(n uint64, src protocol.Source) uint64 {
			return src.Uint64() >> 58 % n
		}),
		"8-bit draws without rejection": fisherYates(func(n uint64, src protocol.Source) uint64 {
			high, _ := bits.Mul64(src.Uint64()>>56<<56, n)
			return high
		}),
		"first item left out": func(items []int, src protocol.Source) { permute(items[1:], src) },
		"a rotation only": func(items []int, src protocol.Source) {
			k := int(exact(uint64(len(items)), src))
			slices.Reverse(items[:k])
			slices.Reverse(items[k:])
			slices.Reverse(items)
		},
		"left alone one time in 100": func(items []int, src protocol.Source) {
			if exact(100, src) != 0 {
				permute(items, src)
			}
		},
	} {
		if p, _ := testShuffle(shuffle, seeded(name, 0)); p >= 1e-9 {
			t.Errorf("%s: p = %.3g, not rejected", name, p)
		}
	}
}

func TestPermuteKeepsItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOf(rapid.Byte()).Draw(t, "items")
		shuffled := slices.Clone(items)
		protocol.Permute(shuffled, seeded("keeps", len(items)))
		slices.Sort(items)
		slices.Sort(shuffled)
		if !slices.Equal(items, shuffled) {
			t.Fatalf("%v became %v", items, shuffled)
		}
	})
	protocol.Permute([]int(nil), constant(0))
	protocol.Permute([]int{1}, constant(0))
}

// stubborn returns one word so many times, then another.
type stubborn struct {
	first, then uint64
	times       int
}

func (s *stubborn) Uint64() uint64 {
	if s.times > 0 {
		s.times--
		return s.first
	}
	return s.then
}

// Draws that would make some values likelier are rejected: for 3 items the word 0 is one too many for the first value.
func TestPermuteRejectsTheSurplusDraw(t *testing.T) {
	a, b := []int{0, 1, 2}, []int{0, 1, 2}
	src := &stubborn{first: 0, then: 1 << 63, times: 4}
	protocol.Permute(a, src)
	protocol.Permute(b, constant(1<<63))
	if !slices.Equal(a, b) || src.times != 0 {
		t.Errorf("word 0 was accepted: %v, want %v; %d left", a, b, src.times)
	}
}

// Buckets are drawn uniformly, by chi-square, and two items in a row independently. False alarm 1e-6 for each number of
// buckets. The same draws by the remainder of six bits, or the same bucket for two items, are caught with p below 1e-9.
func TestBucketsAreDrawnUniformly(t *testing.T) {
	statistical(t)
	const items = 400_000
	test := func(buckets int, draw func(of []uint32)) float64 {
		of, seen, expected := make([]uint32, items), make([]int, buckets*buckets), make([]float64, buckets*buckets)
		draw(of)
		for i := 0; i < items; i += 2 {
			seen[int(of[i])*buckets+int(of[i+1])]++
		}
		for i := range expected {
			expected[i] = items / 2 / float64(buckets*buckets)
		}
		return chiSquare(seen, expected)
	}
	for _, buckets := range []int{2, 3, 7, 60} {
		src := seeded("buckets", buckets)
		if p := test(buckets, func(of []uint32) { protocol.Buckets(of, buckets, src) }); p < falseAlarm {
			t.Errorf("%d buckets: p = %.3g", buckets, p)
		}
		p := test(buckets, func(of []uint32) {
			for i := range of {
				of[i] = uint32(src.Uint64() >> 58 % uint64(buckets))
			}
		})
		if buckets != 2 && p >= 1e-9 {
			t.Errorf("%d buckets by remainders: p = %.3g, not rejected", buckets, p)
		}
		p = test(buckets, func(of []uint32) {
			for i := 0; i < len(of); i += 2 {
				protocol.Buckets(of[i:i+1], buckets, src)
				of[i+1] = of[i]
			}
		})
		if p >= 1e-9 {
			t.Errorf("%d buckets, one for two: p = %.3g, not rejected", buckets, p)
		}
	}
}

package protocol_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// One report of the practical profile in five dimensions: outer product and gradient, and room for more (35
// coordinates).
func BenchmarkEncode(b *testing.B) {
	for _, c := range []struct {
		name      string
		noiseBits uint32
		bias      protocol.Bias
	}{{"half", 6, protocol.BiasHalf}, {"quarter", 9, protocol.BiasQuarter}, {"third", 8, 1431655765},
		{"half-1000bits", 1000, protocol.BiasHalf}} {
		b.Run(c.name, func(b *testing.B) {
			e := uniform(35, -1, 1, 6.5, c.noiseBits, c.bias)
			x := make([]float64, 35)
			for j := range x {
				x[j] = float64(j%7)/3.5 - 1
			}
			src := seeded("bench", 0)
			ones := make([]uint32, 35)
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if ones, err = e.Encode(ones, x, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendBits(b *testing.B) {
	e := uniform(35, -1, 1, 6.5, 6, protocol.BiasHalf)
	ones := make([]uint32, 35)
	var bits []protocol.Bit
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if bits, err = e.AppendBits(bits[:0], ones); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(e.Messages())/b.Elapsed().Seconds()/1e6, "Mbit/s")
}

func BenchmarkCount(b *testing.B) {
	e := uniform(35, -1, 1, 6.5, 6, protocol.BiasHalf)
	bits, err := e.AppendBits(nil, make([]uint32, 35))
	if err != nil {
		b.Fatal(err)
	}
	protocol.Permute(bits, seeded("bench", 1))
	ones := make([]uint64, 35)
	for b.Loop() {
		if err := protocol.Count(ones, bits); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(bits))/b.Elapsed().Seconds()/1e6, "Mbit/s")
}

// Permute against a plain copy of the same records in order, taken in the same run.
func BenchmarkPermute(b *testing.B) {
	type record [50]byte
	for _, n := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			records, to := make([]record, n), make([]record, n)
			src := seeded("bench", 2)
			var copying time.Duration
			for b.Loop() {
				protocol.Permute(records, src)
				b.StopTimer()
				start := time.Now()
				copy(to, records)
				copying += time.Since(start)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
			b.ReportMetric(b.Elapsed().Seconds()/copying.Seconds(), "x-copy")
		})
	}
}

func BenchmarkBinomial(b *testing.B) {
	for _, n := range []uint64{6, 64, 12_000, 1_000_000, 1_000_000_000} {
		for _, bias := range []protocol.Bias{protocol.BiasHalf, protocol.BiasQuarter, 1503238553} {
			b.Run(fmt.Sprintf("%d/%.2f", n, bias.Float()), func(b *testing.B) {
				src := rand.NewChaCha8([32]byte{1})
				for b.Loop() {
					protocol.Binomial(n, bias, src)
				}
			})
		}
	}
}

package envelope

import (
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// BenchmarkAppend makes envelopes of 20 entries, and BenchmarkOpen opens them.
func BenchmarkAppend(b *testing.B) {
	x := twenty(b)
	d, err := NewDevice(x.a, x.digest)
	x.must(err)
	vectors, src := [][]float64{make([]float64, 20)}, rand.NewChaCha8([32]byte{})
	for b.Loop() {
		if _, err := d.Append(nil, x.by, vectors, src); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(d.Size()), "B/envelope")
}

func BenchmarkOpen(b *testing.B) {
	x := twenty(b)
	envelope := x.envelope(1, [][]float64{make([]float64, 20)})
	o := x.opener()
	for b.Loop() {
		if _, _, err := o.Open(nil, envelope); err != nil {
			b.Fatal(err)
		}
	}
}

func twenty(t testing.TB) *fixture {
	x := newFixture(t, plan.Central)
	e := protocol.Encoding{Scale: 4, Bias: protocol.BiasHalf}
	for range 20 {
		e.Coordinates = append(e.Coordinates, protocol.Coordinate{Offset: -1, Levels: 8})
	}
	x.a.Encodings = []protocol.Encoding{e}
	return x
}

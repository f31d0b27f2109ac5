package shuffle

import (
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// BenchmarkExchange is what it costs to gather and to mix a bit message, without the broker and without opening
// envelopes, with one task after another. The metric "copies" is how many times a message could be copied in memory
// meanwhile.
func BenchmarkExchange(b *testing.B) {
	const members, each = 2000, 150
	x := newExchange(b, 1, 1, 1)
	x.release.Layout.Messages, x.release.Members = each, nil
	src := x.source()
	for slot := range uint32(members) {
		x.release.Members = append(x.release.Members, channel.Member{Slot: slot, Sequence: uint64(slot) + 1})
		x.payload[slot] = draw(make([]byte, each*56), src)[:each*seal.BitSize]
	}
	x.begin(4, 1000)
	x.Mixing.Chunk = 0
	for b.Loop() {
		clear(x.chunks)
		_, err := x.leave()
		x.must(err)
		x.must(x.Forget(1, 0))
	}
	took := b.Elapsed() / time.Duration(b.N)
	from, to := make([]byte, members*each*seal.BitSize), make([]byte, members*each*seal.BitSize)
	begun := time.Now()
	copy(to, from)
	copied := time.Since(begun)
	b.ReportMetric(float64(members*each)/took.Seconds(), "messages/s")
	b.ReportMetric(float64(took)/float64(copied), "copies")
}

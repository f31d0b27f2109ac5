package chunks

import (
	"crypto/sha256"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// BenchmarkReceive is what the process that leads does for each bit message, where workers open it: its digest, its
// place among all digests, and its leaf under the root. The bound are the hashes of that alone: of the message twice,
// since the chunk has a digest too, and two for the tree.
func BenchmarkReceive(b *testing.B) {
	const chunks = 20
	src, all := rand.NewChaCha8([32]byte{1}), [][]byte{}
	for i := range uint32(chunks) {
		messages := make([]byte, each*seal.BitSize)
		src.Read(messages)
		chunk, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Index: i, Payload: messages})
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, chunk)
	}
	store, err := spill.New(b.TempDir(), 0)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	c := &Receiver[[]byte]{Store: &testbed.Chunks{}, Spill: store, Clock: role.SystemClock(), Log: zerolog.Nop()}
	of := &channel.Round{Announcement: &plan.Announcement{
		Epoch: 1, Cohort: plan.Cohort{Size: chunks}, Plan: plan.Plan{Channel: plan.Shuffle},
		Encodings: []protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: each}}}},
	}}
	b.ReportAllocs()
	for b.Loop() {
		r, end := c.Begin(b.Context(), of, Opening[[]byte]{
			Size: seal.BitSize, Open: func([]byte) []byte { return nil },
		})
		for _, chunk := range all {
			c.Take(channel.Part{Epoch: 1, Payload: chunk})
		}
		if _, sent, err := r.Named(&wire.Manifest{Chunks: chunks}); err != nil || sent.Root == nil {
			b.Fatal(err)
		}
		end()
	}
	perMessage := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / chunks / each
	begin := time.Now()
	for _, chunk := range all {
		for at := 0; at+seal.BitSize <= len(chunk); at += seal.BitSize {
			digest := sha256.Sum256(chunk[at : at+seal.BitSize])
			leaf := sha256.Sum256(digest[:])
			sha256.Sum256(append(digest[:], leaf[:]...))
		}
		sha256.Sum256(chunk)
	}
	bound := float64(time.Since(begin).Nanoseconds()) / chunks / each
	b.ReportMetric(perMessage, "ns/message")
	b.ReportMetric(perMessage/bound, "times-hashing")
}

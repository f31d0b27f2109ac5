package shuffle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math/bits"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// table is one round whose messages a test makes by hand.
type table struct {
	t      *testing.T
	stored testbed.Chunks
	round  *channel.Round
	Counting
}

const people = 4

func newTable(t *testing.T) *table {
	t.Helper()
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	a := &plan.Announcement{
		Epoch: 1, AnalyzerKey: key.Public(), Cohort: plan.Cohort{Size: people, Minimum: people},
		Plan: plan.Plan{
			Channel: plan.Shuffle,
			Rounds:  []plan.Round{{Releases: []plan.Release{{Bias: protocol.BiasHalf}}}},
		},
		Encodings: []protocol.Encoding{{Coordinates: []protocol.Coordinate{{Levels: 1}, {Levels: 2}}, NoiseBits: 3}},
	}
	x := &table{t: t, round: &channel.Round{Announcement: a, Digest: [32]byte{1}, Key: key}}
	x.Counting = Counting{
		Receiver: chunks.Receiver[tally]{
			Store: &x.stored, Spill: spilt(t), Clock: role.SystemClock(), Log: zerolog.Nop(),
		},
	}
	return x
}

// spilt is a store of little memory.
func spilt(t testing.TB) *spill.Store {
	t.Helper()
	s, err := spill.New(t.TempDir(), 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// report is one report's messages, all ones.
func (x *table) report() (messages []byte) {
	x.t.Helper()
	sealer, err := seal.NewBitSealer(x.round.AnalyzerKey, x.round.Digest)
	if err != nil {
		x.t.Fatal(err)
	}
	for j := range x.round.Encodings[0].Coordinates {
		for range x.round.Encodings[0].MessagesAt(j) {
			if messages, err = sealer.AppendSeal(messages, 0, uint16(j), true); err != nil {
				x.t.Fatal(err)
			}
		}
	}
	return messages
}

// reports are the messages of honest people, all different.
func (x *table) reports() (messages []byte) {
	for range people {
		messages = append(messages, x.report()...)
	}
	return messages
}

func (x *table) chunk(index uint32, messages []byte) []byte {
	x.t.Helper()
	c, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Index: index, Payload: messages})
	if err != nil {
		x.t.Fatal(err)
	}
	return c
}

// cut makes chunks of one report's length, and the manifest that names them.
func (x *table) cut(messages []byte) (parts [][]byte, m *wire.Manifest) {
	x.t.Helper()
	size := x.round.ReportMessages() * seal.BitSize
	var digests [][32]byte
	for at := 0; at < len(messages); at += size {
		parts = append(parts, x.chunk(uint32(len(parts)), messages[at:at+size]))
		digests = append(digests, wire.ChunkDigest(parts[len(parts)-1]))
	}
	all, root := wire.ChunksDigest(digests), rootOf(messages, seal.BitSize)
	return parts, &wire.Manifest{
		Epoch: 1, Announcement: x.round.Digest[:], Reports: people, Messages: uint64(len(messages) / seal.BitSize),
		Chunks: uint32(len(parts)), ChunksDigest: all[:], MessagesRoot: root[:],
	}
}

// rootOf is a manifest's root over messages of this size, from the definition: a Merkle tree as of RFC 6962 over sorted
// digests.
func rootOf(messages []byte, size int) [32]byte {
	var leaves [][32]byte
	for message := range slices.Chunk(messages, size) {
		leaves = append(leaves, sha256.Sum256(message))
	}
	slices.SortFunc(leaves, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	var tree func(leaves [][32]byte) [32]byte
	tree = func(leaves [][32]byte) [32]byte {
		if len(leaves) == 1 {
			return sha256.Sum256(append([]byte{0}, leaves[0][:]...))
		}
		left := 1 << (bits.Len(uint(len(leaves)-1)) - 1)
		a, b := tree(leaves[:left]), tree(leaves[left:])
		return sha256.Sum256(slices.Concat([]byte{1}, a[:], b[:]))
	}
	return tree(leaves)
}

// count counts the round. meanwhile runs after Count asked for the manifest.
func (x *table) count(m *wire.Manifest, meanwhile func()) ([]wire.ReleaseCounts, error) {
	x.t.Helper()
	return x.Count(x.t.Context(), x.round, manifestAfter(m, meanwhile))
}

func manifestAfter(m *wire.Manifest, meanwhile func()) channel.Manifest {
	return func(context.Context) (*wire.Manifest, error) {
		meanwhile()
		return m, nil
	}
}

func (x *table) take(parts ...[]byte) {
	for _, c := range parts {
		x.Take(channel.Part{Epoch: 1, Payload: c})
	}
}

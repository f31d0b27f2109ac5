package shuffle

import (
	"crypto/aes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// chosen gives some words before it goes on with random ones.
type chosen struct {
	words []uint64
	then  protocol.Source
}

func (c *chosen) Uint64() uint64 {
	if len(c.words) > 0 {
		word := c.words[0]
		c.words = c.words[1:]
		return word
	}
	return c.then.Uint64()
}

// Two messages with one keyed digest and different public keys exclude nobody. Here the key of the digest is known, so
// that such keys can be made.
func TestEqualDigestsAreNoRepetition(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	f.Source = &chosen{make([]uint64, 4), entropy.New()}
	block, err := aes.NewCipher(make([]byte, 32))
	f.must(err)
	one, other := f.reports[2][:seal.BitSize], f.reports[7][seal.BitSize:2*seal.BitSize]
	var a, b [aes.BlockSize]byte
	block.Encrypt(a[:], one)
	block.Encrypt(b[:], other)
	for i := range a {
		other[aes.BlockSize+i] = one[aes.BlockSize+i] ^ a[i] ^ b[i]
	}
	d := &digester{block: block}
	if d.digest(one) != d.digest(other) {
		t.Fatal("the digests differ")
	}
	slots, err := f.Repeated(t.Context(), f.release)
	f.must(err)
	if len(slots) != 0 {
		t.Errorf("slots %v are excluded", slots)
	}
	copy(f.reports[5], one) // and a repetition between them is still found
	f.must(f.Forget(1, 0))
	f.Source = &chosen{make([]uint64, 4), entropy.New()}
	slots, err = f.Repeated(t.Context(), f.release)
	f.must(err)
	if !slices.Equal(slots, []uint32{2, 5}) {
		t.Errorf("slots %v are excluded", slots)
	}
}

// Repetitions are found wherever the sorted messages are cut into pieces: all messages of 3000 are there twice, but
// for 45, which move half of the pairs across the ends of the pieces.
func TestRepetitionsAreFoundAcrossPieces(t *testing.T) {
	t.Parallel()
	const reports, alone = 3000, 45
	store, err := spill.New(t.TempDir(), 8<<20) // in which all are sorted at a time
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	m := &Mixing{Chunks: dropped{}, Disk: new(inMemory), Store: store, Source: rand.NewChaCha8([32]byte{6})}
	r := &channel.Release{Epoch: 1, Layout: channel.Layout{Messages: 1}, Announced: &plan.Announcement{Final: true}}
	payload, source := make([]byte, seal.BitSize), rand.NewChaCha8([32]byte{7})
	for i := range reports {
		if i < alone || i%2 == alone%2 {
			source.Read(payload)
		}
		r.Members = append(r.Members, channel.Member{Slot: uint32(i), Sequence: uint64(i)})
		if err := m.Take(1, 0, r.Members[i], payload); err != nil {
			t.Fatal(err)
		}
	}
	slots, err := m.Repeated(t.Context(), r)
	// The last report may be without its pair, as its number has it.
	if want := (reports - alone) / 2 * 2; err != nil || len(slots) != want || slots[0] != alone {
		t.Errorf("%d slots, want %d; %v", len(slots), want, err)
	}
}

package retained_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit/retained"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func key(t *testing.T, b byte) *seal.HPKEKey {
	t.Helper()
	k, err := seal.NewHPKEKey(bytes.Repeat([]byte{b}, seal.HPKEKeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// shuffled is an announcement of the channel shuffle.
var shuffled = &plan.Announcement{Plan: plan.Plan{Channel: plan.Shuffle}}

// chunk is a chunk of round 1 of epoch 2 with n bit messages, which all hold the byte fill.
func chunk(t *testing.T, index uint32, n int, fill byte) []byte {
	t.Helper()
	b, err := wire.BuildChunk(wire.Chunk{Epoch: 2, Round: 1, Index: index,
		Payload: bytes.Repeat([]byte{fill}, n*seal.BitSize)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// manifest names these chunks, which hold that many messages.
func manifest(messages uint64, chunks ...[]byte) *wire.Manifest {
	var digests [][32]byte
	for _, c := range chunks {
		digests = append(digests, wire.ChunkDigest(c))
	}
	all := wire.ChunksDigest(digests)
	return &wire.Manifest{Deployment: "clinic", Epoch: 2, Round: 1, Outcome: wire.Released, Messages: messages,
		Chunks: uint32(len(chunks)), ChunksDigest: all[:]}
}

// An auditor whose key was rotated opens what was sealed to the older one, in its own place only.
func TestOpenTriesEveryKey(t *testing.T) {
	older, newer := key(t, 1), key(t, 2)
	place := seal.RetainedContext{Deployment: "clinic", Epoch: 2, Round: 1, Index: 3}
	sealed, err := seal.SealRetained(older.Public(), place, []byte("chunk"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := retained.Open(sealed, []*seal.HPKEKey{newer, older}, place)
	if err != nil || string(got) != "chunk" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := retained.Open(sealed, []*seal.HPKEKey{newer}, place); !errors.Is(err, retained.ErrKey) {
		t.Errorf("without the older key: %v", err)
	}
	place.Index++
	if _, err := retained.Open(sealed, []*seal.HPKEKey{newer, older}, place); !errors.Is(err, retained.ErrKey) {
		t.Errorf("in another place: %v", err)
	}
}

// What was forwarded, whole and in whatever order it is read, is what the manifest names, and gives back every message.
func TestAWholeReleaseIsTheManifests(t *testing.T) {
	chunks := [][]byte{chunk(t, 0, 3, 'a'), chunk(t, 1, 3, 'b'), chunk(t, 2, 1, 'c')}
	for _, order := range [][]uint32{{0, 1, 2}, {2, 0, 1}} {
		r, err := retained.NewRelease(manifest(7, chunks...), shuffled)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for _, i := range order {
			messages, err := r.Add(i, chunks[i])
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range messages {
				if len(m) != seal.BitSize {
					t.Errorf("a message of %d bytes", len(m))
				}
				got = append(got, m[0])
			}
		}
		slices.Sort(got)
		if err := r.Check(); err != nil || string(got) != "aaabbbc" {
			t.Errorf("order %v: %q, %v", order, got, err)
		}
	}
}

// Whatever differs from what the manifest names is found: a message that is exchanged, dropped or added, a chunk that
// is missing, twice, beyond the last one, or of another place.
func TestWhatDiffersFromTheManifestIsFound(t *testing.T) {
	a, b := chunk(t, 0, 3, 'a'), chunk(t, 1, 3, 'b')
	named := func() *wire.Manifest { return manifest(6, a, b) }
	elsewhere, err := wire.BuildChunk(wire.Chunk{Epoch: 2, Round: 2, Index: 1, Payload: make([]byte, seal.BitSize)})
	if err != nil {
		t.Fatal(err)
	}
	odd, err := wire.BuildChunk(wire.Chunk{Epoch: 2, Round: 1, Index: 1, Payload: make([]byte, seal.BitSize+1)})
	if err != nil {
		t.Fatal(err)
	}
	type added struct {
		index uint32
		chunk []byte
	}
	for name, c := range map[string]struct {
		manifest *wire.Manifest
		added    []added
		want     error
	}{
		"exchanged":        {named(), []added{{0, a}, {1, chunk(t, 1, 3, 'x')}}, retained.ErrDiffers},
		"dropped":          {named(), []added{{0, a}, {1, chunk(t, 1, 2, 'b')}}, retained.ErrDiffers},
		"added":            {named(), []added{{0, a}, {1, chunk(t, 1, 4, 'b')}}, retained.ErrDiffers},
		"miscounted":       {manifest(7, a, b), []added{{0, a}, {1, b}}, retained.ErrDiffers},
		"missing":          {named(), []added{{1, b}}, retained.ErrMissing},
		"nothing":          {named(), nil, retained.ErrMissing},
		"twice":            {named(), []added{{0, a}, {0, a}}, retained.ErrDiffers},
		"too many":         {named(), []added{{2, chunk(t, 2, 1, 'c')}}, retained.ErrDiffers},
		"another index":    {named(), []added{{1, a}}, retained.ErrDiffers},
		"another round":    {named(), []added{{1, elsewhere}}, retained.ErrDiffers},
		"half a message":   {named(), []added{{1, odd}}, retained.ErrDiffers},
		"not a chunk":      {named(), []added{{1, []byte("x")}}, wire.ErrMalformed},
		"endless manifest": {endless(named()), []added{{0, a}, {1, b}}, retained.ErrMissing},
	} {
		r, err := retained.NewRelease(c.manifest, shuffled)
		for _, part := range c.added {
			if err == nil {
				_, err = r.Add(part.index, part.chunk)
			}
		}
		if err == nil {
			err = r.Check()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// endless says that more chunks were forwarded than any memory holds.
func endless(m *wire.Manifest) *wire.Manifest {
	m.Chunks = 1<<32 - 1
	return m
}

// Of a destroyed round nothing left, and shares forward no messages.
func TestOnlyReleasesOfMessagesAreRetained(t *testing.T) {
	destroyed := manifest(0)
	destroyed.Outcome = wire.Destroyed
	if _, err := retained.NewRelease(destroyed, shuffled); err == nil {
		t.Error("a destroyed round")
	}
	shares := &plan.Announcement{Plan: plan.Plan{Channel: plan.Shares}}
	if _, err := retained.NewRelease(manifest(1), shares); err == nil {
		t.Error("shares")
	}
}

func ExamplePath() {
	fmt.Println(retained.Path(12, 0, 3))
	// Output: retained/12/0/3
}

package chunks

import (
	"bytes"
	"context"
	"encoding/base64"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// one is a broker that has one chunk under every name.
type one struct {
	Reader
	chunk []byte
}

func (b one) ReadChunk(context.Context, uint64, uint32, uint32) ([]byte, error) { return b.chunk, nil }

// FuzzOpeningTask has a worker open any bytes as a chunk, by any JSON as a task. The result begins with the chunk's
// digest and holds what was found in the chunk that the task names; anything else is an error.
func FuzzOpeningTask(f *testing.F) {
	key, err := seal.NewHPKEKey(bytes.Repeat([]byte{1}, seal.HPKEKeySize))
	if err != nil {
		f.Fatal(err)
	}
	chunk, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Index: 2, Payload: []byte("abcdef")})
	if err != nil {
		f.Fatal(err)
	}
	good := []byte(`{"channel":"shuffle","epoch":1,"round":0,"announcement":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",` +
		`"key":"` + base64.StdEncoding.EncodeToString(key.Public()) + `","releases":[{"levels":[1]}],"index":2}`)
	f.Add(good, chunk)
	f.Add(bytes.Replace(good, []byte(`"index":2`), []byte(`"index":3`), 1), chunk)
	f.Add([]byte(`{}`), chunk)
	f.Fuzz(func(t *testing.T, body, chunk []byte) {
		opened := 0
		do := Handler(one{chunk: chunk}, []*seal.HPKEKey{key}, func(*channel.Round) int { return 2 },
			func(of *channel.Round, messages []byte) ([]byte, error) {
				if opened = len(messages); opened%2 != 0 || !bytes.Equal(of.Key.Public(), key.Public()) {
					t.Fatalf("%d bytes are no whole messages", opened)
				}
				return messages, nil
			})
		result, err := do(t.Context(), body)
		if err != nil {
			if result != nil {
				t.Fatalf("%x with %v", result, err)
			}
			return
		}
		digest := wire.ChunkDigest(chunk)
		c, err := wire.ParseChunk(chunk)
		if err != nil || len(result) != len(digest)+opened || [32]byte(result) != digest ||
			!bytes.Equal(result[len(digest):], c.Payload) {
			t.Fatalf("a chunk of %d bytes gives %x, %v", len(chunk), result, err)
		}
	})
}

package shares

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// small is the outline of a round of two entries.
func small() taskHeader {
	return taskHeader{channel.Outline{
		Channel: plan.Shares, Epoch: 1, Announcement: make([]byte, 32), Key: bytes.Repeat([]byte{9}, 32),
		Releases: []channel.Levels{{Levels: []uint32{3, 1}, NoiseBits: 2}},
	}, make([]byte, shares.SecretSize)}
}

// FuzzSharesTask feeds any bytes, and any header before any items, to workers of both sides. A task is read whole: its
// items are the bytes behind the header, each as long as the round says. Anything else is an error, and never a panic.
func FuzzSharesTask(f *testing.F) {
	header, err := json.Marshal(small())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(header, make([]byte, 100))
	wide := small()
	wide.Releases[0].Levels = []uint32{1<<32 - 1}
	header, err = json.Marshal(wide)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(header, []byte{})
	f.Add([]byte(`{"channel":"shares","releases":[{}]}`), []byte{})
	f.Fuzz(func(t *testing.T, header, items []byte) {
		framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(header))), header...)
		for _, body := range [][]byte{header, append(framed, items...)} {
			for _, size := range []func(*shares.Round) int{
				(*shares.Round).PayloadSize, (*shares.Round).PrepareMessageSize,
			} {
				of, round, _, each, err := openTask(body, size)
				if err != nil {
					if round != nil || each != nil {
						t.Fatalf("%v with %v", each, err)
					}
					continue
				}
				if !bytes.HasSuffix(body, bytes.Join(each, nil)) || of.Channel != plan.Shares {
					t.Fatalf("%d items are not those behind the header", len(each))
				}
			}
		}
		allocated.ForInput(t, len(header)+len(items), func() {
			_, _ = PrepareHandler()(t.Context(), append(framed, items...)) // must not panic
		})
	})
}

// one is a Disk that has one file under every name.
type one struct {
	channel.Disk
	file []byte
}

func (d one) Open(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(d.file)), nil }

// FuzzSharesKept reads any bytes as what is durable of a release. It is this release's, or an error.
func FuzzSharesKept(f *testing.F) {
	r := &channel.Release{Epoch: 1, Announcement: [32]byte{1}}
	whole, err := json.Marshal(result{Announcement: r.Announcement[:], Reports: 2, Chunks: 3, Sum: []byte{1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"chunks":3}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		kept, err := (&Mixing{Disk: one{file: file}}).readResult(r)
		if (kept == nil) != (err != nil) {
			t.Fatalf("%+v, %v", kept, err)
		}
		if kept != nil && (!bytes.Equal(kept.Announcement, r.Announcement[:]) || kept.Chunks < 3) {
			t.Fatalf("%+v is of another release", kept)
		}
		if err != nil && errors.Is(err, channel.ErrImpossible) && !json.Valid(file) {
			t.Fatalf("a damaged file ends the release: %v", err)
		}
	})
}

package shuffle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// FuzzSegment has any bytes at the broker in a segment's place, with any bucket, and cut or changed. Only the
// segment that was sealed opens, and only in its own bucket.
func FuzzSegment(f *testing.F) {
	r := &channel.Release{Epoch: 1, Layout: channel.Layout{Messages: 1}}
	sealer, err := secret(make([]byte, 32)).sealer("test", r, execution{1})
	if err != nil {
		f.Fatal(err)
	}
	const bucket = 3
	plain := []byte("messages")
	sealed := sealer.seal(append(make([]byte, 0, len(plain)+sealOverhead), plain...), bucket)
	f.Add(sealed, uint32(bucket))
	f.Add(sealed, uint32(bucket+1))
	f.Add(sealed[:sealOverhead-1], uint32(bucket))
	f.Fuzz(func(t *testing.T, data []byte, at uint32) {
		good := at == bucket && bytes.Equal(data, sealed)
		got, err := sealer.open(bytes.Clone(data), at)
		if (err == nil) != good || good && !bytes.Equal(got, plain) || err != nil && !errors.Is(err, errSegment) {
			t.Fatalf("in bucket %d, sealed %v: %q, %v", at, good, got, err)
		}
	})
}

// nothing is a broker that has nothing.
type nothing struct{ ChunkStore }

func (nothing) PublishSegment(context.Context, uint64, uint32, string, uint32, []byte) error {
	return nil
}
func (nothing) ReadSegment(context.Context, uint64, uint32, string, uint32) ([]byte, error) {
	return nil, bus.ErrGone
}

// FuzzMixingTask has a worker do any JSON as a task of either kind. A task that is not one of this release's is an
// error, never a panic: a worker that dies takes the tasks of other releases with it.
func FuzzMixingTask(f *testing.F) {
	r := &channel.Release{Epoch: 1, Announcement: [32]byte{1}, Layout: channel.Layout{Messages: 1}}
	members := packMembers([]channel.Member{{Slot: 1, Sequence: 2, Digest: [32]byte{3}}})
	of := taskOf(r, make([]byte, 32))
	f.Add(encodeTask(gatherTask{mixingTask: of, Buckets: 2, Members: members}))
	f.Add(encodeTask(gatherTask{mixingTask: of, Members: members}))
	f.Add(encodeTask(mixTask{
		mixingTask: of, Names: make([]byte, 16), Counts: []byte{0, 0, 0, 1}, Chunk: 1,
	}))
	f.Add([]byte(`{"buckets":1,"members":"AA==","layout":{"messages":-1}}`))
	f.Add([]byte(`{"chunk":0,"names":"AA==","counts":"AA=="}`))
	x := &Mixer{
		Deployment: "test", Segments: nothing{}, Chunks: nothing{},
		Source: func() protocol.Source { return rand.NewChaCha8([32]byte{1}) },
		Reports: func(_ context.Context, r *channel.Release, m []channel.Member, f func(int, []byte)) error {
			for i := range m {
				f(i, make([]byte, r.Layout.Size()))
			}
			return nil
		},
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for kind, do := range x.Handlers() {
			var result []byte
			var err error
			allocated.ForInput(t, len(body), func() { result, err = do(t.Context(), body) })
			if err == nil && len(result) == 0 || err != nil && result != nil {
				t.Fatalf("%s: %x, %v", kind, result, err)
			}
		}
	})
}

// A task that no lead makes is an error, and takes no memory for what it claims.
func TestMalformedTasksAreErrors(t *testing.T) {
	t.Parallel()
	of := taskOf(&channel.Release{Epoch: 1, Layout: channel.Layout{Messages: 1}}, make([]byte, secretSize))
	member := packMembers(make([]channel.Member, 1))
	with := func(l channel.Layout) mixingTask { other := of; other.Layout = l; return other }
	short := of
	short.Secret = short.Secret[1:]
	for what, task := range map[string]gatherTask{
		"no buckets":        {mixingTask: of, Members: member},
		"too many buckets":  {mixingTask: of, Members: member, Buckets: 1<<32 - 1},
		"no members":        {mixingTask: of, Buckets: 1},
		"half a member":     {mixingTask: of, Buckets: 1, Members: member[1:]},
		"negative messages": {mixingTask: with(channel.Layout{Messages: -1}), Buckets: 1, Members: member},
		"no messages":       {mixingTask: with(channel.Layout{Payload: 64}), Buckets: 1, Members: member},
		"a large payload": {
			mixingTask: with(channel.Layout{Messages: 1, Payload: 1 << 40}), Buckets: 1, Members: member,
		},
		"a message of bytes": {mixingTask: with(channel.Layout{Messages: 8, Payload: 64}), Buckets: 1, Members: member},
		"a short secret":     {mixingTask: short, Buckets: 1, Members: member},
	} {
		if _, err := task.check(); !errors.Is(err, errTask) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, task := range map[string]mixTask{
		"chunks of nothing":   {mixingTask: of, Names: make([]byte, 16), Counts: make([]byte, 4)},
		"half a count":        {mixingTask: of, Names: make([]byte, 16), Counts: make([]byte, 3), Chunk: 1},
		"a count too many":    {mixingTask: of, Names: make([]byte, 16), Counts: make([]byte, 8), Chunk: 1},
		"more than in memory": {mixingTask: of, Names: make([]byte, 16), Counts: []byte{255, 255, 255, 255}, Chunk: 1},
	} {
		if _, err := task.check(); !errors.Is(err, errTask) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzMembers reads any bytes as the members of a part. What is whole is written as the same bytes.
func FuzzMembers(f *testing.F) {
	f.Add(packMembers([]channel.Member{{Slot: 1, Sequence: 2, Digest: [32]byte{3}}, {}}))
	f.Add(make([]byte, memberSize-1))
	f.Fuzz(func(t *testing.T, b []byte) {
		members, err := unpackMembers(b)
		if (err == nil) != (len(b)%memberSize == 0) || err == nil && !bytes.Equal(packMembers(members), b) {
			t.Fatalf("%x are %v, %v", b, members, err)
		}
		counts, err := countsOf(b)
		if (err == nil) != (len(b)%4 == 0) || err == nil && !bytes.Equal(appendCounts(nil, counts), b) {
			t.Fatalf("%x are %v, %v", b, counts, err)
		}
	})
}

// one is a Disk that has one file under every name.
type one struct {
	channel.Disk
	file []byte
}

func (d one) Open(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(d.file)), nil }

// FuzzBarrier reads any bytes as the file that the lead keeps of a release, as it is and with the members and the
// announcement of the release. What is accepted is of this release; everything else is an error.
func FuzzBarrier(f *testing.F) {
	r := &channel.Release{
		Epoch: 1, Announcement: [32]byte{1}, Members: []channel.Member{{Slot: 1, Digest: [32]byte{3}}},
	}
	members := membersDigest(r)
	whole, err := json.Marshal(barrier{Announcement: r.Announcement[:], Members: members[:], Buckets: 2, Chunk: 1,
		Names: make([]byte, 16), Counts: make([]byte, 8)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(encodeTask(barrier{Buckets: 2, Names: make([]byte, 16), Counts: make([]byte, 8)}))
	f.Add(encodeTask(barrier{Buckets: 2, Chunk: 1, Names: make([]byte, 16), Counts: make([]byte, 4)}))
	f.Add([]byte(`{"sent":{}}`))
	f.Add([]byte(`{"buckets":4294967295}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		kept := new(barrier)
		if json.Unmarshal(file, kept) != nil {
			kept = new(barrier)
		}
		kept.Members, kept.Announcement = members[:], r.Announcement[:]
		for _, file := range [][]byte{file, encodeTask(kept)} {
			b, err := (&Mixing{Disk: one{file: file}}).readBarrier(r)
			if (b == nil) != (err != nil) {
				t.Fatalf("%+v, %v", b, err)
			}
			if b == nil {
				continue
			}
			if !slices.Equal(b.Members, members[:]) || !bytes.Equal(b.Announcement, r.Announcement[:]) {
				t.Fatalf("%+v is of another release", b)
			}
			if b.Sent != nil {
				continue
			}
			if tasks := (&mixed{release: r, barrier: b}).tasks(nil); len(tasks) != int(b.Buckets) {
				t.Fatalf("%d tasks of %d buckets", len(tasks), b.Buckets)
			}
		}
	})
}

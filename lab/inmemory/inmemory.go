// Package inmemory takes releases through the shuffler's own code for mixing, with memory in place of disk and broker.
// Mix says what each part of it costs, for benchmarks, and Marked in which order messages leave, for riffle-lab
// shufflecheck. Roles do not use it.
package inmemory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Result is what mixing cost: processor time in seconds, as the clock that Mix was given told it.
type Result struct {
	Messages int
	Take     float64 // keeping the reports
	Scatter  float64 // the search for repeated messages, and scattering to buckets
	Permute  float64 // permuting inside buckets
	Send     float64 // cutting into chunks, and the digests of all messages that the manifest states
}

// ErrOther says that other messages left than came.
var ErrOther = errors.New("inmemory: other messages left than came")

// Mix mixes so many reports of random bytes for an announced round of the channel shuffle. The folder is for a store
// that spills nothing; cpu is the processor time of this process so far.
func Mix(ctx context.Context, a *plan.Announcement, reports int, folder string, cpu func() time.Duration) (
	r Result, err error,
) {
	each := a.ReportMessages()
	payload := make([]byte, each*seal.BitSize)
	store, err := spill.New(folder, 8*int64(reports*len(payload))+1<<26)
	if err != nil {
		return r, err
	}
	defer store.Close()
	out := &outlet{files: map[string][]byte{}, room: reports*len(payload) + 1<<20, cpu: cpu}
	mixing := &shuffle.Mixing{Chunks: out, Disk: out, Store: store, Source: entropy.New(),
		Reports: func(context.Context, *channel.Release, channel.Member) (*wire.Report, error) {
			return nil, errors.New("inmemory: a report was not kept")
		}}
	release := &channel.Release{Epoch: 1, Announced: a}
	if release.Layout, err = mixing.Layout(a); err != nil {
		return r, err
	}
	want, junk := uint64(0), rand.NewChaCha8([32]byte{1}) // nobody's privacy rests on these bytes
	_, _ = junk.Read(payload)                             // it has no error
	for i := range reports {
		for at := 0; at < len(payload); at += seal.BitSize { // another message than in the report before
			binary.LittleEndian.PutUint32(payload[at:], uint32(i))
		}
		want += sum(payload)
		member := channel.Member{Slot: uint32(i), Digest: sha256.Sum256(binary.BigEndian.AppendUint32(nil, uint32(i)))}
		release.Members = append(release.Members, member)
		before := cpu()
		if err := mixing.Take(1, 0, member, payload); err != nil {
			return r, err
		}
		r.Take += (cpu() - before).Seconds()
	}
	before := cpu()
	switch slots, err := mixing.Repeated(ctx, release); {
	case err != nil:
		return r, err
	case len(slots) > 0:
		return r, fmt.Errorf("inmemory: %d reports seem to repeat a message", len(slots))
	}
	scattered := cpu()
	if _, err := mixing.Release(ctx, release, &wire.Manifest{}); err != nil {
		return r, err
	}
	released := cpu()
	if out.messages != reports*each || out.sum != want {
		return r, fmt.Errorf("%w: %d of %d messages", ErrOther, out.messages, reports*each)
	}
	r.Messages, r.Scatter, r.Permute = out.messages, (scattered - before).Seconds(), out.stored.Seconds()
	r.Send = (released - scattered - out.stored).Seconds()
	return r, nil
}

// sum depends on every message's first bytes, and on no order.
func sum(messages []byte) (all uint64) {
	for at := 0; at < len(messages); at += seal.BitSize {
		all += binary.BigEndian.Uint64(messages[at:])
	}
	return all
}

// outlet is a disk in memory, and a broker that keeps nothing but a sum of all messages.
type outlet struct {
	files    map[string][]byte
	room     int           // bytes that a file may need
	stored   time.Duration // processor time of Store
	cpu      func() time.Duration
	sum      uint64
	messages int
}

func (o *outlet) PublishChunk(_ context.Context, _ uint64, _, _ uint32, payload []byte) error {
	chunk, err := wire.ParseChunk(payload)
	if err != nil {
		return err
	}
	o.sum, o.messages = o.sum+sum(chunk.Payload), o.messages+len(chunk.Payload)/seal.BitSize
	return nil
}

func (o *outlet) Store(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	b.Grow(o.room)
	before := o.cpu()
	if err := write(&b); err != nil {
		return err
	}
	o.stored += o.cpu() - before
	o.files[name] = b.Bytes()
	return nil
}

func (o *outlet) Open(name string) (io.ReadCloser, error) {
	b, ok := o.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (o *outlet) Remove(name string) error {
	delete(o.files, name)
	return nil
}

package shuffle

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// rotate puts every segment in the place of the next one of its length for which same says so of their names: those of
// execution and bucket.
func (x *exchange) rotate(same func(a, b [2]string) bool) {
	var names []string
	for name := range x.segments {
		names = append(names, name)
	}
	slices.Sort(names)
	rotated := map[string][]byte{}
	for i, name := range names {
		for j := 1; j <= len(names); j++ {
			other := names[(i+j)%len(names)]
			if len(x.segments[other]) == len(x.segments[name]) && same([2]string{name[:32], name[33:]},
				[2]string{other[:32], other[33:]}) {
				rotated[name] = x.segments[other]
				break
			}
		}
	}
	x.segments = rotated
}

// A broker that gives back another segment than was stored under a name makes the release impossible, before any
// message leaves.
func TestASegmentInAnotherPlaceIsRefused(t *testing.T) {
	t.Parallel()
	old := map[string][]byte{}
	for what, change := range map[string]func(x *exchange){
		"of another bucket": func(x *exchange) {
			x.rotate(func(a, b [2]string) bool { return a[0] == b[0] })
		},
		"of another execution": func(x *exchange) {
			x.rotate(func(a, b [2]string) bool { return a[1] == b[1] })
		},
		"altered": func(x *exchange) {
			for _, b := range x.segments {
				b[3] ^= 1
			}
		},
		"of an earlier release": func(x *exchange) {
			for name, b := range x.segments {
				for _, other := range old {
					if len(other) == len(b) {
						x.segments[name] = other
					}
				}
			}
		},
		"gone": func(x *exchange) { clear(x.segments) },
	} {
		before := newExchange(t, 12, 2, 1)
		before.seed.Store(1000)
		_, err := before.Repeated(t.Context(), before.release)
		before.must(err)
		for name, b := range before.segments {
			old[name] = b
		}
		x := newExchange(t, 12, 2, 1)
		_, err = x.Repeated(t.Context(), x.release)
		x.must(err)
		change(x)
		_, err = x.Release(t.Context(), x.release, new(wire.Manifest))
		if !errors.Is(err, channel.ErrImpossible) {
			t.Errorf("%s: %v", what, err)
		}
		if len(x.chunks) > 0 {
			t.Errorf("%s: %d chunks left", what, len(x.chunks))
		}
	}
}

// chunk is a chunk of these messages.
func (x *exchange) chunk(index uint32, messages ...int) []byte {
	x.t.Helper()
	var payload []byte
	for _, n := range messages {
		payload = append(payload, numberedMessage(n)...)
	}
	b, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Index: index, Payload: payload})
	x.must(err)
	return b
}

// What is at the broker and not of the release's own draw is never built upon: neither chunks from before its
// barrier, nor a chunk that has a message too many, twice, or of nobody.
func TestChunksOfAnotherDrawAreNotAdopted(t *testing.T) {
	t.Parallel()
	x := newExchange(t, 10, 3, 1)
	x.chunks[3] = x.chunk(3, 0, 1, 2, 3, 4)
	if _, err := x.leave(); !errors.Is(err, channel.ErrImpossible) || len(x.chunks) != 1 {
		t.Errorf("messages left before: %d chunks are there, %v", len(x.chunks), err)
	}
	for what, messages := range map[string][]int{
		"of nobody": {0, 1, 2, 3, 99}, "twice": {0, 1, 2, 3, 3}, "too many": {0, 1, 2, 3, 4, 5}, "too few": {0, 1},
	} {
		x := newExchange(t, 10, 3, 1)
		x.begin(1, 3)
		x.fails = func(_ int, what string) error {
			if what == "barrier" {
				x.chunks[0] = x.chunk(0, messages...)
			}
			return nil
		}
		if _, err := x.leave(); !errors.Is(err, channel.ErrImpossible) || len(x.chunks) != 1 {
			t.Errorf("a message %s: %d chunks are there, %v", what, len(x.chunks), err)
		}
	}
	x = newExchange(t, 10, 3, 1)
	x.begin(1, 3)
	x.fails = func(_ int, what string) error { // one of its own is
		if what == "barrier" && len(x.chunks) == 0 {
			x.chunks[0] = x.chunk(0, 4, 3, 2, 1, 0)
		}
		return nil
	}
	m, err := x.leave()
	x.must(err)
	x.whole(m)
}

// Behind the barrier the members are fixed: a state folder that was set back to other ones makes the release
// impossible. A lead without workers does not mix anew what workers have begun.
func TestTheBarrierHoldsMembersAndDraw(t *testing.T) {
	t.Parallel()
	x := newExchange(t, 10, 3, 1)
	var secretOf secret
	x.fails = func(_ int, what string) error {
		if what == "barrier" {
			secretOf = x.Exchange.parts.secret
		}
		if what == "chunk" {
			return errDied
		}
		return nil
	}
	if _, err := x.leave(); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	x.fails = nil
	pool := x.Exchange
	x.Exchange = nil
	if _, err := x.Release(t.Context(), x.release, new(wire.Manifest)); !errors.Is(err, errWorkers) {
		t.Errorf("without workers: %v", err)
	}
	x.Exchange = pool
	pool.Keys = [][]byte{[]byte("another")}
	if _, err := x.Release(t.Context(), x.release, new(wire.Manifest)); !errors.Is(err, errKeys) {
		t.Errorf("with another key: %v", err)
	}
	pool.Keys = [][]byte{[]byte("newer"), []byte("new")}
	for name, file := range x.disk {
		if text, err := json.Marshal(secretOf); err != nil || bytes.Contains(file, bytes.Trim(text, `"`)) {
			t.Errorf("%s holds the release's secret in the clear", name)
		}
	}
	fewer := *x.release
	fewer.Members = fewer.Members[1:]
	if _, err := x.Release(t.Context(), &fewer, new(wire.Manifest)); !errors.Is(err, channel.ErrImpossible) {
		t.Errorf("with other members: %v", err)
	}
	m := new(wire.Manifest)
	_, err := x.Release(t.Context(), x.release, m)
	x.must(err)
	x.whole(m)
}

// Members that repeat a message are found whichever tasks gathered them, and what is left is gathered only where they
// were. Equal digests are not enough: the reports are read again, and one of them is not excluded whose keys differ.
func TestRepeatedMessagesAreFoundAcrossParts(t *testing.T) {
	t.Parallel()
	x := newExchange(t, 20, 3, 2)
	copy(x.payload[17][seal.BitSize:], x.payload[3][:seal.EncapsulatedSize])
	copy(x.payload[9], x.payload[9][2*seal.BitSize:])
	slots, err := x.Repeated(t.Context(), x.release)
	x.must(err)
	if !slices.Equal(slots, []uint32{3, 9, 17}) {
		t.Fatalf("repeated: %v", slots)
	}
	x.release.Members = slices.DeleteFunc(x.release.Members, func(m channel.Member) bool {
		return slices.Contains(slots, m.Slot)
	})
	before := len(x.segments)
	if slots, err = x.Repeated(t.Context(), x.release); err != nil || len(slots) > 0 {
		t.Fatalf("repeated again: %v, %v", slots, err)
	}
	if made := (len(x.segments) - before) / 4; made > 3 { // of 7 parts
		t.Errorf("%d parts were gathered again", made)
	}
	m, err := x.leave()
	x.must(err)
	if n := len(x.order()); n != 17*3 || m.Messages != 17*3 {
		t.Errorf("%d messages left, the manifest says %d", n, m.Messages)
	}
	// Between question and release another process had other payloads: what it finds is not what was committed.
	y := newExchange(t, 20, 3, 2)
	copy(y.payload[17], y.payload[3][:seal.EncapsulatedSize])
	if _, err := y.Release(t.Context(), y.release, m); !errors.Is(err, channel.ErrImpossible) || len(y.chunks) > 0 {
		t.Errorf("committed with a repeated message: %v", err)
	}
	// A digest that two messages share by chance.
	z := newExchange(t, 20, 3, 2)
	_, err = z.Repeated(t.Context(), z.release)
	z.must(err)
	parts := z.Exchange.parts
	parts.all[0].prints, parts.all[1].prints = z.Store.Pile(), z.Store.Pile()
	for _, one := range parts.all[:2] {
		digester, err := parts.secret.digester()
		z.must(err)
		for range len(one.members) * 3 {
			first := z.payload[one.members[0].Slot][:seal.BitSize]
			z.must(one.prints.Append(digester.digests(nil, first, seal.BitSize)))
		}
	}
	if slots, err = parts.findRepeated(t.Context(), z.Store, z.release, z.report); err != nil || len(slots) > 0 {
		t.Errorf("excluded for digests alone: %v, %v", slots, err)
	}
}

// kept is a store of retained chunks that notes their windows.
type kept struct {
	mu      sync.Mutex
	windows map[uint32]time.Duration
}

func (k *kept) PublishRetained(_ context.Context, _ uint64, _, index uint32, _ []byte, d time.Duration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.windows[index] = d
	return nil
}

// The shuffler's noise is made by tasks too, as many messages with as many ones as the plan says, and what leaves is
// retained where that is asked for. The noise is Bin(100, 1/2), see TestTheShufflersNoiseIsSealedAndCounted.
func TestWorkersMakeTheNoiseAndRetain(t *testing.T) {
	t.Parallel()
	f, of, ones := noisy(t)
	x := newExchange(t, 4, 1, 2)
	x.release, x.payload = f.release, f.reports
	x.release.Announcement = of.Digest
	auditor, err := seal.GenerateHPKE()
	x.must(err)
	retained := &kept{windows: map[uint32]time.Duration{}}
	mixer := x.mixer()
	mixer.Retained = retained
	x.Retain = &Retention{Deployment: "test", Auditor: auditor.Public(), Window: time.Hour, Store: retained}
	x.Exchange.Pool = worker.Inside(2, mixer.Handlers())
	m, err := x.leave()
	x.must(err)
	if m.NoiseMessages != 3*serverBits || m.Messages != people*uint64(of.ReportMessages())+3*serverBits {
		t.Fatalf("%d messages, %d of noise", m.Messages, m.NoiseMessages)
	}
	if n := len(retained.windows); n != int(m.Chunks) || retained.windows[0] != time.Hour {
		t.Errorf("%d of %d chunks are retained", n, m.Chunks)
	}
	total := shuffle.NewTally(of.Encodings)
	for _, b := range x.chunks {
		chunk, err := wire.ParseChunk(b)
		x.must(err)
		total.Open(seal.NewBitOpener(of.Key, of.Digest), chunk.Payload)
	}
	counts, odd := total.Counts(people, []uint64{serverBits, serverBits})
	for i := range ones {
		for j, n := range ones[i] {
			noise := float64(counts[i][j]) - float64(n)
			if z := (noise - serverBits/2) / math.Sqrt(serverBits/4); math.Abs(z) > 6 || odd > 0 {
				t.Errorf("release %d, coordinate %d: noise %v (%d odd)", i, j, noise, odd)
			}
		}
	}
}

// Parts of the noise are together the round's noise, wherever it is cut.
func TestPartsOfTheNoiseAreTheWhole(t *testing.T) {
	t.Parallel()
	_, of, _ := noisy(t)
	for _, most := range []uint64{1, 7, 99, 100, 101, 1000} {
		var all []byte
		for _, p := range shuffle.NoiseParts(of.Announcement, of.Digest, most) {
			before := len(all)
			var err error
			if all, err = p.Append(t.Context(), all, entropy.New()); err != nil {
				t.Fatal(err)
			}
			if n := uint64(len(all)-before) / seal.BitSize; n > most || n != p.To-p.From {
				t.Errorf("a part of %d messages", n)
			}
		}
		total := shuffle.NewTally(of.Encodings)
		total.Open(seal.NewBitOpener(of.Key, of.Digest), all)
		if _, odd := total.Counts(0, []uint64{serverBits, serverBits}); odd > 0 || total.Messages != 3*serverBits {
			t.Errorf("parts of %d: %d messages, %d odd", most, total.Messages, odd)
		}
	}
}

// An offer that was not stored says nothing of what follows: what is left is drawn anew. Without that the next chunk
// would begin with what is left of the offer; by chance it does with a probability below 1e-5.
func TestALostOfferSaysNothingOfTheNext(t *testing.T) {
	t.Parallel()
	x := newExchange(t, 20, 3, 1)
	x.begin(1, 20)
	stored := []int{0, 1, 2, 3, 4}
	x.fails = func(_ int, what string) error {
		if what == "barrier" && len(x.chunks) == 0 {
			x.chunks[0] = x.chunk(0, stored...)
		}
		return nil
	}
	m, err := x.leave()
	x.must(err)
	x.whole(m)
	var lost []int
	for b := x.lost; len(b) > 0; b = b[seal.BitSize:] {
		if n := int(binary.BigEndian.Uint32(b)); !slices.Contains(stored, n) {
			lost = append(lost, n)
		}
	}
	if order := x.order()[5:]; len(lost) < 4 || slices.Equal(order[:len(lost)], lost) {
		t.Errorf("%v was offered and not stored, %v follows", lost, order[:5])
	}
}

// Envelopes of local and central, which have any length, go the same way.
func TestEnvelopesAreMixedByWorkersToo(t *testing.T) {
	t.Parallel()
	const size = 333
	x := newExchange(t, 30, 1, 2)
	x.release.Layout = channel.Layout{Messages: 1, Channel: plan.Local, Payload: size}
	var want, left [][]byte
	for slot := range x.payload {
		x.payload[slot] = append(numberedMessage(int(slot)), make([]byte, size-seal.BitSize)...)
		want = append(want, x.payload[slot])
	}
	m, err := x.leave()
	x.must(err)
	for _, b := range x.chunks {
		chunk, err := wire.ParseChunk(b)
		x.must(err)
		left = append(left, slices.Collect(slices.Chunk(chunk.Payload, size))...)
	}
	slices.SortFunc(want, bytes.Compare)
	slices.SortFunc(left, bytes.Compare)
	if !slices.EqualFunc(left, want, bytes.Equal) || m.Messages != 30 {
		t.Errorf("%d envelopes left, the manifest says %d", len(left), m.Messages)
	}
}

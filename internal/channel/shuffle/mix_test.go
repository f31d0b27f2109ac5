package shuffle

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// fixture is a mixing side between reports and a broker in memory.
type fixture struct {
	*Mixing
	t       testing.TB
	release *channel.Release
	reports map[uint32][]byte // bit messages by slot
	mu      sync.Mutex
	reads   int
	stored  [][]byte           // chunks at the broker
	publish func(uint32) error // before a chunk is stored; nil: no error
}

// newFixture has members with each bit messages, all different.
func newFixture(t testing.TB, members, each int) *fixture {
	f := &fixture{t: t, reports: map[uint32][]byte{}}
	f.release = &channel.Release{
		Epoch: 1, Layout: channel.Layout{Messages: each}, Announced: &plan.Announcement{Final: true}, // no noise
	}
	for slot := range uint32(members) {
		f.release.Members = append(f.release.Members, channel.Member{Slot: slot, Sequence: uint64(slot) + 1})
		for i := range each {
			message := slices.Repeat([]byte{byte(int(slot)*each + i)}, seal.BitSize)
			f.reports[slot] = append(f.reports[slot], message...)
		}
	}
	f.Mixing = &Mixing{
		Reports: f.report, Chunks: f, Disk: channel.Folder(t.TempDir()), Store: newStore(t),
		Source: entropy.New(), Chunk: 5,
	}
	return f
}

// newStore is a store of the least memory that there is.
func newStore(t testing.TB) *spill.Store {
	t.Helper()
	s, err := spill.New(t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (f *fixture) report(_ context.Context, _ *channel.Release, m channel.Member) (*wire.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	bits, ok := f.reports[m.Slot]
	if !ok {
		return nil, channel.ErrImpossible
	}
	return &wire.Report{Slot: m.Slot, Payload: bits}, nil
}

// PublishChunk does as the broker does: one payload for each index.
func (f *fixture) PublishChunk(_ context.Context, _ uint64, _, index uint32, payload []byte) error {
	if f.publish != nil {
		if err := f.publish(index); err != nil {
			return err
		}
	}
	if int(index) < len(f.stored) {
		if !bytes.Equal(f.stored[index], payload) {
			return bus.ErrExists
		}
		return nil
	}
	f.stored = append(f.stored, bytes.Clone(payload))
	return nil
}

// messages are the bit messages at the broker, in their order.
func (f *fixture) messages() (all []byte) {
	f.t.Helper()
	for _, c := range f.stored {
		chunk, err := wire.ParseChunk(c)
		f.must(err)
		all = append(all, chunk.Payload...)
	}
	return all
}

// left are the first bytes of the bit messages at the broker, in their order.
func (f *fixture) left() (all []byte) {
	f.t.Helper()
	for b := f.messages(); len(b) > 0; b = b[seal.BitSize:] {
		all = append(all, b[0])
	}
	return all
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// No message has a place that it takes more often than another, and messages of one report are not next to each other
// more often than in a uniformly random order. Both thresholds have a false-alarm rate of at most 1e-6; messages near
// where they came, reports that leave together and the same order each time are rejected. lab/uniform has more tests,
// and proves their joint rate.
func TestOrderIsGone(t *testing.T) {
	t.Parallel()
	const releases, each, messages = 400, 3, 12
	f := newFixture(t, messages/each, each)
	var places [messages][messages]float64
	together := 0.0
	for n := range releases {
		f.release.Epoch, f.stored = uint64(n)+1, nil
		f.Source = &chosen{make([]uint64, 4), entropy.New()} // the key of the digests, so that the sort is no shuffle
		m := new(wire.Manifest)
		f.must(f.leave(t.Context(), f.release, m))
		order := f.left()
		if m.Messages != messages || len(order) != messages || int(m.Chunks) != len(f.stored) {
			t.Fatalf("%d messages left, the manifest says %d", len(order), m.Messages)
		}
		for place, message := range order {
			places[place][message]++
			if place > 0 && order[place-1]/each == message/each {
				together++
			}
		}
		f.must(f.Forget(f.release.Epoch, 0))
	}
	const expected = releases / float64(messages)
	squares := 0.0
	for _, row := range places {
		for _, n := range row {
			squares += (n - expected) * (n - expected) / expected
		}
	}
	if most := (distuv.ChiSquared{K: (messages - 1) * (messages - 1)}).Quantile(1 - 1e-7); squares > most {
		t.Errorf("the places of messages have a chi-square of %.0f, at most %.0f may be", squares, most)
	}
	// Of each release's 11 pairs of neighbours, each with probability 2/11: a mean of 2, and less than 4 as its
	// variance. Bernstein's inequality for 400 releases, whose numbers are in [0, 8]: more than 260 from the mean has
	// less than 1e-6.
	if math.Abs(together-2*releases) > 260 {
		t.Errorf("%v neighbours are of one report, want about %d", together, 2*releases)
	}
}

// A release that is tried again, by this process or the next one, sends the same bytes and says the same of them;
// nothing is left on disk once it is forgotten.
func TestARetrySendsTheSameBytes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	first, second := new(wire.Manifest), new(wire.Manifest)
	broken := errors.New("the broker is away")
	f.publish = func(index uint32) error {
		if index == 2 {
			return broken
		}
		return nil
	}
	if err := f.leave(t.Context(), f.release, first); !errors.Is(err, broken) || len(f.stored) != 2 {
		t.Fatalf("%d chunks left, then %v", len(f.stored), err)
	}
	f.publish = nil
	f.Mixing = &Mixing{ // the next process
		Reports: f.report, Chunks: f, Disk: f.Disk, Store: newStore(t), Source: entropy.New(), Chunk: 5,
	}
	f.reports = nil // reads no report
	f.must(f.leave(t.Context(), f.release, first))
	before := slices.Clone(f.stored)
	f.must(f.leave(t.Context(), f.release, second))
	if !slices.EqualFunc(before, f.stored, bytes.Equal) || !bytes.Equal(first.ChunksDigest, second.ChunksDigest) {
		t.Error("other bytes left")
	}
	if want := rootOf(f.messages(), seal.BitSize); !bytes.Equal(first.MessagesRoot, want[:]) ||
		!bytes.Equal(second.MessagesRoot, want[:]) {
		t.Errorf("roots %x and %x, want %x", first.MessagesRoot, second.MessagesRoot, want)
	}
	if order := f.left(); len(order) != 30 || first.Messages != 30 || first.Chunks != 6 {
		t.Errorf("%d messages left, the manifest says %d in %d chunks", len(order), first.Messages, first.Chunks)
	}
	f.must(f.Forget(1, 0))
	f.must(f.Forget(1, 0))
	if files, err := os.ReadDir(string(f.Disk.(channel.Folder))); err != nil || len(files) != 0 {
		t.Errorf("%d files are left (%v)", len(files), err)
	}
}

// A state folder that was set back permutes anew. What left before is at the broker, so nothing of another order
// follows it.
func TestAnotherOrderDoesNotFollow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	f.must(f.leave(t.Context(), f.release, new(wire.Manifest)))
	f.stored = f.stored[:3]
	f.must(f.Forget(1, 0))
	if err := f.leave(t.Context(), f.release, new(wire.Manifest)); !errors.Is(err, channel.ErrLeft) {
		t.Errorf("%v", err)
	}
	if len(f.stored) != 3 {
		t.Errorf("%d chunks followed", len(f.stored)-3)
	}
}

// A member whose report is gone makes its release impossible, before anything leaves.
func TestALostReportMakesTheReleaseImpossible(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	delete(f.reports, 4)
	_, err := f.Repeated(t.Context(), f.release)
	if !errors.Is(err, channel.ErrImpossible) {
		t.Errorf("before the commit: %v", err)
	}
	err = f.leave(t.Context(), f.release, new(wire.Manifest))
	if !errors.Is(err, channel.ErrImpossible) || errors.Is(err, channel.ErrLeft) || len(f.stored) != 0 {
		t.Errorf("after the commit: %v, and %d chunks left", err, len(f.stored))
	}
}

// Reports that are gathered to be compared are not read again for the release, nor when members join.
func TestReportsAreReadOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	all := f.release.Members
	f.release.Members = all[:8]
	for range 2 {
		slots, err := f.Repeated(t.Context(), f.release)
		f.must(err)
		if len(slots) != 0 {
			t.Fatalf("slots %v repeat a message", slots)
		}
		f.release = &channel.Release{Epoch: 1, Layout: f.release.Layout, Announced: f.release.Announced, Members: all}
	}
	f.must(f.leave(t.Context(), f.release, new(wire.Manifest)))
	if f.reads != 10 {
		t.Errorf("%d reads of ten reports", f.reads)
	}
}

// The reports that share a public key are found, all of them and no other; committed by mistake, they do not leave.
func TestRepeatedMessagesAreFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	copy(f.reports[7][seal.BitSize:], f.reports[2][:seal.EncapsulatedSize]) // of another report
	copy(f.reports[5][2*seal.BitSize:], f.reports[5][:seal.BitSize])        // within one
	slots, err := f.Repeated(t.Context(), f.release)
	f.must(err)
	if !slices.Equal(slots, []uint32{2, 5, 7}) {
		t.Errorf("slots %v", slots)
	}
	err = f.leave(t.Context(), f.release, new(wire.Manifest))
	if !errors.Is(err, channel.ErrImpossible) || len(f.stored) != 0 {
		t.Errorf("committed all the same: %v, and %d chunks left", err, len(f.stored))
	}
}

// A spool that ends inside a bit message is an error, not a shorter release.
func TestATornSpoolIsAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	path := filepath.Join(string(f.Disk.(channel.Folder)), "release-1-0")
	f.must(os.WriteFile(path, make([]byte, seal.BitSize+1), 0o600))
	if err := f.leave(t.Context(), f.release, new(wire.Manifest)); err == nil || len(f.stored) != 0 {
		t.Errorf("accepted, and %d chunks left", len(f.stored))
	}
}

// What is spooled is ciphertext in its new order: as many bytes as the messages have, and nothing else.
func TestTheSpoolHoldsNothingButMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	f.must(f.leave(t.Context(), f.release, new(wire.Manifest)))
	spool, err := f.Disk.Open("release-1-0")
	f.must(err)
	defer spool.Close()
	b, err := io.ReadAll(spool)
	f.must(err)
	if len(b) != 30*seal.BitSize {
		t.Errorf("%d bytes of 30 messages", len(b))
	}
}

// A release holds the messages of its own members alone, also where more were looked through for repetitions before.
func TestWhoLeftTheReleaseIsNotInIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 4, 3)
	if slots, err := f.Repeated(t.Context(), f.release); err != nil || len(slots) > 0 {
		t.Fatal(slots, err)
	}
	fewer := *f.release
	fewer.Members = slices.Delete(slices.Clone(f.release.Members), 1, 2)
	m := new(wire.Manifest)
	f.must(f.leave(t.Context(), &fewer, m))
	left := f.left()
	slices.Sort(left)
	if want := []byte{0, 1, 2, 6, 7, 8, 9, 10, 11}; !bytes.Equal(left, want) || m.Messages != 9 {
		t.Errorf("%v left, want %v; the manifest says %d", left, want, m.Messages)
	}
}

// leave is Release where no member is rejected.
func (f *fixture) leave(ctx context.Context, r *channel.Release, m *wire.Manifest) error {
	rejected, err := f.Release(ctx, r, m)
	if len(rejected) > 0 {
		f.t.Errorf("%d members are rejected", len(rejected))
	}
	return err
}

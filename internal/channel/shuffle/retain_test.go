package shuffle

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// vault is the broker's stream of retained chunks, in memory: what is stored in a place first is kept.
type vault struct {
	f      *fixture
	sealed map[uint32][]byte
	window time.Duration
	fail   func(index uint32) error // nil: no error
}

func (v *vault) PublishRetained(_ context.Context, _ uint64, _, index uint32, sealed []byte, d time.Duration) error {
	if int(index) >= len(v.f.stored) {
		v.f.t.Errorf("chunk %d is retained before it is forwarded", index)
	}
	if v.fail != nil {
		if err := v.fail(index); err != nil {
			return err
		}
	}
	if v.window = d; v.sealed[index] == nil {
		v.sealed[index] = bytes.Clone(sealed)
	}
	return nil
}

// retaining has a fixture retain what leaves, and gives the auditor's key.
func retaining(f *fixture) (*vault, *seal.HPKEKey) {
	f.t.Helper()
	auditor, err := seal.GenerateHPKE()
	f.must(err)
	f.release.Announcement = [32]byte{9}
	v := &vault{f: f, sealed: map[uint32][]byte{}}
	f.Retain = &Retention{Deployment: "clinic", Auditor: auditor.Public(), Window: time.Hour, Store: v}
	return v, auditor
}

// open returns what the auditor finds in a place.
func (v *vault) open(auditor *seal.HPKEKey, index uint32) []byte {
	v.f.t.Helper()
	chunk, err := seal.OpenRetained(auditor, seal.RetainedContext{
		Deployment: "clinic", Epoch: v.f.release.Epoch, Index: index, Announcement: v.f.release.Announcement,
	}, v.sealed[index])
	v.f.must(err)
	return chunk
}

// Every chunk that leaves is retained, byte for byte and for the auditor alone, for the window that was asked for.
func TestWhatLeavesIsRetained(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	v, auditor := retaining(f)
	f.must(f.leave(t.Context(), f.release, new(wire.Manifest)))
	if len(v.sealed) != len(f.stored) || len(f.stored) != 6 || v.window != time.Hour {
		t.Fatalf("%d of %d chunks are retained for %s", len(v.sealed), len(f.stored), v.window)
	}
	for i, chunk := range f.stored {
		if !bytes.Equal(v.open(auditor, uint32(i)), chunk) {
			t.Errorf("chunk %d is retained as another one", i)
		}
		if bytes.Contains(v.sealed[uint32(i)], chunk[len(chunk)-16:]) {
			t.Errorf("chunk %d is retained in the clear", i)
		}
	}
}

// A release is not over, so that no manifest names it, before all that left is retained. The next attempt, also of the
// next process, goes on; what was retained before is kept, and is what left.
func TestAReleaseWaitsUntilItIsRetained(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	v, auditor := retaining(f)
	full := errors.New("no room")
	v.fail = func(index uint32) error {
		if index == 5 { // the last
			return full
		}
		return nil
	}
	m := new(wire.Manifest)
	if err := f.leave(t.Context(), f.release, m); !errors.Is(err, full) || m.ChunksDigest != nil {
		t.Fatalf("%v, manifest %v", err, m)
	}
	before := v.sealed[0]
	f.Mixing = &Mixing{
		Reports: f.report, Chunks: f, Disk: f.Disk, Store: f.Store, Source: entropy.New(), Chunk: 5, Retain: f.Retain,
	}
	v.fail = nil
	f.must(f.leave(t.Context(), f.release, m))
	if !bytes.Equal(v.sealed[0], before) || len(v.sealed) != 6 {
		t.Errorf("%d chunks are retained, the first anew: %v", len(v.sealed), !bytes.Equal(v.sealed[0], before))
	}
	var chunks [][]byte
	for i := range uint32(6) {
		chunks = append(chunks, v.open(auditor, i))
	}
	if !slices.EqualFunc(chunks, f.stored, bytes.Equal) {
		t.Error("what is retained is not what left")
	}
}

// What did not leave is not retained.
func TestWhatDoesNotLeaveIsNotRetained(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 10, 3)
	v, _ := retaining(f)
	away := errors.New("the broker is away")
	f.publish = func(index uint32) error {
		if index == 2 {
			return away
		}
		return nil
	}
	if err := f.leave(t.Context(), f.release, new(wire.Manifest)); !errors.Is(err, away) || len(v.sealed) != 2 {
		t.Errorf("%d chunks are retained, %v", len(v.sealed), err)
	}
}

// Nothing of a channel is retained in which that would keep records, or say who took part: its rounds are refused.
func TestOnlyMixedMessagesAreRetained(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, 1)
	retaining(f)
	encodings := []protocol.Encoding{{Scale: 1, NoiseBits: 1, Bias: protocol.BiasHalf,
		Coordinates: []protocol.Coordinate{{Levels: 1}}}}
	for _, c := range plan.Channels() {
		f.Channel = c
		rounds := []plan.Round{{Releases: []plan.Release{{}}}}
		_, err := f.Layout(&plan.Announcement{Plan: plan.Plan{Channel: c, Rounds: rounds}, Encodings: encodings})
		if want := c == plan.Shuffle || c == plan.Local; (err == nil) != want || Retainable(c) != want {
			t.Errorf("%s: %v", c, err)
		}
	}
}

// To open what is retained takes two keys: a round whose analyzer has the auditor's is refused.
func TestTheAnalyzersKeyIsNotTheAuditors(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1, 1)
	_, auditor := retaining(f)
	a := &plan.Announcement{AnalyzerKey: auditor.Public(),
		Plan: plan.Plan{Channel: plan.Shuffle, Rounds: []plan.Round{{}}}}
	if _, err := f.Layout(a); err == nil {
		t.Error("one key opens all of it")
	}
	f.Retain = nil
	if _, err := f.Layout(a); err != nil {
		t.Errorf("where nothing is retained: %v", err)
	}
}

package shuffle

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// shelf is the broker's stream of retained chunks, for workers: what is stored in a place first is kept.
type shelf struct {
	mu     sync.Mutex
	sealed map[uint32][]byte
	window time.Duration
	fail   error // of chunk number 7; nil: none
}

func (s *shelf) PublishRetained(_ context.Context, _ uint64, _, index uint32, sealed []byte, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index == 7 && s.fail != nil {
		return s.fail
	}
	if s.window = d; s.sealed[index] == nil {
		s.sealed[index] = bytes.Clone(sealed)
	}
	return nil
}

// retainingWorkers has the workers of an exchange retain what they forward.
func (x *exchange) retainingWorkers(s *shelf, auditor *seal.HPKEKey) {
	mixer := x.mixer()
	mixer.Retained = s
	x.Exchange.Pool = worker.Inside(x.workers, mixer.Handlers())
	x.Retain = &Retention{Deployment: "test", Auditor: auditor.Public(), Window: time.Hour, Store: s}
}

// Where workers forward, too, a release is not over, so that no manifest names it, before all that left is retained:
// what cannot be retained is an error of the release. The next attempt, of another process, retains what is missing,
// and what the auditor then finds in every place is what left.
func TestAReleaseOfWorkersWaitsUntilItIsRetained(t *testing.T) {
	t.Parallel()
	auditor, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 3} {
		x := newExchange(t, 40, 3, workers)
		s := &shelf{sealed: map[uint32][]byte{}, fail: errors.New("no room")}
		x.retainingWorkers(s, auditor)
		m, err := x.leave()
		if err == nil || m.ChunksDigest != nil {
			t.Fatalf("%d workers: chunk 7 is not retained, and the release is over: %v, manifest %v", workers, err, m)
		}
		if x.chunks[7] == nil || s.sealed[7] != nil {
			t.Fatal("chunk 7 is not where the test needs it: forwarded, and not retained")
		}
		s.fail = nil
		x.begin(4, 3)
		x.retainingWorkers(s, auditor)
		m = new(wire.Manifest)
		_, err = x.Release(t.Context(), x.release, m)
		x.must(err)
		x.whole(m)
		if len(s.sealed) != len(x.chunks) || s.window != time.Hour {
			t.Errorf("%d workers: %d of %d chunks are retained for %s", workers, len(s.sealed), len(x.chunks), s.window)
		}
		for index, chunk := range x.chunks {
			opened, err := seal.OpenRetained(auditor, seal.RetainedContext{
				Deployment: "test", Epoch: x.release.Epoch, Index: index, Announcement: x.release.Announcement,
			}, s.sealed[index])
			if err != nil || !bytes.Equal(opened, chunk) {
				t.Errorf("%d workers: chunk %d is retained as another one: %v", workers, index, err)
			}
		}
	}
}

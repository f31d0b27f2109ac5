package shares

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// crash is a process that crashes at its n-th step, once.
type crash struct {
	mu     sync.Mutex
	n, at  int
	passed []string
}

func (c *crash) step(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.passed = append(c.passed, what)
	if c.n == c.at {
		return fmt.Errorf("%w at step %d, %s", errCrash, c.n, what)
	}
	return nil
}

type crashingMixer struct {
	MixingBroker
	*crash
}

func (c crashingMixer) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	if err := c.step(fmt.Sprintf("before chunk %d", index)); err != nil {
		return err
	}
	if err := c.MixingBroker.PublishChunk(ctx, epoch, round, index, payload); err != nil {
		return err
	}
	return c.step(fmt.Sprintf("after chunk %d", index))
}

func (c crashingMixer) ReadPrepared(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	b, err := c.MixingBroker.ReadPrepared(ctx, epoch, round, index)
	if err == nil {
		err = c.step(fmt.Sprintf("after answer %d", index))
	}
	return b, err
}

func (c crashingMixer) AppendAudit(ctx context.Context, kind string, payload []byte) error {
	if err := c.step("before the statement of the sum"); err != nil {
		return err
	}
	if err := c.MixingBroker.AppendAudit(ctx, kind, payload); err != nil {
		return err
	}
	return c.step("after the statement of the sum")
}

type crashingCounter struct {
	CountingBroker
	*crash
}

func (c crashingCounter) PublishPrepared(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	if err := c.step(fmt.Sprintf("before answer %d", index)); err != nil {
		return err
	}
	if err := c.CountingBroker.PublishPrepared(ctx, epoch, round, index, payload); err != nil {
		return err
	}
	return c.step(fmt.Sprintf("after answer %d", index))
}

func (c crashingCounter) AppendAudit(ctx context.Context, kind string, payload []byte) error {
	if err := c.CountingBroker.AppendAudit(ctx, kind, payload); err != nil {
		return err
	}
	return c.step("after the statement is in the log")
}

// atEveryStep runs a round again and again, with a crash at the first step, at the second, and so on to the last: with
// RIFFLE_LONG, both servers have workers.
func atEveryStep(t *testing.T, run func(*scene, *crash) end) {
	t.Helper()
	d := newDeployment(t)
	for at := 1; ; at++ {
		s, c := d.newScene(size, noise(8, 8)), &crash{at: at}
		if os.Getenv("RIFFLE_LONG") != "" {
			s.crew(2, plainly)
		}
		s.within(s.released(run(s, c), nil), 16)
		if t.Failed() {
			t.Fatalf("after a crash at %q", c.passed[min(at, len(c.passed))-1])
		}
		if c.n < at {
			t.Logf("%d steps", at-1)
			break
		}
		d.must(s.counter(s.countDisk, s.toCount()).Forget(d.Context(), s.a.Epoch, 0))
	}
}

// The shuffler crashes at every step: everything that leaves, leaves as it did, and the sums are those of all members.
func TestAShufflerThatCrashesSendsTheSameBytes(t *testing.T) {
	t.Parallel()
	atEveryStep(t, func(s *scene, c *crash) end {
		return s.runOn(failing{s.mixDisk, c.step}, crashingMixer{s.toMix(), c}, s.countDisk, s.toCount())
	})
}

// The analyzer crashes at every step: its answers and its statement are the same, and so are the counts, once they are
// durable.
func TestAnAnalyzerThatCrashesAnswersTheSame(t *testing.T) {
	t.Parallel()
	atEveryStep(t, func(s *scene, c *crash) end {
		return s.runOn(s.mixDisk, s.toMix(), failing{s.countDisk, c.step}, crashingCounter{s.toCount(), c})
	})
}

// What was joined once is what a later process returns, and its noise is not drawn again.
func TestNoiseIsDrawnOnce(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size, noise(1<<20, 1<<20))
	first := s.released(s.run(), nil)
	again := s.released(s.run(), nil)
	for i := range first {
		for j := range first[i] {
			if first[i][j] != again[i][j] {
				t.Errorf("release %d, coordinate %d: %d, and then %d", i, j, first[i][j], again[i][j])
			}
		}
	}
}

// A round that was counted is the chunks that it was counted from: a later process that is shown others, such as a
// second sum from a shuffler whose broker was set back, refuses them, and draws no noise for them.
func TestARoundIsCountedFromOneSetOfChunks(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size, noise(0, 64))
	first := s.run()
	s.released(first, nil)
	drawn := 0
	s.counting = func(c *Counting) { c.Source = counted{&drawn} }
	c := s.counter(s.countDisk, s.toCount())
	r, err := c.newCounting(s.Context(), &channel.Round{Announcement: s.a, Digest: s.digest, Key: s.AnalyzerKey})
	s.must(err)
	chunks := [32]byte(first.manifest.ChunksDigest)
	if again, err := c.counts(r, chunks); err != nil || !reflect.DeepEqual(again, first.counts) {
		t.Errorf("the same chunks: %v, %v", again, err)
	}
	chunks[0] ^= 1
	if other, err := c.counts(r, chunks); !errors.Is(err, reason(wire.RefusalSecondSet)) || other != nil {
		t.Errorf("other chunks: %v, %v", other, err)
	}
	if drawn != 0 {
		t.Error("the analyzer's noise is drawn again")
	}
}

// What was stored of a round is gone when it is forgotten, but for who took part and the epoch's commitment.
func TestForgetLeavesOnlyWhoTookPart(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	s := d.newScene(size)
	s.released(s.run(), nil)
	c := s.counter(s.countDisk, s.toCount())
	for range 2 {
		d.must(c.Forget(d.Context(), s.a.Epoch, 0))
		d.must(s.mixer(s.mixDisk, s.toMix()).Forget(s.a.Epoch, 0))
	}
	left := files(t, s.countDisk)
	if len(left) != 3 || !left["participants"] || !left["participants-1"] || !left["shares-secret-1"] {
		t.Errorf("the analyzer keeps %v", left)
	}
	if left := files(t, s.mixDisk); len(left) != 0 {
		t.Errorf("the shuffler keeps %v", left)
	}
	if _, err := s.shuffler.Prepared.ReadPrepared(d.Context(), s.a.Epoch, 0, 1); err == nil {
		t.Error("an answer is left at the broker")
	}
}

func files(t *testing.T, d channel.Disk) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	entries, err := os.ReadDir(string(d.(channel.Folder)))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all[e.Name()] = true
	}
	return all
}

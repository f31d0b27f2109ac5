package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The same reports must give the same sums: one count that differs, is missing or is of another release ends the run.
func TestOtherSumsAreFound(t *testing.T) {
	counts := func(all ...[]uint64) *wire.Counts {
		c := &wire.Counts{}
		for _, ones := range all {
			c.Releases = append(c.Releases, wire.ReleaseCounts{Ones: ones})
		}
		return c
	}
	for name, empty := range map[string]*wire.Counts{
		"nothing": counts(), "a release without sums": counts([]uint64{1}, nil),
	} {
		if (&kept{}).compare(empty) == nil {
			t.Errorf("%s is taken for sums to compare with", name)
		}
	}
	k := &kept{}
	if err := k.compare(counts([]uint64{5, 6}, []uint64{7})); err != nil {
		t.Error(err)
	}
	if err := k.compare(counts([]uint64{5, 6}, []uint64{7})); err != nil {
		t.Errorf("the same sums: %v", err)
	}
	for name, other := range map[string]*wire.Counts{
		"one more":           counts([]uint64{5, 6}, []uint64{8}),
		"exchanged":          counts([]uint64{6, 5}, []uint64{7}),
		"a release too few":  counts([]uint64{5, 6}),
		"a coordinate fewer": counts([]uint64{5}, []uint64{7}),
		"a release more":     counts([]uint64{5, 6}, []uint64{7}, []uint64{8}),
		"a coordinate more":  counts([]uint64{5, 6}, []uint64{7, 0}),
		"nothing":            counts(),
	} {
		if k.compare(other) == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

// Reports are kept for one announcement and one commitment: others would be refused or, worse, count nothing.
func TestKeptReportsAreOfOneAnnouncement(t *testing.T) {
	k := &kept{digest: [32]byte{1}, commitment: []byte{2}}
	if err := k.same([32]byte{1}, []byte{2}); err != nil {
		t.Error(err)
	}
	if k.same([32]byte{3}, []byte{2}) == nil || k.same([32]byte{1}, nil) == nil {
		t.Error("another announcement or commitment is taken for the same")
	}
}

// The sum by which lost and altered junk is found depends on no order, and on every message.
func TestTheSumOfMessages(t *testing.T) {
	const size = 52
	a := junkPayload(10*size, 1)
	b := append(append([]byte(nil), a[3*size:]...), a[:3*size]...)
	if sum(a, size) != sum(b, size) {
		t.Error("another order has another sum")
	}
	b[4*size] ^= 1
	if sum(a, size) == sum(b, size) || sum(a, size) == sum(a[size:], size) {
		t.Error("an altered or lost message has the same sum")
	}
	if c := junkPayload(10*size, 2); sum(a, size) == sum(c, size) {
		t.Error("two devices send the same junk")
	}
}

// A process that is killed when all is counted shows nothing, and is not shown as if it did.
func TestAKillComesInTime(t *testing.T) {
	w := &Working{Killed: "shuffler", KilledAfter: 2}
	if w.inTime(2.1) != nil || (&Working{}).inTime(1) != nil {
		t.Error("a kill in time is refused")
	}
	if !errors.Is(w.inTime(1.9), errLate) {
		t.Error("a kill after the end is shown")
	}
}

// Of several measurements the least counts, each time by itself.
func TestTheLeastOfTwoMeasurements(t *testing.T) {
	a, b := streamed{484, 1, 6, 3, 30}, streamed{484, 2, 5, 4, 1}
	if got, want := a.orLess(b), (streamed{484, 1, 5, 3, 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A run whose kill came too late is made again with half the time for it, a few times; another fault ends it at once.
func TestALateKillIsTriedEarlier(t *testing.T) {
	var tried []float64
	late := func(times int, last error) func(float64) error {
		tried = nil
		return func(within float64) error {
			if tried = append(tried, within); len(tried) <= times {
				return fmt.Errorf("bench: %w", errLate)
			}
			return last
		}
	}
	if err := inHalfTheTime(8, late(2, nil)); err != nil || !slices.Equal(tried, []float64{8, 4, 2}) {
		t.Errorf("%v after %v", err, tried)
	}
	if err := inHalfTheTime(8, late(100, nil)); !errors.Is(err, errLate) || len(tried) != killTries {
		t.Errorf("%v after %d runs", err, len(tried))
	}
	fault := errors.New("other sums")
	if err := inHalfTheTime(8, late(1, fault)); !errors.Is(err, fault) || len(tried) != 2 {
		t.Errorf("%v after %d runs", err, len(tried))
	}
}

// SetupOfTest is what a run needs.
func SetupOfTest(t *testing.T) Setup {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shown := progress.New(io.Discard, progress.Options{Mode: progress.Quiet})
	t.Cleanup(shown.Close)
	return Setup{Executable: self, Dir: t.TempDir(), Progress: shown}
}

// A shuffler that releases nothing ends the run, with the end of its log: nothing else would end it.
func TestASilentShufflerEndsTheRun(t *testing.T) {
	if testing.Short() {
		t.Skip("what runs at the same time here, the tests of the roles and of the load test cover")
	}
	t.Parallel()
	s := &stand{
		Setup: SetupOfTest(t), folder: t.TempDir(),
		users: 70, dim: 2, channel: plan.Shuffle, junk: true, silence: time.Second,
	}
	defer s.stop()
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.receive(ctx, 0); err == nil || !strings.Contains(err.Error(), "sent nothing for 1s") ||
		!strings.Contains(err.Error(), `"role":"shuffler"`) {
		t.Errorf("a shuffler that has nothing to release: %v", err)
	}
}

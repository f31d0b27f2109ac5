package bench

import (
	"errors"
	"testing"

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

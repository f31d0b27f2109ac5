package cohort

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// hostKey is a host's key. Those of numbers that are 3 apart have their first eight bytes in common.
func hostKey(n uint64) (key [32]byte) {
	binary.BigEndian.PutUint64(key[:], n%3)
	binary.BigEndian.PutUint64(key[8:], n)
	return key
}

// Hosts keep their places, also those whose keys begin alike; devices are a set; and a round's reports are those that
// were put and not removed, in order of slots.
func TestTheRosterIsWhatWasEntered(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := hosts{place: map[[8]byte]uint32{}, rest: map[[32]byte]uint32{}}
		all, model := enrolled{}, map[DeviceID]bool{}
		for range rapid.IntRange(1, 60).Draw(rt, "operations") {
			number := rapid.OneOf(rapid.Uint32Range(0, 70), rapid.Uint32()).Draw(rt, "number")
			id := DeviceID{Host: hostKey(rapid.Uint64Range(0, 8).Draw(rt, "host")), Number: number}
			key, known := h.key(id)
			if in := known && all.has(key); in != model[id] {
				rt.Fatalf("%v is in the set: %v", id, in)
			}
			if rapid.Bool().Draw(rt, "add") {
				all.add(deviceKey{h.add(id.Host), id.Number})
				model[id] = true
			}
		}
		for id := range model {
			key, known := h.key(id)
			if !known || !all.has(key) || h.id(key) != id {
				rt.Fatalf("%v is lost", id)
			}
			if other := (deviceKey{key.host, key.number ^ 32}); all.has(other) != model[h.id(other)] {
				rt.Fatalf("%v came with %v", h.id(other), id)
			}
		}
		var r reports
		sequences := map[uint32]uint64{}
		for range rapid.IntRange(0, 40).Draw(rt, "reports") {
			slot := rapid.Uint32Range(0, 3000).Draw(rt, "slot")
			if a := r.get(slot); a == nil {
				sequences[slot] = rapid.Uint64Range(0, 5).Draw(rt, "sequence")
				r.put(slot, sequences[slot], Digest{byte(slot)})
			} else if rapid.Bool().Draw(rt, "remove") {
				r.remove(slot)
				delete(sequences, slot)
			}
		}
		last, n := -1, 0
		for slot, a := range r.each {
			if sequence, ok := sequences[slot]; !ok || a.sequence() != sequence || a.digest != (Digest{byte(slot)}) {
				rt.Fatalf("slot %d has %+v", slot, a)
			}
			if int(slot) <= last {
				rt.Fatalf("slot %d after %d", slot, last)
			}
			last = int(slot)
			n++
		}
		if n != len(sequences) || r.count != n {
			rt.Fatalf("%d reports, counted as %d, want %d", n, r.count, len(sequences))
		}
	})
}

// What a device that takes part costs in memory, with its report: docs/operations.md says so.
func TestAParticipantTakesLittleMemory(t *testing.T) {
	devices := 1 << 15
	if os.Getenv("RIFFLE_LONG") != "" {
		devices = 1_000_000
	}
	for name, c := range map[string]struct {
		each int // devices of a host
		most float64
	}{"a host for each": {1, 200}, "a thousand on a host": {1000, 130}} {
		a := &plan.Announcement{Epoch: 1, Cohort: plan.Cohort{Size: uint32(devices), Minimum: 1}}
		a.Plan.Rounds = make([]plan.Round, 1)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := NewState(Admission{Minimum: 1})
		apply := func(ev *Event) {
			if err := s.Apply(ev); err != nil {
				t.Fatal(err)
			}
		}
		apply(OpenedBy(a, Digest{1}, channel.Layout{Messages: 1}, start))
		for i := range devices {
			var host [32]byte
			binary.BigEndian.PutUint64(host[:], uint64(i/c.each)*0x9e3779b97f4a7c15)
			apply(&Event{Enrolled: &Enrolled{Host: host[:], Device: uint32(i % c.each), ReportAt: int64(i)}})
		}
		for i := range devices {
			apply(&Event{Admitted: &Admitted{Slot: uint32(i), Digest: make([]byte, 32), Sequence: uint64(i)}})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		bytes := float64(after.HeapAlloc-before.HeapAlloc) / float64(devices)
		if t.Logf("%s: %.0f bytes for each of %d", name, bytes, devices); bytes > c.most {
			t.Errorf("%s: %.0f bytes for each device, more than %.0f", name, bytes, c.most)
		}
		runtime.KeepAlive(s)
	}
}

// A journal that admits the report of a slot that nobody holds is not this shuffler's: the slot takes no memory.
func TestAReportOfNobodysSlotIsNoEvent(t *testing.T) {
	a := &plan.Announcement{Epoch: 1, Cohort: plan.Cohort{Size: 10, Minimum: 1}}
	a.Plan.Rounds = make([]plan.Round, 1)
	s := NewState(Admission{Minimum: 1})
	for i, ev := range []*Event{
		OpenedBy(a, Digest{1}, channel.Layout{Messages: 1}, start),
		{Enrolled: &Enrolled{Host: make([]byte, 32)}},
		{Admitted: &Admitted{Slot: 1, Digest: make([]byte, 32)}},
		{Admitted: &Admitted{Slot: 1 << 31, Digest: make([]byte, 32)}},
		{Admitted: &Admitted{Slot: 0, Digest: make([]byte, 32)}},
	} {
		if err := s.Apply(ev); (err != nil) != (i == 2 || i == 3) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if n := s.epoch.rounds[0].reports.bySlot.len(); n != 1 {
		t.Errorf("%d slots are kept", n)
	}
}

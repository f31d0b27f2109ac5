package cohort

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// journaled is the journal of a cohort of four devices, of whom three are admitted, one of them is excluded, and the
// round is released.
func journaled() [][]byte {
	host, key := bytes.Repeat([]byte{9}, 32), bytes.Repeat([]byte{1}, 32)
	events := []*Event{{Opened: &Opened{
		At: start.UnixMilli(), Epoch: 1, Digest: key, Size: 4, Minimum: 2, Rounds: 1,
		Timing: Timing{RewardWindow: 1000, Jitter: 200, Grace: 500},
	}}}
	for i := range uint32(4) {
		events = append(events, &Event{Enrolled: &Enrolled{Host: host, Device: i, ReportAt: start.UnixMilli() + 1000}})
	}
	for i := range uint32(3) {
		events = append(events, &Event{Admitted: &Admitted{Slot: i, Digest: key, Sequence: uint64(i) + 1}})
	}
	events = append(events, &Event{Excluded: Repeats(0, 1)},
		&Event{Passed: &Passed{At: start.UnixMilli() + 2000}},
		&Event{Committed: &Committed{Outcome: wire.Released, Refused: map[wire.Refusal]uint64{wire.RefusalLate: 1}}},
		&Event{Rejected: &Excluded{Slots: []uint32{2}, Reasons: []wire.Refusal{wire.RefusalBadProof}}},
		&Event{Finished: &Finished{}}, &Event{Keys: &Keys{Number: 1, Digest: key}})
	all := make([][]byte, len(events))
	for i, ev := range events {
		all[i] = ev.Encode()
	}
	return all
}

// drawn is the journal of a cohort of panels.
func drawn() [][]byte {
	host, key := bytes.Repeat([]byte{9}, 32), bytes.Repeat([]byte{1}, 32)
	var all [][]byte
	for i := range uint32(3) {
		all = append(all, (&Event{Registered: &Registered{Host: host, Device: i}}).Encode())
	}
	for _, ev := range []*Event{
		{Opened: &Opened{At: start.UnixMilli(), Epoch: 1, Digest: key, Size: 2, Minimum: 2, Rounds: 1,
			Panel: &PanelTerms{Registered: 3, Records: 1}, Commitment: key}},
		{Pooled: &Pooled{At: start.UnixMilli(), Registered: 3, Statement: []byte{1}, Digest: key}},
		{Drawn: &Drawn{At: start.UnixMilli(), Contribution: key, Statement: []byte{2}}},
	} {
		all = append(all, ev.Encode())
	}
	return all
}

// FuzzEvent reads any bytes as an event of the journal. What is read has one kind, and is read again as the same after
// it is written.
func FuzzEvent(f *testing.F) {
	for _, b := range append(journaled(), drawn()...) {
		f.Add(b)
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"passed":{"at_ms":1},"finished":{"round":0}}`))
	f.Add([]byte(`{"forgotten":{"round":0}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		ev, err := DecodeEvent(b)
		if err != nil {
			if ev != nil {
				t.Fatal("an event with an error")
			}
			return
		}
		set := 0
		for v, i := reflect.ValueOf(*ev), 0; i < v.NumField(); i++ {
			if !v.Field(i).IsNil() {
				set++
			}
		}
		again := ev.Encode()
		other, err := DecodeEvent(again)
		if set != 1 || err != nil || !bytes.Equal(other.Encode(), again) {
			t.Fatalf("%s has %d kinds, and is read as %s, %v", b, set, again, err)
		}
	})
}

// FuzzJournal replays any lines as a journal. What no decision can have made is refused without a panic, and whatever
// is replayed keeps what a release rests on: every report is of a slot that is somebody's, no slot that was taken out
// has one, and no device has two slots.
func FuzzJournal(f *testing.F) {
	for _, lines := range [][][]byte{journaled(), drawn()} {
		f.Add(bytes.Join(lines, []byte("\n")))
		f.Add(bytes.Join(append(lines, lines[1:]...), []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, journal []byte) {
		state := NewState(Admission{Minimum: 2})
		for line := range bytes.SplitSeq(journal, []byte("\n")) {
			ev, err := DecodeEvent(line)
			if err != nil {
				return
			}
			allocated.ForInput(t, len(line), func() { err = state.Apply(ev) })
			if err != nil {
				return
			}
			if err := sound(state); err != nil {
				t.Fatalf("after %s: %v", line, err)
			}
		}
		again := NewState(Admission{Minimum: 2})
		for line := range bytes.SplitSeq(journal, []byte("\n")) {
			ev, err := DecodeEvent(line)
			if err == nil {
				err = again.Apply(ev)
			}
			if err != nil {
				t.Fatalf("replayed again: %v", err)
			}
		}
		if !reflect.DeepEqual(again, state) {
			t.Fatal("the same journal gives another state")
		}
	})
}

// sound says what a release cannot rest on.
func sound(s *State) error {
	e := s.epoch
	if e == nil {
		return nil
	}
	if len(e.slotOf) != e.slots.len() {
		return fmt.Errorf("%d devices have %d slots", len(e.slotOf), e.slots.len())
	}
	for i, r := range e.rounds {
		for slot := range r.reports.each {
			if int(slot) >= e.slots.len() {
				return fmt.Errorf("round %d has a report of slot %d of %d", i, slot, e.slots.len())
			}
			if why, out := r.excluded[slot]; out {
				return fmt.Errorf("round %d has a report of slot %d, which was taken out: %v", i, slot, why)
			}
		}
		if len(r.digest) != 32 || r.done && r.outcome == wire.Undecided {
			return fmt.Errorf("round %d is over and undecided", i)
		}
	}
	return nil
}

// What no decision can have made is refused: each of these lines behind a journal whose round is not over.
func TestWhatNoDecisionMadeIsRefused(t *testing.T) {
	t.Parallel()
	lines := journaled()
	enrolled, admitted, excluded := lines[1], lines[6], lines[8]
	begun := lines[:9] // up to the exclusion of slot 1
	for what, line := range map[string]string{
		"a second slot":                 string(enrolled),
		"a report that was taken out":   string(admitted),
		"a report out of no report":     string(excluded),
		"an end before the commit":      `{"finished":{"round":0}}`,
		"an outcome that is none":       `{"committed":{"round":0,"outcome":7}}`,
		"no outcome":                    `{"committed":{"round":0,"outcome":0}}`,
		"an adopted outcome of no kind": `{"adopted":{"round":0,"outcome":0,"enrolled":4,"reports":2}}`,
		"panels that nobody may be in": `{"opened":{"epoch":2,"digest":"` + key +
			`","panel":{"registered":3,"records":0}}}`,
		"an event of two kinds":          `{"passed":{"at_ms":1},"keys":{"number":2,"digest":"AA=="}}`,
		"an event of a kind to come":     `{"forgotten":{"round":0}}`,
		"an event of no kind":            `{}`,
		"two events":                     `{"passed":{"at_ms":1}}{"passed":{"at_ms":2}}`,
		"a known event with more fields": `{"passed":{"at_ms":1,"by":"x"}}`,
	} {
		state := NewState(Admission{Minimum: 2})
		apply := func(line []byte) error {
			ev, err := DecodeEvent(line)
			if err != nil {
				return err
			}
			return state.Apply(ev)
		}
		for _, line := range begun {
			if err := apply(line); err != nil {
				t.Fatal(err)
			}
		}
		if err := apply([]byte(line)); err == nil {
			t.Errorf("%s is replayed", what)
		}
	}
}

// key is 32 bytes in base64.
const key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="

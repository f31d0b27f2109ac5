package shuffler

import (
	"bytes"
	"testing"

	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// copies makes reports whose bit messages repeat each other's: the message at one place of the first is put at another
// of the second, but for its label, with which the report would be none of the plan's.
func (s *scene) copies(from, to uint32, whole bool) [][]byte {
	s.t.Helper()
	first := s.report(from)
	bits := s.Open(first, s.opened).Payload
	size := seal.EncapsulatedSize // the message's public key alone: the rest is the second's own
	if whole {
		size = seal.BitSize
	}
	repeat := func(of []byte) func(r *wire.Report) {
		return func(r *wire.Report) {
			message := r.Payload[3*seal.BitSize:]
			label := bytes.Clone(seal.Label(message))
			copy(message[:size], of[7*seal.BitSize:])
			copy(seal.Label(message), label)
		}
	}
	if from == to {
		return [][]byte{s.report(from, func(r *wire.Report) { repeat(r.Payload)(r) })}
	}
	return [][]byte{first, s.report(to, repeat(bits))}
}

// A report that repeats a bit message, its own or another report's, is refused before the membership is fixed, with all
// that take part in the repetition; the others are released as if it had not been. So no device can have the analyzer
// refuse a release for a copy.
func TestRepeatedMessagesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to uint32
		whole    bool
		restart  bool
		refused  int
	}{
		"within a report":              {3, 3, true, false, 1},
		"of another report":            {3, 9, true, false, 2},
		"a public key within a report": {3, 3, false, false, 1},
		"a public key of another":      {0, 11, false, false, 2},
		"by way of a restart":          {3, 9, true, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.start()
			s.open(s.announcement())
			s.enrol(12)
			for _, r := range s.copies(c.from, c.to, c.whole) {
				s.send(r)
			}
			if c.restart {
				s.admitted(2)
				s.must(s.stop())
				s.start()
			}
			for i := range uint32(12) {
				if i != c.from && i != c.to {
					s.send(s.report(i))
				}
			}
			m := s.manifest(1, 0)
			s.finished()
			want := 12 - c.refused
			messages := uint64(want * s.opened.ReportMessages())
			if m.Outcome != wire.Released || int(m.Reports) != want || m.Messages != messages {
				t.Errorf("manifest %v", m)
			}
			refused := map[wire.Refusal]int{wire.RefusalRepeatedMessage: c.refused}
			testbed.RefusedIn(t, m, refused, refused)
			seen := map[string]bool{}
			for _, message := range split(bits(t, s.left(1, 0))) {
				if key := string(message[:seal.EncapsulatedSize]); seen[key] {
					t.Fatal("a repeated message left")
				} else {
					seen[key] = true
				}
			}
			s.account(12-c.refused, 0, map[wire.Refusal]int{wire.RefusalRepeatedMessage: c.refused})
			s.forgotten()
		})
	}
}

func split(bits []byte) (all [][]byte) {
	for ; len(bits) > 0; bits = bits[seal.BitSize:] {
		all = append(all, bits[:seal.BitSize])
	}
	return all
}

// What repeats a message is not released even where the rest is too few, and the slot takes no other report.
func TestRepeatedMessagesLeaveTooFew(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	for _, r := range s.copies(1, 2, true) {
		s.send(r)
	}
	for i := range uint32(9) { // with both eleven, without them nine of a minimum of ten
		s.send(s.report(3 + i))
	}
	s.pass(11)
	m := s.manifest(1, 0)
	s.finished()
	if m.Outcome != wire.Destroyed || m.Reports != 9 || len(s.left(1, 0)) != 0 {
		t.Errorf("manifest %v", m)
	}
	refused := map[wire.Refusal]int{wire.RefusalRepeatedMessage: 2}
	testbed.RefusedIn(t, m, refused, refused)
	s.account(0, 9, map[wire.Refusal]int{wire.RefusalRepeatedMessage: 2})
}

// A membership that was committed although its reports could not be read, and so not held against each other, is looked
// at before it leaves: one that repeats a message is destroyed.
func TestACommittedRepetitionDoesNotLeave(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	for _, r := range s.copies(1, 2, true) {
		s.send(r)
	}
	for i := range uint32(9) { // one is missing: the round waits
		s.send(s.report(3 + i))
	}
	s.admitted(11)
	s.must(s.stop())
	sh, err := s.configured().open()
	s.must(err)
	s.must(sh.decide(func(*cohort.State) (*cohort.Event, error) {
		return &cohort.Event{Committed: &cohort.Committed{Outcome: wire.Released}}, nil
	}))
	s.must(sh.Close())
	s.start()
	if m := s.manifest(1, 0); m.Outcome != wire.Destroyed || len(s.left(1, 0)) != 0 {
		t.Errorf("manifest %v", m)
	}
	s.finished()
}

package cohort

import (
	"bytes"
	"slices"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// Adopt decides on the shuffler's own manifest of a round, verified. It gives an event where the manifest states what
// no event so far does: that the round is over, or that another release than the committed one left. Then the journal
// is an older copy whose later events are lost, and the manifest's word stands for them. The members are known where
// they are those that it names.
func (s *State) Adopt(m *wire.Manifest) *Event {
	e := s.epoch
	if e == nil || m.Epoch != e.number || int(m.Round) >= len(e.rounds) || e.rounds[m.Round].done {
		return nil
	}
	r := e.rounds[m.Round]
	var digests [][32]byte
	for _, a := range r.reports.each {
		digests = append(digests, a.digest)
	}
	all := wire.ReportsDigest(digests)
	known := m.Outcome == wire.Released && bytes.Equal(m.ReportsDigest, all[:])
	left := uint64(0)
	if m.Outcome == wire.Destroyed {
		left = m.Messages
	}
	if r.outcome == m.Outcome && (known || m.Outcome == wire.Destroyed && left == r.left) &&
		int(m.Reports) == r.reports.count {
		return nil // committed here: only its end is missing
	}
	return &Event{Adopted: &Adopted{
		Round: m.Round, Outcome: m.Outcome, Enrolled: m.Enrolled, Reports: m.Reports, Left: left, Members: known,
	}}
}

// Repeats takes the reports of these slots out of a round because they repeat a message.
func Repeats(round uint32, slots ...uint32) *Excluded {
	return &Excluded{Round: round, Slots: slots,
		Reasons: slices.Repeat([]wire.Refusal{wire.RefusalRepeatedMessage}, len(slots))}
}

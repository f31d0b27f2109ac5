package shuffler

import (
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
)

// keepEvent appends an event that became part of the state to the journal. Where it opens an epoch and there are events
// enough before it, a snapshot takes their place. The lock is held.
func (s *Shuffler) keepEvent(ev *cohort.Event) {
	entry := ev.Encode()
	if o := ev.Opened; o != nil && o.Round == 0 && s.compacting.Due() {
		snapshot := s.state.Snapshot()
		before := snapshot.Encode()
		s.compacting.Read(snapshot, len(before))
		s.latest = s.journal.Replace(before, entry)
	} else {
		s.latest = s.journal.Append(entry)
	}
	s.compacting.Read(ev, len(entry))
}

package shuffler

// compacting decides when the journal's events are replaced by a snapshot.
type compacting struct {
	after    int // bytes of events that are worth a snapshot; 0: compactAfter
	snapshot int // bytes of the last one
	events   int // bytes of events behind it
}

// read counts an entry of the journal.
func (c *compacting) read(ev *Event, size int) {
	if ev.Snapshot != nil {
		*c = compacting{after: c.after, snapshot: size}
		return
	}
	c.events += size
}

// due tells whether a snapshot is to be written.
func (c *compacting) due() bool {
	after := c.after
	if after == 0 {
		after = compactAfter
	}
	return c.events >= max(after, c.snapshot)
}

// keepEvent appends an event that became part of the state to the journal. Where it opens an epoch and there are events
// enough before it, a snapshot takes their place. The lock is held.
func (s *Shuffler) keepEvent(ev *Event) {
	entry := ev.Encode()
	if o := ev.Opened; o != nil && o.Round == 0 && s.compacting.due() {
		snapshot := s.state.snapshot(s.rounds)
		before := snapshot.Encode()
		s.compacting.read(snapshot, len(before))
		s.latest = s.journal.Replace(before, entry)
	} else {
		s.latest = s.journal.Append(entry)
	}
	s.compacting.read(ev, len(entry))
}

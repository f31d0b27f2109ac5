package cohort

// Compaction decides when the journal's events are replaced by a snapshot.
type Compaction struct {
	After    int // bytes of events that are worth a snapshot; 0: CompactAfter
	snapshot int // bytes of the last one
	events   int // bytes of events behind it
}

// Read counts an entry of the journal.
func (c *Compaction) Read(ev *Event, size int) {
	if ev.Snapshot != nil {
		*c = Compaction{After: c.After, snapshot: size}
		return
	}
	c.events += size
}

// Due reports whether a snapshot is to be written.
func (c *Compaction) Due() bool {
	after := c.After
	if after == 0 {
		after = CompactAfter
	}
	return c.events >= max(after, c.snapshot)
}

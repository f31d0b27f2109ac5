package simulation

import (
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
)

// What a shuffler has the broker forget, and what it leaves out of its own journal, nobody needs any more.

// forgotten sees that the broker is to forget all reports up to a sequence: of those that are admitted, each one's
// round has its manifest out.
func (o *oracle) forgotten(i *incarnation, upTo uint64) {
	type place struct{ round, slot uint32 }
	epoch, needed := uint64(0), map[place]uint64{}
	drop := func(x *cohort.Excluded) {
		for _, slot := range x.Slots {
			delete(needed, place{x.Round, slot})
		}
	}
	for _, ev := range i.events() {
		switch {
		case ev.Opened != nil && ev.Opened.Epoch != epoch: // which is only where the one before is over
			epoch = ev.Opened.Epoch
			clear(needed)
		case ev.Admitted != nil:
			needed[place{ev.Admitted.Round, ev.Admitted.Slot}] = ev.Admitted.Sequence
		case ev.Excluded != nil:
			drop(ev.Excluded)
		case ev.Rejected != nil:
			drop(ev.Rejected)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	lost := 0
	for at, sequence := range needed {
		if sequence <= upTo && !o.at(round{epoch, at.round}).out {
			lost++
		}
	}
	if lost > 0 {
		o.w.violated("forgotten", "the broker is to forget %d admitted reports of epoch %d whose release is not out",
			lost, epoch)
	}
}

// replaced sees that a snapshot takes the place of a journal's events: who asks for a slot, or registers, hears from
// the one what they would hear from the other.
func (o *oracle) replaced(i *incarnation, name string, lines []*line) {
	if name != journalFile {
		return
	}
	i.disk.mu.Lock()
	before := slices.Clone(i.disk.journals[name])
	i.disk.mu.Unlock()
	for _, e := range lines {
		if e.all == nil {
			before = append(before, e.b)
			continue
		}
		opened := e.all[len(e.all)-1]
		o.same(o.replayed(append(before, opened)), o.replayed(e.all), o.event(opened).Opened)
		before = e.all
	}
}

func (o *oracle) replayed(entries [][]byte) *cohort.State {
	s := cohort.NewState(cohort.Admission{Minimum: least})
	for _, entry := range entries {
		ev := o.event(entry)
		if ev == nil {
			o.w.violated("snapshot", "an entry of the journal is no event")
			return s
		}
		if err := s.Apply(ev); err != nil {
			o.w.violated("snapshot", "the journal cannot be replayed: %v", err)
			return s
		}
	}
	return s
}

// same holds two states after the opening of an epoch against each other, by what every device would hear of them.
func (o *oracle) same(events, snapshot *cohort.State, opened *cohort.Opened) {
	if !events.Clock().Equal(snapshot.Clock()) {
		o.w.violated("snapshot", "it is of %v, and the events of %v", snapshot.Clock(), events.Clock())
	}
	now := time.UnixMilli(opened.At)
	for _, keys := range o.w.keys.hosts {
		for number := range uint32(capacity) {
			id := cohort.DeviceID{Host: [32]byte(keys.identity.Public()), Number: number}
			hears := func(s *cohort.State) (all [2]string) {
				_, _, ev, err := s.Enrol(id, nil, opened.Epoch, cohort.Digest(opened.Digest), now)
				all[0] = heard(ev, err)
				_, ev, err = s.Register(id, nil)
				all[1] = heard(ev, err)
				return all
			}
			if a, b := hears(events), hears(snapshot); a != b {
				o.w.violated("snapshot", "device %d hears %q of the events, and %q of the snapshot that replaces them",
					number, a, b)
				return
			}
		}
	}
}

// heard is what a device hears, as text.
func heard(ev *cohort.Event, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case ev != nil:
		return "it is taken in"
	}
	return "it was taken in"
}

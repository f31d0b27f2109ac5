package randomizer

import "fmt"

// A person may have the host forget them, and may opt out of being sampled. Neither shows to others, but for what the
// absence of one who would have come shows: a report that was promised leaves at its time as the null record, and a
// device that is registered for panels, which the protocol has no way to take back, goes on reporting null records.
//
// What a person has spent is kept all the same, under the keyed hash of their name, and so is that they opted out: who
// comes back after an erasure is the one who was there, and is not counted twice.

// forgetting forgets people.
type forgetting struct {
	*core
	places   *places
	promises *promises
	reports  *reports
	times    played
}

// Erase forgets all of a device but what it has promised and spent, and whether it opted out: from memory at once, and
// from the store's files when it returns. A report that is promised leaves as the null record, and what it left in the
// files is overwritten then. One that was sealed already leaves as it is. Whose slot is just being asked for is
// forgotten once the answer is that there is none.
func (f *forgetting) Erase(name string) error {
	if f.c.DryRun { // it knows nobody
		return nil
	}
	f.times.forget(name)
	dev := f.places.get(name)
	if dev == nil {
		return nil
	}
	dev.mu.Lock()
	f.promises.blank(dev)
	f.reports.scrubAfter(dev.state.Number)
	_, err := f.places.depart(dev)
	dev.erased = dev.question != nil
	dev.mu.Unlock()
	if err == nil {
		err = f.store.Scrub()
	}
	if err != nil {
		return fmt.Errorf("randomizer: a device cannot be forgotten: %w", err)
	}
	return nil
}

// OptOut has a device never be sampled again, or lifts that. What it has promised is reported as the null record.
func (f *forgetting) OptOut(name string, out bool) error {
	if f.c.DryRun {
		return nil
	}
	if err := f.places.optOut(f.store.Key(name), out); err != nil || !out {
		return err
	}
	if dev := f.places.get(name); dev != nil { // after the mark: who asks from now on sees it
		dev.mu.Lock()
		f.promises.blank(dev)
		dev.mu.Unlock()
	}
	return nil
}

// OptedOut reports whether a device opted out.
func (f *forgetting) OptedOut(name string) bool { return f.places.isOut(f.store.Key(name)) }

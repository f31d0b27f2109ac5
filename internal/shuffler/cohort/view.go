package cohort

import (
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// First is the smallest sequence of a report that a round still needs; ok is false where none does. A round needs its
// reports until its manifest is out: over is one whose manifest is out already, or nil.
func (s *latest) First(over *Release) (first uint64, ok bool) {
	if s.epoch == nil {
		return 0, false
	}
	for i, r := range s.epoch.rounds {
		if r.done || over != nil && over.Epoch == s.epoch.number && int(over.Round) == i {
			continue
		}
		for _, a := range r.reports.each {
			if !ok || a.sequence() < first {
				first, ok = a.sequence(), true
			}
		}
	}
	return first, ok
}

// Round is a round that was opened.
type Round struct {
	Epoch  uint64
	Round  uint32
	Digest Digest
	Layout channel.Layout
}

// Last is the latest round that was opened; ok is false before the first.
func (s *latest) Last() (r Round, ok bool) {
	e := s.epoch
	if e == nil {
		return Round{}, false
	}
	n := len(e.rounds) - 1
	return Round{e.number, uint32(n), e.rounds[n].digest, e.rounds[n].layout}, true
}

// Knows reports whether a round was opened here, or lies behind one that was.
func (s *latest) Knows(epoch uint64, round uint32) bool {
	return s.epoch != nil && (epoch < s.epoch.number || epoch == s.epoch.number && int(round) < len(s.epoch.rounds))
}

// Finished reports whether a round is over.
func (s *latest) Finished(epoch uint64, round uint32) bool {
	return s.Knows(epoch, round) && (epoch < s.epoch.number || s.epoch.rounds[round].done)
}

// Admitted are the places in the stream of the open round's reports; nil where no round is open.
func (s *latest) Admitted() map[uint64]bool {
	e := s.epoch
	if e == nil || e.final || e.rounds[len(e.rounds)-1].outcome != wire.Undecided {
		return nil
	}
	all := map[uint64]bool{}
	for _, a := range e.rounds[len(e.rounds)-1].reports.each {
		all[a.sequence()] = true
	}
	return all
}

// Undecided reports whether a round is open and its membership is not fixed.
func (s *latest) Undecided(epoch uint64, round uint32) bool {
	e := s.epoch
	return e != nil && !e.final && e.number == epoch && int(round) < len(e.rounds) &&
		e.rounds[round].outcome == wire.Undecided
}

// Expects tells the layout of the round's reports; the zero layout if the round is not open. ahead means that the round
// is the one that comes next, that it may be announced by now, and that it was not announced here yet: its report must
// wait.
func (s *latest) Expects(number uint64, roundNumber uint32) (l channel.Layout, ahead bool) {
	e := s.epoch
	switch {
	case e == nil || e.number != number:
		return l, false
	case int(roundNumber) < len(e.rounds):
		return e.rounds[roundNumber].layout, false
	}
	// While the last round is not committed, no honest device can know of the next one, and a stranger's report of it
	// must not make others wait.
	last := e.rounds[len(e.rounds)-1].outcome == wire.Released
	return l, last && int(roundNumber) == len(e.rounds) && len(e.rounds) < e.planned && !e.over()
}

// enrolling reports whether the latest epoch's cohort may still grow.
func (s *State) enrolling() bool {
	return s.epoch != nil && !s.epoch.closed(s.clock)
}

// Timed reports whether something that the clock ends is under way before a deadline is fixed. Nothing is while a panel
// is to be drawn.
func (s *State) Timed() bool { return s.enrolling() && !s.epoch.awaiting() }

// Clock is the latest time that the shuffler's events tell; zero before the first.
func (s *told) Clock() time.Time { return s.clock }

// Past reports whether an epoch is behind the latest one.
func (s *latest) Past(number uint64) bool { return s.epoch != nil && number < s.epoch.number }

// Known says what a round's reports look like.
type Known struct {
	Epoch  uint64         `json:"epoch"`
	Round  uint32         `json:"round"`
	Layout channel.Layout `json:"layout"`
}

// Rounds are those of the latest epoch.
func (s *latest) Rounds() (all []Known) {
	if s.epoch == nil {
		return nil
	}
	for i, r := range s.epoch.rounds {
		if r.layout != (channel.Layout{}) {
			all = append(all, Known{s.epoch.number, uint32(i), r.layout})
		}
	}
	return all
}

// Over are the rounds that are over, oldest first.
func (s *State) Over() []Ended { return s.over[:len(s.over):len(s.over)] }

// Keys is the last set of keys that was published; zero before the first.
func (s *State) Keys() Keys { return s.keys }

// Capacity is how many devices are remembered at most.
func (s *State) Capacity() int { return s.capacity }

// Grace is that of the latest epoch, which there must be.
func (s *latest) Grace() time.Duration { return s.epoch.timing.Grace }

// Hosts counts the hosts that hold these slots of the latest epoch.
func (s *latest) Hosts(slots []uint32) int {
	all := map[uint32]bool{}
	for _, slot := range slots {
		all[s.epoch.slots.at(int(slot)).device.host] = true
	}
	return len(all)
}

// Begins is the first round of the latest epoch, which there must be.
func (s *latest) Begins() Round {
	r := s.epoch.rounds[0]
	return Round{s.epoch.number, 0, r.digest, r.layout}
}

// Registered is how many devices are registered.
func (s *registry) Registered() int { return s.count }

// Holds reports whether a device is registered.
func (s *registry) Holds(id DeviceID) bool {
	return s.registered.has(id) || id.Number == 0 && s.issuers.registeredBy(id.Host) != nil
}

// Has is how many reports of a round of the latest epoch are admitted, and their layout.
func (s *latest) Has(round uint32) (reports int, l channel.Layout) {
	r := s.epoch.rounds[round]
	return r.reports.count, r.layout
}

// Refused are the refusals of a round of the latest epoch, as its manifest has them.
func (s *latest) Refused(round uint32) []wire.Refused { return s.epoch.rounds[round].refusals() }

// Reported reports whether the first report of a slot of the latest epoch, which there must be, is admitted.
func (s *latest) Reported(slot uint32) bool { return s.epoch.reported(slot) }

// Served reports whether a registered device was in as many panels as it may be before an epoch.
func (s *registry) Served(id DeviceID, epoch uint64) bool {
	return s.history.served(id, epoch, s.terms)
}

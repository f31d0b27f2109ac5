package cohort

// Filling tells how full the latest cohort is and how far its open round has come.
type Filling struct {
	Epoch            uint64
	Round            int
	Rounds           int
	Size, Minimum    uint32
	Enrolled         int
	Reports          int
	Largest          int // most slots that one sponsor holds
	Slots            int // slots that are given or may be yet: the size while devices may enrol, and then the enrolled
	Final, Destroyed bool
}

// Dominated reports whether one sponsor holds more than half of the cohort's slots, so that it knows most of the
// devices among which the others are hidden. Of a cohort that closed before it was full, the slots that were given
// count.
func (f Filling) Dominated() bool { return 2*f.Largest > f.Slots }

// Filling describes the latest epoch; ok is false before the first.
func (s *State) Filling() (f Filling, ok bool) {
	e := s.epoch
	if e == nil {
		return f, false
	}
	slots := e.slots.len()
	if s.enrolling() {
		slots = int(e.size)
	}
	return Filling{
		Epoch: e.number, Round: len(e.rounds) - 1, Rounds: e.planned, Size: e.size, Minimum: e.minimum,
		Enrolled: e.slots.len(), Reports: e.rounds[len(e.rounds)-1].reports.count, Largest: e.largest, Slots: slots,
		Final: e.final, Destroyed: e.destroyed,
	}, true
}

// Held counts the admitted reports of rounds whose manifest is not out, and the messages that they hold.
func (s *latest) Held() (reports, messages int) {
	if s.epoch == nil {
		return 0, 0
	}
	for _, r := range s.epoch.rounds {
		if !r.done {
			reports += r.reports.count
			messages += r.reports.count * r.layout.Messages
		}
	}
	return reports, messages
}

package shuffler

import (
	"context"
	"fmt"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// noticeCapacity warns once that nobody is let in any more.
func (s *core) noticeCapacity() {
	s.mu.Lock()
	first := !s.filled
	s.filled = true
	if first {
		s.warnings = append(s.warnings, fmt.Sprintf("As many devices are known as may be, %d: further ones are "+
			"refused, and those that are known go on. admission.devices sets how many.", s.state.Capacity()))
	}
	s.mu.Unlock()
	if first {
		s.c.Log.Warn().Int("devices", s.state.Capacity()).Str(outcome.Field,
			string(cohort.Reason(wire.RefusalCapacity))).
			Msg("as many devices are known as may be: further ones are refused; admission.devices sets how many")
	}
}

// dominated warns once in each epoch where one sponsor holds most of the cohort. It does not name it: the journal does.
func (s *core) dominated() {
	s.mu.Lock()
	f, ok := s.state.Filling()
	warn := ok && f.Dominated() && s.warned != f.Epoch
	if warn {
		s.warned = f.Epoch
	}
	s.mu.Unlock()
	if warn {
		s.c.Log.Warn().Uint64("epoch", f.Epoch).Int("slots", f.Largest).Int("of", f.Slots).Uint32("size", f.Size).
			Msg("one sponsor holds more than half of the cohort's slots: the other devices are hidden among few that " +
				"it does not know; admission.sponsor_share limits what one may hold")
	}
}

// look asks the broker how many reports it keeps. What it says counts from the next decision on.
func (s *core) look(ctx context.Context) error {
	room, err := s.c.Bus.ReportRoom(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.state.Stores(cohort.Room(room))
	s.mu.Unlock()
	return nil
}

// narrowWarning is what people are told of such a cohort, "" of any other. The lock is held.
func (s *core) narrowWarning(f cohort.Filling) string {
	most := s.state.PerHost()
	if int64(f.Size) <= int64(most) {
		return ""
	}
	return fmt.Sprintf("The cohort of epoch %d has %d places, and the broker keeps %d reports of one host: a host "+
		"gets no more slots than that, and the cohort fills only if there are hosts enough. Raise --max-host-reports "+
		"of riffle broker provision; the shuffler looks once a minute.", f.Epoch, f.Size, most)
}

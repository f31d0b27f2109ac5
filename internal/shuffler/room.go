package shuffler

import (
	"context"
	"fmt"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// look asks the broker how many reports it keeps. What it says counts from the next decision on.
func (s *Shuffler) look(ctx context.Context) error {
	room, err := s.c.Bus.ReportRoom(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.state.Stores(cohort.Room(room))
	s.mu.Unlock()
	return nil
}

// lookFor is look before an epoch opens.
func (s *Shuffler) lookFor(ctx context.Context, o *opening) error {
	s.mu.Lock()
	opens := !o.Final && o.Round == 0 && !s.state.Knows(o.Epoch, 0)
	s.mu.Unlock()
	if !opens {
		return nil
	}
	return s.look(ctx)
}

// homeless tells people of an epoch whose reports the broker cannot keep.
func (s *Shuffler) homeless(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, fmt.Sprintf("%v.", why))
}

// narrow warns of a cohort that one host cannot fill.
func (s *Shuffler) narrow(a *plan.Announcement) {
	s.mu.Lock()
	most := s.state.PerHost()
	s.mu.Unlock()
	if a.Final || int64(a.Cohort.Size) <= int64(most) {
		return
	}
	s.c.Log.Warn().Uint64("epoch", a.Epoch).Uint32("size", a.Cohort.Size).Int("host_reports", most).
		Str(outcome.Field, string(cohort.Reason(wire.RefusalHostShare))).
		Msg("the broker keeps fewer reports of one host than the cohort has places: a host gets no more slots than that, and " +
			"the cohort fills only if there are hosts enough; raise --max-host-reports of riffle broker provision")
}

// narrowWarning is what people are told of such a cohort, "" of any other. The lock is held.
func (s *Shuffler) narrowWarning(f cohort.Filling) string {
	most := s.state.PerHost()
	if int64(f.Size) <= int64(most) {
		return ""
	}
	return fmt.Sprintf("The cohort of epoch %d has %d places, and the broker keeps %d reports of one host: a host gets no "+
		"more slots than that, and the cohort fills only if there are hosts enough. Raise --max-host-reports of riffle "+
		"broker provision; the shuffler looks once a minute.", f.Epoch, f.Size, most)
}

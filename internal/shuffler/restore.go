package shuffler

import (
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// restoring takes in again what a journal lacks that was restored from an older copy.
type restoring struct {
	*core
	guarantees *guarantees
	reports    *admission
}

// opened makes sure that the journal has the round of an announcement whose manifest is out.
func (s *restoring) opened(o *opening) error {
	err := s.decide(func(state *cohort.State) (*cohort.Event, error) {
		if state.Knows(o.Epoch, o.Round) {
			return nil, nil
		}
		now, _ := s.clock.now()
		return cohort.OpenedBy(o.Announcement, o.digest, o.layout, now), nil
	})
	if err == nil {
		s.guarantees.promised(o.Announcement)
	}
	return err
}

// adopt takes a manifest's word for a round that the journal ends otherwise or not at all. Its reports are forgotten
// from time to time, as refused ones are. line describes the round, and is empty where there was nothing to adopt.
func (s *restoring) adopt(m *wire.Manifest) (line string, err error) {
	held, layout := 0, channel.Layout{}
	err = s.decide(func(state *cohort.State) (*cohort.Event, error) {
		ev := state.Adopt(m)
		if ev != nil {
			held, layout = state.Has(m.Round)
			line = fmt.Sprintf("epoch %d round %d: %s, %d reports of %d enrolled",
				m.Epoch, m.Round, shown(m.Outcome), m.Reports, m.Enrolled)
		}
		return ev, nil
	})
	if err != nil || line == "" {
		return "", err
	}
	s.notice(historyCondition, errState)
	defer s.notice(historyCondition, nil)
	s.gone(m.Outcome, held, held*layout.Messages)
	return line, s.mixing(layout).Forget(m.Epoch, m.Round)
}

// stale says that rounds were taken from this shuffler's own manifests, and what follows.
func (s *restoring) stale(adopted []string) {
	s.c.Log.Error().Err(errState).Strs("adopted", adopted).
		Msg("the outcomes of rounds that the journal lacks are taken from this shuffler's own manifests")
	s.c.Log.Error().Err(errState).Msg("who took part in these rounds is no longer known here: " +
		"only their hosts' ledgers keep these people from taking part again")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
	s.warnings = append(s.warnings, fmt.Sprintf("%v Taken from its own manifests: %d rounds. Who took part in them is "+
		"no longer known here; only their hosts' ledgers keep these people from taking part again. "+
		"Keep the copy away, and do not restore it over a newer folder.", errState, len(adopted)))
}

// takeAgain takes in the reports of the open round that were admitted and acknowledged after the state folder was
// copied: they are in the stream until the round is over, and would not be delivered again. Admission is idempotent,
// and refuses the report of a device that it does not know, as ever. Above the floor the broker does not tell what was
// acknowledged from what was only handed out, as to a process that was killed: both are taken in, and only what is
// below shows that the folder is old.
func (s *restoring) takeAgain(ctx context.Context) error {
	s.mu.Lock()
	last, ok := s.state.Last()
	admitted := s.state.Admitted()
	s.mu.Unlock()
	if !ok || admitted == nil {
		return nil
	}
	b, err := s.c.Bus.Backlog(ctx)
	if err != nil {
		return err
	}
	upTo := max(b.Floor, b.Sent)
	// Where the journal has every report from the round's first on, as after every ordinary restart without strangers'
	// reports, none is read again.
	gap := uint64(0)
	err = s.stored(ctx, last, 1, upTo, func(sequence uint64, _ []byte) error {
		for gap = sequence; admitted[gap]; gap++ {
		}
		return errEnough
	})
	if err != nil || gap == 0 {
		return err
	}
	again, strangers := 0, 0
	err = s.stored(ctx, last, gap, upTo, func(sequence uint64, payload []byte) error {
		if admitted[sequence] {
			return nil
		}
		d := &bus.Delivery{Epoch: last.Epoch, Round: last.Round, Sequence: sequence, Payload: payload}
		fresh, err := s.reports.admitReport(d, s.reports.expects(d))
		var refused *cohort.Refused
		switch {
		case errors.As(err, &refused):
			if refused.Reason == wire.RefusalNotEnrolled {
				strangers++
			}
		case err != nil:
			return err
		case fresh:
			if sequence <= b.Floor {
				again++
			}
			s.c.Reports.Received(1)
			s.c.Messages.Received(last.Layout.Messages)
		}
		return nil
	})
	if again > 0 {
		s.c.Log.Warn().Err(errState).Func(about(last.Epoch, last.Round)).Int("reports", again).
			Msg("reports were acknowledged before and are not in the journal: taken in again")
	}
	s.mu.Lock()
	lost := s.lost || again > 0
	s.mu.Unlock()
	if strangers > 0 && lost {
		s.c.Log.Error().Err(errState).Str(outcome.Field, string(cohort.Reason(wire.RefusalNotEnrolled))).
			Func(about(last.Epoch, last.Round)).Int("reports", strangers).
			Msg("reports of devices whose enrolments are lost cannot be used; their slots go to others")
	}
	return err
}

// historyCondition is the readiness condition that recall keeps.
const historyCondition = "history"

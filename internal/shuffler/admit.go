package shuffler

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// admission decides on reports, as they are delivered here and as workers ask about them.
type admission struct {
	*core
	full      atomic.Bool      // the store could not keep the last report
	counter   *counter         // where workers ask about reports
	wake      chan struct{}    // a report was admitted
	refusals  cohort.Refusals  // of the open round, as reports came; guarded by mu
	strangers cohort.Strangers // of the open epoch; guarded by mu
}

// take decides on one delivered report and acknowledges it once the decision is durable. A refusal leaves nothing to be
// made durable and waits for nothing: the report is acknowledged, and forgotten with all others that are not needed.
// The error is fatal.
func (s *admission) take(d *bus.Delivery) error {
	of := s.expects(d)
	if of.ahead {
		s.c.Reports.Retried(Ahead)
		s.acknowledged(d.Retry(work.Later(d.Redelivered)))
		return nil
	}
	defer s.c.Steps.Since(stepAdmission, s.c.Clock.Now())
	fresh, err := s.admitReport(d, of)
	var refused *cohort.Refused
	switch {
	case errors.As(err, &refused):
		s.c.Reports.Received(1)
		s.c.Reports.Refused(err, 1)
		s.refusedAsItCame(d, refused.Reason)
	case err != nil:
		return err
	case fresh:
		s.c.Reports.Received(1)
		s.c.Messages.Received(of.layout.Messages)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	s.acknowledged(d.Ack())
	return nil
}

// acknowledged logs that an acknowledgement was lost: the broker will deliver the report again, and State knows it.
func (s *admission) acknowledged(err error) {
	if err != nil {
		s.c.Log.Debug().Err(err).Msg("acknowledgement lost")
	}
}

// expected is what the state says of a report before it is opened.
type expected struct {
	layout channel.Layout // of its round; zero if the round is not open
	ahead  bool           // its round comes next, and was not announced here yet
	past   bool           // its epoch is over
}

func (s *admission) expects(d *bus.Delivery) (of expected) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.layout, of.ahead = s.state.Expects(d.Epoch, d.Round)
	of.past = s.state.Past(d.Epoch)
	return of
}

// admitReport reports whether the report is a new member of its round.
func (s *admission) admitReport(d *bus.Delivery, of expected) (fresh bool, err error) {
	if d.Epoch == 0 {
		return false, cohort.Refuse(wire.RefusalMalformed, "the report names no round")
	}
	if of.past {
		return false, cohort.Refuse(wire.RefusalLate, "epoch %d is over", d.Epoch)
	}
	r, digest, err := s.envelopes.Open(d.Payload, d.Epoch, d.Round, of.layout)
	if err != nil {
		return false, err
	}
	id, err := s.known(cohort.DeviceID{Host: r.HostKey, Number: r.Device})
	if err != nil {
		return false, err
	}
	report := &cohort.Report{
		Device: id, Epoch: d.Epoch, Round: d.Round, Slot: r.Slot, Announced: r.Announcement, Digest: digest,
		Sequence: d.Sequence,
	}
	fresh, durable, err := s.begin(report.Decide)
	if fresh { // before the wait, so that a release that is due finds it
		member := channel.Member{Slot: r.Slot, Sequence: d.Sequence, Digest: digest}
		s.keep(d.Epoch, d.Round, member, of.layout, r.Payload)
	}
	s.strange(report, err)
	if durable != nil {
		if err := durable(); err != nil {
			return false, fatal(err)
		}
	}
	return fresh, err
}

// strange notes a report that was refused, if it is a stranger's.
func (s *admission) strange(r *cohort.Report, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strangers.Note(s.state, r.Device, r.Epoch, r.Round, r.Sequence, err)
}

// known names a device by the first key of its host, whatever key signed. It refuses a key that is not in force.
func (s *admission) known(signer cohort.DeviceID) (cohort.DeviceID, error) {
	first, err := s.c.Hosts.First(signer.Host)
	if err != nil {
		return cohort.DeviceID{}, cohort.Refuse(wire.RefusalNoCredential, "%v", err)
	}
	return cohort.DeviceID{Host: first, Number: signer.Number}, nil
}

// keep hands an admitted report to its channel. Where the disk is full the release reads it again.
func (s *admission) keep(epoch uint64, round uint32, m channel.Member, l channel.Layout, payload []byte) {
	err := s.mixing(l).Take(epoch, round, m, payload)
	if was := s.full.Swap(err != nil); err != nil && !was {
		s.c.Log.Warn().Err(err).Func(about(epoch, round)).
			Msg("admitted reports cannot be kept for mixing; they are read again for the release")
	}
}

// refusedAsItCame counts a report that was refused on its delivery.
func (s *admission) refusedAsItCame(d *bus.Delivery, why wire.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals.Count(s.state, d.Epoch, d.Round, d.Redelivered, why)
}

// enrolmentsCondition is the readiness condition that the devices that report are those that were enrolled.
const enrolmentsCondition = "enrolments"

// errStrangers says that the journal seems to lack enrolments.
var errStrangers = errors.New("devices report that this shuffler's journal never enrolled: the state folder may be " +
	"older than what hosts were promised; restore the newest copy")

// enrolments is the readiness condition of that name. It is met again once the epoch is over. It logs once for each
// epoch.
func (s *admission) enrolments() error {
	s.mu.Lock()
	epoch, told, first := s.strangers.Told(s.state)
	s.mu.Unlock()
	if !told {
		return nil
	}
	if first {
		s.c.Log.Error().Err(errStrangers).Uint64("epoch", epoch).
			Msg("reports of devices that were never enrolled are refused")
	}
	return fmt.Errorf("epoch %d: %w", epoch, errStrangers)
}

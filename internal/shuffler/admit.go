package shuffler

import (
	"context"
	"errors"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// take decides on one delivered report and acknowledges it once the decision is durable. A refusal leaves nothing to be
// made durable and waits for nothing: the report is acknowledged, and forgotten with all others that are not needed.
// The error is fatal.
func (s *Shuffler) take(d *bus.Delivery) error {
	s.mu.Lock()
	layout, ahead := s.state.Expects(d.Epoch, d.Round)
	s.mu.Unlock()
	if ahead {
		s.c.Reports.Retried(Ahead)
		s.acknowledged(d.Retry(work.Later(d.Redelivered)))
		return nil
	}
	defer s.c.Steps.Since(stepAdmission, s.c.Clock.Now())
	fresh, err := s.admitReport(d)
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
		s.c.Messages.Received(layout.Messages)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	s.acknowledged(d.Ack())
	return nil
}

// acknowledged logs that an acknowledgement was lost: the broker will deliver the report again, and State knows it.
func (s *Shuffler) acknowledged(err error) {
	if err != nil {
		s.c.Log.Debug().Err(err).Msg("acknowledgement lost")
	}
}

// admitReport tells whether the report is a new member of its round.
func (s *Shuffler) admitReport(d *bus.Delivery) (fresh bool, err error) {
	s.mu.Lock()
	layout, _ := s.state.Expects(d.Epoch, d.Round)
	past := s.state.Past(d.Epoch)
	s.mu.Unlock()
	if d.Epoch == 0 {
		return false, cohort.Refuse(wire.RefusalMalformed, "the report names no round")
	}
	if past {
		return false, cohort.Refuse(wire.RefusalLate, "epoch %d is over", d.Epoch)
	}
	r, digest, err := s.envelopes.Open(d.Payload, d.Epoch, d.Round, layout)
	if err != nil {
		return false, err
	}
	id, err := s.known(cohort.DeviceID{Host: r.HostKey, Number: r.Device})
	if err != nil {
		return false, err
	}
	durable, err := s.begin(func(state *cohort.State) (*cohort.Event, error) {
		ev, err := state.Admit(id, d.Epoch, d.Round, r.Slot, r.Announcement, digest, d.Sequence)
		fresh = ev != nil
		s.strangers.Note(state, id, d.Epoch, d.Round, d.Sequence, err)
		return ev, err
	})
	if fresh { // before the wait, so that a release that is due finds it
		s.keep(d.Epoch, d.Round, channel.Member{Slot: r.Slot, Sequence: d.Sequence, Digest: digest}, layout, r.Payload)
	}
	if durable != nil {
		if err := durable(); err != nil {
			return false, fatal(err)
		}
	}
	return fresh, err
}

// known names a device by the first key of its host, whatever key signed. It refuses a key that is not in force.
func (s *Shuffler) known(signer cohort.DeviceID) (cohort.DeviceID, error) {
	first, err := s.c.Hosts.First(signer.Host)
	if err != nil {
		return cohort.DeviceID{}, cohort.Refuse(wire.RefusalNoCredential, "%v", err)
	}
	return cohort.DeviceID{Host: first, Number: signer.Number}, nil
}

// keep hands an admitted report to its channel. Where the disk is full the release reads it again.
func (s *Shuffler) keep(epoch uint64, round uint32, m channel.Member, l channel.Layout, payload []byte) {
	err := s.mixing(l).Take(epoch, round, m, payload)
	if was := s.full.Swap(err != nil); err != nil && !was {
		s.c.Log.Warn().Err(err).Func(about(epoch, round)).
			Msg("admitted reports cannot be kept for mixing; they are read again for the release")
	}
}

// reread reads the report of a release's member again: it is the channel's channel.Reports.
func (s *Shuffler) reread(ctx context.Context, r *channel.Release, m channel.Member) (*wire.Report, error) {
	envelope, err := s.c.Bus.GetReport(ctx, m.Sequence)
	if errors.Is(err, bus.ErrGone) {
		return nil, work.Missing(m)
	}
	if err != nil {
		return nil, err
	}
	return s.envelopes.Again(envelope, r, m)
}

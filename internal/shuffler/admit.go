package shuffler

import (
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
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
		wait := laterPause
		if d.Redelivered {
			wait = laterAgainPause
		}
		s.acknowledged(d.Retry(wait))
		return nil
	}
	defer s.c.Steps.Since(stepAdmission, s.c.Clock.Now())
	fresh, err := s.admitReport(d)
	var refused *Refused
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
		return false, refuse(wire.RefusalMalformed, "the report names no round")
	}
	if past {
		return false, refuse(wire.RefusalLate, "epoch %d is over", d.Epoch)
	}
	r, digest, err := s.open(d.Payload, d.Epoch, d.Round, layout)
	if err != nil {
		return false, err
	}
	id := DeviceID{r.HostKey, r.Device}
	err = s.decide(func(state *State) (*Event, error) {
		ev, err := state.Admit(id, d.Epoch, d.Round, r.Slot, r.Announcement, digest, d.Sequence)
		fresh = ev != nil
		return ev, err
	})
	return fresh, err
}

// open opens a sealed report of the round and checks all that can be checked without knowing who is enrolled.
func (s *Shuffler) open(envelope []byte, epoch uint64, round uint32, l channel.Layout) (*wire.Report, Digest, error) {
	no := func(reason wire.Refusal, format string, a ...any) (*wire.Report, Digest, error) {
		return nil, Digest{}, refuse(reason, format, a...)
	}
	if l == (channel.Layout{}) {
		return no(wire.RefusalWrongEpoch, "round %d of epoch %d is not open", round, epoch)
	}
	// All envelopes of a round have one size. An envelope of another size costs no more than this comparison.
	if want := wire.EnvelopeSize(l.Size()); len(envelope) != want {
		return no(wire.RefusalWrongSize, "an envelope of %d bytes, this round's have %d", len(envelope), want)
	}
	at := seal.ReportContext{Deployment: s.c.Deployment, Epoch: epoch, Round: round}
	plain, err := wire.OpenEnvelope(envelope, s.opener, at)
	if err != nil {
		return no(wire.Reason(err), "%v", err)
	}
	report, digest, err := s.mixing(l).Parse(plain, l)
	if err != nil {
		return no(wire.Reason(err), "%v", err)
	}
	if report.Epoch != epoch || report.Round != round {
		return no(wire.RefusalWrongEpoch, "a report of round %d of epoch %d in the stream of round %d of epoch %d",
			report.Round, report.Epoch, round, epoch)
	}
	return report, digest, nil
}

// reread reads the report of a release's member again: it is the channel's channel.Reports.
func (s *Shuffler) reread(ctx context.Context, r *channel.Release, m channel.Member) (*wire.Report, error) {
	envelope, err := s.c.Bus.GetReport(ctx, m.Sequence)
	if errors.Is(err, bus.ErrGone) {
		return nil, fmt.Errorf("%w: slot %d: the broker no longer has its report; "+
			"the broker's data was lost, set back, or purged by another client", channel.ErrImpossible, m.Slot)
	}
	if err != nil {
		return nil, err
	}
	at := seal.ReportContext{Deployment: s.c.Deployment, Epoch: r.Epoch, Round: r.Round}
	plain, err := wire.OpenEnvelope(envelope, s.opener, at)
	var report *wire.Report
	if err == nil { // it was verified and checked when it was admitted: its digest says that it is the same one
		report, err = wire.ReparseReport(plain, r.Layout.Size(), m.Digest)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: slot %d: the broker has another report in its place; "+
			"the broker's data was set back, and written anew since", channel.ErrImpossible, m.Slot)
	}
	return report, nil
}

package shuffler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// claims decides on a batch of reports that a worker has opened, as take does on one. It answers when all decisions are
// durable, and counts a batch once.
func (s *admission) claims(ctx context.Context, body []byte) ([]byte, error) {
	id, all, err := work.ReadBatch(body)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.begun:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	a, fresh := s.counter.begin(id)
	if !fresh {
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if a.reply == nil {
			return nil, errors.New("the shuffler could not decide on these reports")
		}
		return a.reply, nil
	}
	defer close(a.done)
	reply, err := s.decideAll(all)
	if err != nil {
		select {
		case s.counter.failed <- err:
		default: // it stops already
		}
		return nil, err
	}
	if a.reply, err = json.Marshal(reply); err != nil {
		return nil, fmt.Errorf("shuffler: %w", err)
	}
	return a.reply, nil
}

// decideAll makes the decisions on a batch, under one lock and with one wait for the journal, and accounts for them.
// Its error is fatal.
func (s *admission) decideAll(all []work.Claim) (*work.Answer, error) {
	reply := &work.Answer{Verdicts: make([]byte, len(all))}
	defer s.c.Steps.Since(stepAdmission, s.c.Clock.Now())
	refusals := map[int]error{}
	later, reports, messages := 0, 0, 0
	s.mu.Lock()
	for i := range all {
		c := &all[i]
		layout, ahead := s.state.Expects(c.Epoch, c.Round)
		var ev *cohort.Event
		var err error
		switch known := layout != (channel.Layout{}); {
		case ahead:
			reply.Verdicts[i] = work.Postponed
			later++
		case c.Epoch == 0:
			err = cohort.Refuse(wire.RefusalMalformed, "the report names no round")
		case s.state.Past(c.Epoch):
			err = cohort.Refuse(wire.RefusalLate, "epoch %d is over", c.Epoch)
		case c.Refused != wire.NoRefusal:
			err = cohort.Refuse(c.Refused, "a worker refused it")
		case c.Unopened && known:
			reply.Verdicts[i] = work.Open
		case c.Unopened:
			err = cohort.Refuse(wire.RefusalWrongEpoch, "round %d of epoch %d is not open", c.Round, c.Epoch)
		default:
			var id cohort.DeviceID
			if id, err = s.known(c.Device); err != nil {
				break
			}
			report := &cohort.Report{
				Device: id, Epoch: c.Epoch, Round: c.Round, Slot: c.Slot, Announced: c.Announced, Digest: c.Digest,
				Sequence: c.Sequence,
			}
			var broken error
			if ev, err, broken = s.state.Make(report.Decide); broken != nil {
				s.mu.Unlock()
				return nil, fatal(broken)
			}
			s.strangers.Note(s.state, id, c.Epoch, c.Round, c.Sequence, err)
		}
		if err != nil {
			refusals[i] = err
		}
		if ev == nil {
			continue
		}
		s.keepEvent(ev)
		reports++
		messages += layout.Messages
	}
	reply.Rounds = s.state.Rounds()
	latest := s.latest
	s.mu.Unlock()
	if latest != nil {
		if err := latest(); err != nil {
			return nil, fatal(err)
		}
	}
	for i, err := range refusals {
		c := &all[i]
		var refused *cohort.Refused
		errors.As(err, &refused)
		s.c.Reports.Received(1)
		s.c.Reports.Refused(err, 1)
		d := &bus.Delivery{Epoch: c.Epoch, Round: c.Round, Redelivered: c.Redelivered}
		s.refusedAsItCame(d, refused.Reason)
	}
	for range later {
		s.c.Reports.Retried(Ahead)
	}
	s.c.Reports.Received(reports)
	s.c.Messages.Received(messages)
	if reports > 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return reply, nil
}

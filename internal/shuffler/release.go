package shuffler

import (
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// releaseCondition is the readiness condition that what is due leaves.
const releaseCondition = "release"

// releases commits rounds and carries out what is committed.
type releases struct {
	*core
	reports       *admission
	times         *times
	announcements *announcements
	history       *history
	restoring     *restoring
	forgetting    *forgetting
}

// release watches the open round and carries out what is committed, one round at a time.
func (s *releases) release(ctx context.Context) error {
	var looked look
	for {
		clear, err := s.history.consistent(ctx, &looked)
		if ctx.Err() == nil && (err != nil || clear) { // what is not clear was told already
			s.notice(historyCondition, err)
		}
		wait := tick
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errFatal):
			return err
		case err != nil:
			s.c.Log.Error().Err(err).Msg("the broker could not be held against the journal; tried again")
			wait = retryPause
		}
		if !clear {
			if err := role.Sleep(ctx, s.c.Clock, wait); err != nil {
				return err
			}
			continue
		}
		if err := s.commit(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		r, ok := s.state.Unfinished()
		s.mu.Unlock()
		if ok {
			switch err := s.carryOut(ctx, r); {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, errFatal):
				return err
			case err != nil:
				why := s.c.Reports.Retried(fmt.Errorf("%w: %w", Interrupted, err))
				s.c.Log.Error().Err(err).Str(outcome.Field, string(why)).Func(about(r.Epoch, r.Round)).
					Msg("release is tried again")
				s.notice(releaseCondition, fmt.Errorf("round %d of epoch %d is committed and cannot be carried out: %w",
					r.Round, r.Epoch, err))
				if err := role.Sleep(ctx, s.c.Clock, retryPause); err != nil {
					return err
				}
			default:
				s.notice(releaseCondition, nil)
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.c.Clock.After(tick):
		case <-s.reports.wake:
		}
	}
}

// commit fixes the open round's membership if its time has come. Its error is fatal.
func (s *releases) commit(ctx context.Context) error {
	s.mu.Lock()
	m, late := s.times.moment()
	r := s.state.Due(m)
	at, fixed := s.state.Deadline(m.Now, m.Resumed)
	f, _ := s.state.Filling()
	s.mu.Unlock()
	s.notice(deadlineCondition, late)
	s.notice(enrolmentsCondition, s.reports.enrolments())
	if r == nil && fixed && !m.Now.Before(at) {
		if m.TakenIn = s.times.takenIn(ctx, mark{epoch: f.Epoch, round: uint32(f.Round), deadline: at}); !m.TakenIn {
			return nil
		}
		s.mu.Lock()
		r = s.state.Due(m)
		s.mu.Unlock()
	}
	if r == nil {
		return nil
	}
	if whole, err := s.sift(ctx, r); err != nil || !whole {
		return err
	}
	err := s.decide(func(state *cohort.State) (*cohort.Event, error) {
		ev := state.Commit(r)
		if ev != nil {
			ev.Committed.Refused = s.reports.refusals.Of(r.Epoch, r.Round)
		}
		return ev, nil
	})
	s.dominated() // if the cohort is not full, this is known only now
	return err
}

// sift makes sure that no member of the release that is due repeats what another one, or its own report, holds, before
// the membership is committed. It reports whether the release can be committed as it is. If not, it is due again in a
// moment, with the members that are left. Its error is fatal.
//
// Which members are refused here depends on what no honest device sends, never on a record.
func (s *releases) sift(ctx context.Context, r *cohort.Release) (whole bool, err error) {
	if r.Outcome != wire.Released {
		return true, nil // nothing of it leaves
	}
	var slots []uint32
	if r.Announced, err = s.announcement(ctx, r); err == nil {
		slots, err = s.mixing(r.Layout).Repeated(ctx, &r.Release)
	}
	if errors.Is(err, channel.ErrImpossible) {
		return true, nil // it is committed, and destroyed when it is carried out
	}
	if err != nil {
		s.c.Log.Warn().Err(err).Func(about(r.Epoch, r.Round)).
			Msg("reports of the release that is due cannot be read; tried again")
		s.notice(releaseCondition, fmt.Errorf("round %d of epoch %d is due and its reports cannot be read: %w",
			r.Round, r.Epoch, err))
		return false, nil
	}
	s.notice(releaseCondition, nil)
	if len(slots) == 0 {
		return true, nil
	}
	if err := s.record(&cohort.Event{Excluded: cohort.Repeats(r.Round, slots...)}); err != nil {
		return false, err
	}
	s.mu.Lock()
	hosts := s.state.Hosts(slots)
	s.mu.Unlock()
	why := s.c.Reports.Refused(cohort.Reason(wire.RefusalRepeatedMessage), len(slots))
	s.c.Messages.Refused(cohort.Reason(wire.RefusalRepeatedMessage), len(slots)*r.Layout.Messages)
	s.c.Log.Warn().Str("reason", string(why)).Func(about(r.Epoch, r.Round)).Int("reports", len(slots)).
		Int("hosts", hosts).
		Msg("reports that repeat a message are refused: their hosts do not follow the protocol")
	return false, nil
}

// carryOut does what the committed round's outcome says, up to its manifest. It can be repeated after any failure: what
// left before leaves again byte for byte, and nothing else ever does.
func (s *releases) carryOut(ctx context.Context, r *cohort.Release) error {
	defer s.c.Steps.Since(stepRelease, s.c.Clock.Now())
	// Once the manifest is out the analyzer may have counted what left and dropped it: it must not come back.
	m, err := s.history.manifest(ctx, r.Epoch, r.Round)
	switch {
	case err != nil:
		return err
	case m == nil:
		if left, err := s.leave(ctx, r); err != nil || !left {
			return err
		}
	default:
		if line, err := s.restoring.adopt(m); err != nil {
			return err
		} else if line != "" {
			s.restoring.stale([]string{line})
			return nil
		}
	}
	if err := s.forgetting.forgetOver(ctx, r); err != nil {
		return err
	}
	if err := s.mixing(r.Layout).Forget(r.Epoch, r.Round); err != nil {
		return err
	}
	if err := s.record(&cohort.Event{Finished: &cohort.Finished{Round: r.Round}}); err != nil {
		return err
	}
	s.gone(r.Outcome, len(r.Members), r.Messages())
	s.c.Log.Info().Func(about(r.Epoch, r.Round)).Stringer("outcome", r.Outcome).Int("reports", len(r.Members)).
		Uint32("enrolled", r.Enrolled).Int("messages", r.Messages()).Msg("round finished")
	return nil
}

// leave has the channel send a release, and sends the manifest behind it. left is false where the release turned out to
// be impossible and is committed to destruction instead. The manifest is in the transparency log, under a
// checkpoint, before the analyzer can see it: nothing acts on what is not logged. It depends on the release and on what
// the channel keeps of it alone and is signed deterministically, so a retry appends and sends the same bytes, and
// either is stored once.
func (s *releases) leave(ctx context.Context, r *cohort.Release) (left bool, err error) {
	manifest := &wire.Manifest{
		Deployment: s.c.Deployment, Epoch: r.Epoch, Round: r.Round, Announcement: r.Announcement[:], Outcome: r.Outcome,
		Enrolled: r.Enrolled, Reports: uint32(len(r.Members)), Refused: r.Refused, Messages: r.Left,
	}
	if r.Outcome == wire.Released {
		if len(r.Members) < int(r.Minimum) { // Commit decides this; it must hold whatever led here
			return false, fatal(fmt.Errorf(
				"round %d of epoch %d is committed to a release of %d reports, below the minimum of %d",
				r.Round, r.Epoch, len(r.Members), r.Minimum))
		}
		var err error
		if r.Announced, err = s.announcement(ctx, r); err != nil {
			return false, err
		}
		rejected, err := s.mixing(r.Layout).Release(ctx, &r.Release, manifest)
		if errors.Is(err, channel.ErrImpossible) {
			return false, s.destroy(r, err)
		} else if err != nil {
			return false, err
		}
		if err := s.reject(r, rejected); err != nil {
			return false, err
		}
		manifest.Reports, manifest.Refused = uint32(len(r.Members)), r.Refused
		reports := make([][32]byte, len(r.Members))
		for i, m := range r.Members {
			reports[i] = m.Digest
		}
		members := wire.ReportsDigest(reports)
		manifest.ReportsDigest = members[:]
	}
	signed, _, err := wire.Sign(manifest, s.c.Identity)
	if err != nil {
		return false, fatal(err)
	}
	if err := (logged{s.c.Bus, s.log}).AppendAudit(ctx, wire.KindManifest, signed); err != nil {
		return false, err
	}
	err = s.c.Bus.PublishManifest(ctx, r.Epoch, r.Round, signed)
	var taken *bus.ExistsError
	if errors.As(err, &taken) {
		if _, _, foreign := wire.Open[wire.Manifest](taken.Stored, s.own()); foreign == nil {
			return true, err
		}
		s.c.Log.Error().Err(err).Uint64("epoch", r.Epoch).Uint32("round",
			r.Round).Msg("what lies at the manifest's place is not this shuffler's: another writes with its broker " +
			"credential, rotate it. The analyzer finds the manifest in the audit log")
		return true, nil
	}
	return true, err
}

// announcement reads the announcement of a release's round.
func (s *releases) announcement(ctx context.Context, r *cohort.Release) (*plan.Announcement, error) {
	all, err := s.c.Bus.ReadAnnouncementsAt(ctx, r.Epoch, r.Round)
	if err != nil {
		return nil, err
	}
	for _, stored := range all {
		if o, err := s.announcements.verify(stored); err == nil && o.digest == r.Announcement {
			return o.Announcement, nil
		}
	}
	return nil, fmt.Errorf("%w: the announcement of round %d of epoch %d is gone", errBroker, r.Round, r.Epoch)
}

// reject takes the members whose reports did not leave out of a committed release. Its error is fatal.
func (s *releases) reject(r *cohort.Release, rejected []channel.Rejected) error {
	reasons := map[uint32]wire.Refusal{}
	for _, one := range rejected {
		reasons[one.Slot] = one.Reason
	}
	var left []channel.Member
	out := &cohort.Excluded{Round: r.Round}
	for _, m := range r.Members {
		if why, ok := reasons[m.Slot]; ok {
			out.Slots, out.Reasons = append(out.Slots, m.Slot), append(out.Reasons, why)
		} else {
			left = append(left, m)
		}
	}
	if len(out.Slots) == 0 {
		return nil
	}
	if len(left) < int(r.Minimum) { // the channel guarantees this; it must hold whatever it did
		return fatal(fmt.Errorf("of round %d of epoch %d %d reports left, below the minimum of %d",
			r.Round, r.Epoch, len(left), r.Minimum))
	}
	if err := s.record(&cohort.Event{Rejected: out}); err != nil {
		return err
	}
	s.mu.Lock()
	r.Members, r.Refused = left, s.state.Refused(r.Round)
	s.mu.Unlock()
	for _, why := range out.Reasons {
		s.c.Reports.Refused(cohort.Reason(why), 1)
		s.c.Messages.Refused(cohort.Reason(why), r.Layout.Messages)
	}
	s.c.Log.Warn().Func(about(r.Epoch, r.Round)).Int("reports", len(out.Slots)).
		Msg("reports of the release were not verified and are refused: their hosts do not follow the protocol, " +
			"or the analyzer does not")
	return nil
}

// destroy commits a release to destruction, and says how much of it can have left before.
func (s *releases) destroy(r *cohort.Release, why error) error {
	left := uint64(0)
	if errors.Is(why, channel.ErrLeft) {
		left = uint64(r.Messages()) + shuffle.NoiseMessages(r.Announced)
	}
	s.c.Log.Error().Err(why).Str(outcome.Field, string(Destroyed)).Func(about(r.Epoch, r.Round)).
		Uint64("left_at_most", left).Msg("release is destroyed")
	return s.record(&cohort.Event{Committed: &cohort.Committed{Round: r.Round, Outcome: wire.Destroyed, Left: left}})
}

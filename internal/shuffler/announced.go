package shuffler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// An opening is an announcement that was verified.
type opening struct {
	*plan.Announcement
	digest cohort.Digest
	layout channel.Layout
}

// announcements takes what the analyzer announces, and opens its rounds.
type announcements struct {
	*core
	guarantees *guarantees
	unfit      map[roundID]*opening      // announcements that do not fit yet, by epoch and round; guarded by mu
	never      map[roundID]cohort.Digest // announcements that are refused for good, by epoch and round; guarded by mu
}

// inOrder compares announcements by their rounds.
func inOrder(a, b *opening) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Round, b.Round))
}

// verify opens a stored announcement.
func (s *announcements) verify(stored bus.Announcement) (*opening, error) {
	analyzer := wire.Party{Deployment: s.c.Deployment, Key: s.c.Analyzer}
	a, digest, err := wire.OpenAnnouncement(stored.Payload, stored.Epoch, stored.Round, analyzer)
	if err != nil {
		return nil, err
	}
	if a.Final {
		return &opening{a, digest, channel.Layout{}}, nil
	}
	mixing := s.channels[a.Plan.Channel]
	if mixing == nil || !slices.Contains(s.c.Channels, a.Plan.Channel) {
		return nil, cohort.Refuse(wire.RefusalWeakPlan, "this shuffler does not take part in the channel %s: see its "+
			"setting channels", a.Plan.Channel)
	}
	layout, err := mixing.Layout(a)
	if err != nil {
		return nil, cohort.Refuse(wire.RefusalWeakPlan, "%v", err)
	}
	return &opening{a, digest, layout}, nil
}

// announced takes an announcement from the bucket, old ones first. One on which nothing is decided when the process
// ends is in no account: the next process takes it.
func (s *announcements) announced(ctx context.Context, stored bus.Announcement) error {
	refused := func(err error) error {
		s.c.Announcements.Received(1)
		why := s.c.Announcements.Refused(err, 1)
		s.c.Log.Error().Err(err).Str(outcome.Field, string(why)).Func(about(stored.Epoch, stored.Round)).
			Msg("announcement refused")
		return nil
	}
	o, err := s.verify(stored)
	switch no := cohort.Refuse(wire.Reason(err), "%v", err); {
	case errors.Is(err, wire.ErrForeign): // any holder of the analyzer's broker credential can put it there
		s.c.Announcements.Received(1)
		why := s.c.Announcements.Refused(no, 1)
		s.c.Log.Warn().Err(no).Str(outcome.Field, string(why)).Func(about(stored.Epoch, stored.Round)).
			Msg("an announcement that is not the analyzer's is skipped: another client writes with the analyzer's " +
				"broker credential")
		return nil
	case errors.As(err, new(*cohort.Refused)): // of this shuffler itself
		return refused(err)
	case err != nil:
		return refused(no)
	}
	if err := s.lookFor(ctx, o); err != nil {
		return err
	}
	for {
		err = s.follow(o)
		// The analyzer may announce what comes next as soon as it has a manifest, before the shuffler has finished the
		// round.
		if !errors.Is(err, cohort.ErrBusy) {
			break
		}
		if role.Sleep(ctx, s.c.Clock, tick) != nil {
			return context.Cause(ctx)
		}
	}
	var no *cohort.Refused
	switch {
	case errors.As(err, &no):
		if no.Reason == wire.RefusalWrongEpoch {
			s.mu.Lock()
			if at := (roundID{o.Epoch, int(o.Round)}); s.unfit[at] == nil { // the first one counts
				s.unfit[at] = o
			}
			s.doubt = true
			s.mu.Unlock()
		} else {
			s.hopeless(o)
		}
		switch {
		case errors.Is(err, cohort.ErrRoom):
			s.homeless(err)
		case no.Reason == wire.RefusalCapacity:
			s.noticeCapacity()
		}
		return refused(err)
	case err != nil:
		return err
	}
	s.c.Announcements.Received(1)
	s.c.Announcements.Released(1)
	return nil
}

// hopeless notes that an announcement is refused for good: no running round is left that it could have followed, so no
// report waits for it.
func (s *announcements) hopeless(o *opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.never[roundID{o.Epoch, int(o.Round)}] = o.digest
}

// follow opens the round of an announcement, unless it is open or over. Its error is State.Open's, or fatal.
func (s *announcements) follow(o *opening) error {
	opened := false
	err := s.decide(func(state *cohort.State) (*cohort.Event, error) {
		now, _ := s.clock.now()
		ev, err := state.Open(o.Announcement, o.digest, o.layout, now)
		opened = ev != nil
		return ev, err
	})
	if err != nil {
		return err
	}
	s.guarantees.promised(o.Announcement)
	if opened {
		s.c.Log.Info().Func(about(o.Epoch, o.Round)).Uint32("slots", o.Cohort.Size).
			Uint32("minimum", o.Cohort.Minimum).Int("messages", o.layout.Messages).Bool("final", o.Final).
			Msg("round opened")
		s.narrow(o.Announcement)
	}
	return nil
}

// announcementsCondition is the readiness condition that reconsider keeps.
const announcementsCondition = "announcements"

// reconsider looks again at announcements that did not fit: the bus hands each over once. Its error is fatal.
func (s *announcements) reconsider() error {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.unfit))
	s.mu.Unlock()
	slices.SortFunc(all, inOrder)
	var waits error
	for _, o := range all {
		err := s.follow(o)
		var no *cohort.Refused
		switch {
		case errors.Is(err, cohort.ErrBusy), errors.As(err, &no) && no.Reason == wire.RefusalWrongEpoch:
			waits = cmp.Or(waits, err)
			continue
		case errors.Is(err, errFatal):
			return err
		}
		s.c.Announcements.Received(1)
		if err != nil {
			s.c.Announcements.Refused(err, 1)
			s.hopeless(o)
		} else {
			s.c.Announcements.Released(1)
		}
		s.mu.Lock()
		delete(s.unfit, roundID{o.Epoch, int(o.Round)})
		s.mu.Unlock()
	}
	if waits != nil {
		waits = fmt.Errorf("an announcement waits for what must come before it: %w", waits)
	}
	s.notice(announcementsCondition, waits)
	return nil
}

// lookFor is look before an epoch opens.
func (s *announcements) lookFor(ctx context.Context, o *opening) error {
	s.mu.Lock()
	opens := !o.Final && o.Round == 0 && !s.state.Knows(o.Epoch, 0)
	s.mu.Unlock()
	if !opens {
		return nil
	}
	return s.look(ctx)
}

// homeless tells people of an epoch whose reports the broker cannot keep.
func (s *announcements) homeless(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, fmt.Sprintf("%v.", why))
}

// narrow warns of a cohort that one host cannot fill.
func (s *announcements) narrow(a *plan.Announcement) {
	s.mu.Lock()
	most := s.state.PerHost()
	s.mu.Unlock()
	if a.Final || int64(a.Cohort.Size) <= int64(most) {
		return
	}
	s.c.Log.Warn().Uint64("epoch", a.Epoch).Uint32("size", a.Cohort.Size).Int("host_reports", most).
		Str(outcome.Field, string(cohort.Reason(wire.RefusalSponsorShare))).
		Msg("the broker keeps fewer reports of one host than the cohort has places: a host gets no more slots than " +
			"that, and the cohort fills only if there are hosts enough; raise --max-host-reports of riffle broker " +
			"provision")
}

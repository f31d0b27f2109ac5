package randomizer

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrRewound says that an announcement does not continue the chain of those seen before: somebody shows this host another past.
var ErrRewound = errors.New("the announcement does not follow the ones seen before")

// round is a place in the chain of announcements.
type round struct {
	epoch uint64
	round uint32
}

// announced is one announcement as this host judges it.
type announced struct {
	*plan.Announcement
	digest [32]byte
	// What the host would let its records take part in; weak says why not, and then nobody is enrolled.
	weak      error
	guarantee privacy.Guarantee // of the whole epoch
	releases  int
	round     *plan.Encoder
	sealer    *seal.BitSealer
}

// judge opens an announcement and checks it against the limits. An ErrForeign means that the announcement is no statement of the analyzer.
func (h *Host) judge(stored bus.Announcement) (*announced, error) {
	a, digest, err := wire.OpenAnnouncement(stored.Payload, stored.Epoch, stored.Round, wire.Party{Deployment: h.c.Deployment, Key: h.c.Analyzer})
	if err != nil {
		return nil, err
	}
	out := &announced{Announcement: a, digest: digest}
	if a.Final {
		return out, nil
	}
	for _, r := range a.Plan.Rounds {
		out.releases += len(r.Releases)
	}
	if out.sealer, err = seal.NewBitSealer(a.AnalyzerKey, digest); err != nil {
		return nil, err
	}
	if out.guarantee, out.weak = h.c.Limits.Check(a); out.weak == nil {
		out.round, out.weak = h.c.Limits.CheckRound(a)
	}
	return out, nil
}

// follow takes the next announcement of the chain; fresh tells whether it is now in force. One that was seen before changes nothing.
func (h *Host) follow(stored bus.Announcement) (fresh bool, err error) {
	h.c.Announcements.Received(1)
	refused := func(err error) (bool, error) {
		why := announcementReason(err)
		h.c.Announcements.Refused(why, 1)
		h.c.Log.Error().Err(err).Str(outcome.Field, string(why)).Uint64("epoch", stored.Epoch).Uint32("round", stored.Round).Msg("announcement refused")
		h.mu.Lock()
		h.refusal = refusal(stored, err)
		h.mu.Unlock()
		h.sayFollowing()
		return false, nil
	}
	a, err := h.judge(stored)
	if errors.Is(err, wire.ErrForeign) { // anybody with the analyzer's broker credential can put it there: it says nothing of the announcements
		why := announcementReason(err)
		h.c.Announcements.Refused(why, 1)
		h.c.Log.Warn().Err(err).Str(outcome.Field, string(why)).Uint64("epoch", stored.Epoch).Uint32("round", stored.Round).
			Msg("an announcement that is not the analyzer's is skipped: somebody else writes with its broker credential")
		h.mu.Lock()
		if h.current == nil { // a host that knows the wrong analyzer sees nothing else, and should say so
			h.refusal = refusal(stored, err)
		}
		h.mu.Unlock()
		h.sayFollowing()
		return false, nil
	}
	if err != nil {
		return refused(err)
	}
	h.mu.Lock()
	last := h.current
	h.mu.Unlock()
	known := last != nil && (a.Epoch < last.Epoch || a.Epoch == last.Epoch && a.Round <= last.Round)
	if !known {
		if err := succeeds(a, last); err != nil {
			return refused(err)
		}
	}
	switch err := h.store.follow(a.Epoch, a.Round, a.digest); {
	case errors.Is(err, ErrRewound):
		return refused(err)
	case err != nil:
		return false, err
	case known:
		h.c.Announcements.Released(1)
		return false, nil
	}
	if a.weak != nil {
		h.c.Announcements.Refused(PlanRefused, 1)
		h.c.Log.Error().Err(a.weak).Str(outcome.Field, string(PlanRefused)).Uint64("epoch", a.Epoch).Msg("nobody is enrolled under this plan")
	} else {
		h.c.Announcements.Released(1)
		h.c.Log.Info().Uint64("epoch", a.Epoch).Uint32("round", a.Round).Bool("final", a.Final).Msg("announcement in force")
	}
	h.mu.Lock()
	h.current, h.full, h.refusal = a, false, nil
	close(h.changed)
	h.changed = make(chan struct{})
	h.mu.Unlock()
	h.sayFollowing()
	return true, nil
}

// sayFollowing tells whoever watches the host whether it follows the latest announcement: not where it refuses that, nor where the broker
// shows less than the host has seen. A plan that the host's limits rule out is followed, and nobody is enrolled.
func (h *Host) sayFollowing() {
	if h.c.Following == nil {
		return
	}
	h.mu.Lock()
	err := h.refusal
	if err == nil && h.current != nil {
		err = h.rewound(h.current)
	}
	caughtUp := h.caughtUp
	h.mu.Unlock()
	if caughtUp {
		h.c.Following.Set(err)
	}
}

func refusal(stored bus.Announcement, err error) error {
	return fmt.Errorf("the announcement of round %d of epoch %d is refused: %w", stored.Round, stored.Epoch, err)
}

// succeeds holds an announcement against the one before it.
func succeeds(a, last *announced) error {
	if last == nil {
		if a.Epoch != 1 || a.Round != 0 {
			return fmt.Errorf("%w: the first one seen is round %d of epoch %d", ErrRewound, a.Round, a.Epoch)
		}
		return nil
	}
	next := a.Epoch == last.Epoch+1 && a.Round == 0
	if !bytes.Equal(a.Previous, last.digest[:]) || !next && !(a.Epoch == last.Epoch && a.Round == last.Round+1) {
		return fmt.Errorf("%w: round %d of epoch %d names %x as its predecessor, the last one seen is round %d of epoch %d with digest %x",
			ErrRewound, a.Round, a.Epoch, short(a.Previous), last.Round, last.Epoch, last.digest[:8])
	}
	if next {
		return nil
	}
	changed := ""
	switch {
	case !a.Plan.Equal(last.Plan):
		changed = "plan"
	case a.Cohort != last.Cohort:
		changed = "cohort"
	case a.Timing != last.Timing:
		changed = "timing"
	default:
		return nil
	}
	return fmt.Errorf("%w: round %d of epoch %d changes the epoch's %s", ErrRewound, a.Round, a.Epoch, changed)
}

// rewound tells whether the broker shows less than an earlier process of this host saw: the policy is not the one in force, and
// nothing is decided with it. It is so for moments after a start, while the announcements are read.
func (h *Host) rewound(a *announced) error {
	if a.Epoch > h.seen.epoch || a.Epoch == h.seen.epoch && a.Round >= h.seen.round {
		return nil
	}
	return fmt.Errorf("%w: the last one shown is round %d of epoch %d, but this host has seen round %d of epoch %d before",
		ErrRewound, a.Round, a.Epoch, h.seen.round, h.seen.epoch)
}

func short(digest []byte) []byte { return digest[:min(8, len(digest))] }

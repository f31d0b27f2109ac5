package randomizer

import (
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// follow takes the next announcement of the chain; fresh reports whether it is now in force. One that was seen before
// changes nothing.
func (h *Host) follow(stored bus.Announcement) (fresh bool, err error) {
	h.c.Announcements.Received(1)
	refused := func(err error) (bool, error) {
		why := announcementReason(err)
		h.c.Announcements.Refused(why, 1)
		about(h.c.Log.Error(), err, why, stored.Epoch, stored.Round).Msg("announcement refused")
		h.mu.Lock()
		h.refusal = refusal(stored, err)
		h.mu.Unlock()
		h.sayFollowing()
		return false, nil
	}
	a, err := h.core.Judge(stored.Payload, stored.Epoch, stored.Round)
	// Anyone with the analyzer's broker credential can put it there: it says nothing of the announcements.
	if errors.Is(err, wire.ErrForeign) {
		why := announcementReason(err)
		h.c.Announcements.Refused(why, 1)
		about(h.c.Log.Warn(), err, why, stored.Epoch, stored.Round).Msg("an announcement that is not the analyzer's " +
			"is skipped: another party writes with the analyzer's broker credential")
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
	known := !a.After(last)
	if !known {
		if err := a.Follows(last); err != nil {
			return refused(err)
		}
	}
	switch err := h.store.Follow(a.Epoch, a.Round, a.Digest); {
	case errors.Is(err, device.ErrRewound):
		return refused(err)
	case err != nil:
		return false, err
	case known:
		h.c.Announcements.Released(1)
		return false, nil
	}
	if a.Weak != nil {
		h.c.Announcements.Refused(PlanRefused, 1)
		about(h.c.Log.Error(), a.Weak, PlanRefused, a.Epoch, a.Round).Msg("no device is enrolled under this plan")
	} else {
		h.c.Announcements.Released(1)
		h.c.Log.Info().Uint64("epoch", a.Epoch).Uint32("round", a.Round).Bool("final", a.Final).
			Msg("announcement in force")
	}
	h.mu.Lock()
	h.current, h.full, h.refusal = a, false, nil
	if !a.Final {
		h.pinned, h.panels = a.Plan.Channel, a.Panels()
	}
	h.news = new(news)
	close(h.changed)
	h.changed = make(chan struct{})
	h.mu.Unlock()
	h.played.begin(a.Epoch)
	h.sayFollowing()
	return true, nil
}

// about says in a log entry what it is about, and why.
func about(e *zerolog.Event, err error, why outcome.Reason, epoch uint64, round uint32) *zerolog.Event {
	return e.Err(err).Str(outcome.Field, string(why)).Uint64("epoch", epoch).Uint32("round", round)
}

// sayFollowing says in the role's health whether the host follows the latest announcement: it does not where it refuses
// that one, nor where the broker shows less than the host has seen. A plan that the host's limits rule out is followed,
// and no device is enrolled.
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

// rewound reports whether the broker shows less than an earlier process of this host saw: the policy is not the one in
// force, and nothing is decided with it. It is so for moments after a start, while the announcements are read.
func (h *Host) rewound(a *device.Announced) error {
	if a.Epoch > h.seen.Epoch || a.Epoch == h.seen.Epoch && a.Round >= h.seen.Round {
		return nil
	}
	return fmt.Errorf(
		"%w: the last one shown is round %d of epoch %d, but this host has seen round %d of epoch %d before",
		device.ErrRewound, a.Round, a.Epoch, h.seen.Round, h.seen.Epoch)
}

package randomizer

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// following takes what the broker shows of the deployment: the analyzer's announcements, and the shuffler's keys.
type following struct {
	*core
	played played // whose counts are of the announced epoch
}

// follow takes the next announcement of the chain; fresh reports whether it is now in force. One that was seen before
// changes nothing.
func (f *following) follow(stored bus.Announcement) (fresh bool, err error) {
	a, err := f.link(stored, f.inForce())
	if a != nil {
		f.enforce(a)
	}
	return a != nil, err
}

// catchUp takes all that was announced before the start, link by link. The last of the chain is then in force; the
// plans of those before, under which nothing is asked any more, are not judged.
func (f *following) catchUp(all []bus.Announcement) error {
	last := f.inForce()
	var latest *device.Announced
	for _, stored := range all {
		a, err := f.link(stored, last)
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		if latest != nil {
			f.c.Announcements.Released(1)
		}
		latest, last = a, a
	}
	if latest != nil {
		f.enforce(latest)
	}
	return nil
}

// link verifies the next announcement of the chain after the last one, and makes it durable that it was seen. It is nil
// where the announcement is refused, is not the analyzer's, or was seen before.
func (f *following) link(stored bus.Announcement, last *device.Announced) (next *device.Announced, err error) {
	f.c.Announcements.Received(1)
	refuse := func(err error) (*device.Announced, error) {
		why := announcementReason(err)
		f.c.Announcements.Refused(why, 1)
		about(f.c.Log.Error(), err, why, stored.Epoch, stored.Round).Msg("announcement refused")
		f.mu.Lock()
		f.refusal = refusal(stored, err)
		f.mu.Unlock()
		f.sayFollowing()
		return nil, nil
	}
	a, err := f.rules.Judge(stored.Payload, stored.Epoch, stored.Round)
	// Anyone with the analyzer's broker credential can put it there: it says nothing of the announcements.
	if errors.Is(err, wire.ErrForeign) {
		why := announcementReason(err)
		f.c.Announcements.Refused(why, 1)
		about(f.c.Log.Warn(), err, why, stored.Epoch, stored.Round).Msg("an announcement that is not the analyzer's " +
			"is skipped: another party writes with the analyzer's broker credential")
		f.mu.Lock()
		if last == nil { // a host that knows the wrong analyzer sees nothing else, and should say so
			f.refusal = refusal(stored, err)
		}
		f.mu.Unlock()
		f.sayFollowing()
		return nil, nil
	}
	if err != nil {
		return refuse(err)
	}
	known := !a.After(last)
	if !known {
		if err := a.Follows(last); err != nil {
			return refuse(err)
		}
	}
	switch err := f.store.Follow(a.Epoch, a.Round, a.Digest); {
	case errors.Is(err, device.ErrRewound):
		return refuse(err)
	case err != nil:
		return nil, err
	case known:
		f.c.Announcements.Released(1)
		return nil, nil
	}
	f.mu.Lock()
	f.refusal = nil
	if !a.Final {
		f.pinned, f.drawing = a.Plan.Channel, a.Panels()
	}
	f.mu.Unlock()
	return a, nil
}

// enforce judges the plan of an announcement, and puts it in force.
func (f *following) enforce(a *device.Announced) {
	if weak := a.Weak(); weak != nil { // computed here, and not by the first to ask, who may hold a lock
		f.c.Announcements.Refused(PlanRefused, 1)
		about(f.c.Log.Error(), weak, PlanRefused, a.Epoch, a.Round).Msg("no device is enrolled under this plan")
	} else {
		f.c.Announcements.Released(1)
		f.c.Log.Info().Uint64("epoch", a.Epoch).Uint32("round", a.Round).Bool("final", a.Final).
			Msg("announcement in force")
	}
	f.mu.Lock()
	f.current, f.full = a, false
	f.news = new(news)
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
	f.played.begin(a.Epoch)
	f.sayFollowing()
}

// about says in a log entry what it is about, and why.
func about(e *zerolog.Event, err error, why outcome.Reason, epoch uint64, round uint32) *zerolog.Event {
	return e.Err(err).Str(outcome.Field, string(why)).Uint64("epoch", epoch).Uint32("round", round)
}

// sayFollowing says in the role's health whether the host follows the latest announcement: it does not where it refuses
// that one, nor where the broker shows less than the host has seen. A plan that the host's limits rule out is followed,
// and no device is enrolled.
func (f *following) sayFollowing() {
	if f.c.Following == nil {
		return
	}
	f.mu.Lock()
	err := f.refusal
	if err == nil && f.current != nil {
		err = f.rewound(f.current)
	}
	caughtUp := f.caughtUp
	f.mu.Unlock()
	if caughtUp {
		f.c.Following.Set(err)
	}
}

func refusal(stored bus.Announcement, err error) error {
	return fmt.Errorf("the announcement of round %d of epoch %d is refused: %w", stored.Round, stored.Epoch, err)
}

// A key of the shuffler that was retired may be in wrong hands by now. Its sets are numbered; the latest one seen is
// kept in the store before anything is sealed to its key, and whatever the broker shows later, no report is sealed to
// an earlier set's key. A restart seals to the kept one, so that a broker gains nothing by showing none.

// takeKeySet takes a set of the shuffler's keys that the broker shows.
func (f *following) takeKeySet(ctx context.Context, role bus.Role, payload []byte) error {
	if role != bus.Shuffler {
		return nil
	}
	f.c.KeySets.Received(1)
	set, err := f.rules.Keys(payload)
	if err != nil {
		return f.refuseKeySet(wireReason(wire.Reason(err)), err)
	}
	f.mu.Lock()
	kept := f.keys
	f.mu.Unlock()
	newer, err := device.Newer(set, kept)
	if newer {
		if err := f.store.PutNote(store.Keys, payload); err != nil {
			return fmt.Errorf("randomizer: the shuffler's keys cannot be kept: %w", err)
		}
		f.useKeys(set)
	}
	if err != nil && set.Number < kept.Number {
		// The broker keeps a few sets and shows the older ones first. That is history, unless it shows nothing newer.
		newest, broken := f.c.Bus.ReadKeys(ctx, bus.Shuffler)
		if broken != nil {
			return broken
		}
		if last, bad := f.rules.Keys(newest); bad == nil && last.Number >= kept.Number {
			err = nil
		}
	}
	if err != nil {
		return f.refuseKeySet(api.Rewound, err)
	}
	f.c.KeySets.Released(1)
	return nil
}

func (f *following) refuseKeySet(why outcome.Reason, err error) error {
	f.c.KeySets.Refused(why, 1)
	f.c.Log.Error().Err(err).Str(outcome.Field, string(why)).
		Msg("key set refused; reports are sealed to the latest one seen")
	return nil
}

// useKeys seals to the newest key of a set from now on.
func (f *following) useKeys(set *wire.KeySet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys, f.shuffler = set, set.Keys[0]
}

package randomizer

import (
	"context"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A key of the shuffler that was retired may be in wrong hands by now. Its sets are numbered; the latest one seen is kept in the store
// before anything is sealed to its key, and whatever the broker shows later, no report is sealed to an earlier set's key. A restart
// seals to the kept one, so that a broker gains nothing by showing none.

// rekeyed takes a set of the shuffler's keys that the broker shows.
func (h *Host) rekeyed(ctx context.Context, role bus.Role, payload []byte) error {
	if role != bus.Shuffler {
		return nil
	}
	h.c.KeySets.Received(1)
	set, err := h.openKeys(payload)
	if err != nil {
		return h.keysRefused(wireReason(wire.Reason(err)), err)
	}
	h.mu.Lock()
	kept := h.keys
	h.mu.Unlock()
	switch {
	case kept == nil || set.Number > kept.Number:
		if err := h.store.putKeys(payload); err != nil {
			return fmt.Errorf("randomizer: the shuffler's keys cannot be kept: %w", err)
		}
		h.takeKeys(set)
	case set.Number == kept.Number && !sameKeys(set, kept):
		return h.keysRefused(Rewound, fmt.Errorf("%w: set %d of the shuffler's keys had other keys before", ErrRewound, set.Number))
	case set.Number < kept.Number:
		// The broker keeps a few sets and shows the older ones first. That is history, unless it shows nothing newer.
		newest, err := h.c.Bus.Keys(ctx, bus.Shuffler)
		if err != nil {
			return err
		}
		if last, err := h.openKeys(newest); err != nil || last.Number < kept.Number {
			return h.keysRefused(Rewound, fmt.Errorf("%w: the broker shows set %d of the shuffler's keys, set %d was seen before", ErrRewound, set.Number, kept.Number))
		}
	}
	h.c.KeySets.Released(1)
	return nil
}

func (h *Host) openKeys(payload []byte) (*wire.KeySet, error) {
	set, _, err := wire.Open[wire.KeySet](payload, wire.Party{Deployment: h.c.Deployment, Key: h.c.Shuffler})
	return set, err
}

func (h *Host) keysRefused(why outcome.Reason, err error) error {
	h.c.KeySets.Refused(why, 1)
	h.c.Log.Error().Err(err).Str(outcome.Field, string(why)).Msg("key set refused; reports are sealed to the latest one seen")
	return nil
}

// takeKeys seals to the newest key of a set from now on.
func (h *Host) takeKeys(set *wire.KeySet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys, h.shuffler = set, set.Keys[0]
}

func sameKeys(a, b *wire.KeySet) bool {
	return slices.EqualFunc(a.Keys, b.Keys, func(x, y []byte) bool { return string(x) == string(y) })
}

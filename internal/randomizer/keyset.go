package randomizer

import (
	"context"
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A key of the shuffler that was retired may be in wrong hands by now. Its sets are numbered; the latest one seen is
// kept in the store before anything is sealed to its key, and whatever the broker shows later, no report is sealed to
// an earlier set's key. A restart seals to the kept one, so that a broker gains nothing by showing none.

// rekeyed takes a set of the shuffler's keys that the broker shows.
func (h *Host) rekeyed(ctx context.Context, role bus.Role, payload []byte) error {
	if role != bus.Shuffler {
		return nil
	}
	h.c.KeySets.Received(1)
	set, err := h.core.Keys(payload)
	if err != nil {
		return h.keysRefused(wireReason(wire.Reason(err)), err)
	}
	h.mu.Lock()
	kept := h.keys
	h.mu.Unlock()
	newer, err := device.Newer(set, kept)
	if newer {
		if err := h.store.PutNote(store.Keys, payload); err != nil {
			return fmt.Errorf("randomizer: the shuffler's keys cannot be kept: %w", err)
		}
		h.takeKeys(set)
	}
	if err != nil && set.Number < kept.Number {
		// The broker keeps a few sets and shows the older ones first. That is history, unless it shows nothing newer.
		newest, broken := h.c.Bus.ReadKeys(ctx, bus.Shuffler)
		if broken != nil {
			return broken
		}
		if last, bad := h.core.Keys(newest); bad == nil && last.Number >= kept.Number {
			err = nil
		}
	}
	if err != nil {
		return h.keysRefused(api.Rewound, err)
	}
	h.c.KeySets.Released(1)
	return nil
}

func (h *Host) keysRefused(why outcome.Reason, err error) error {
	h.c.KeySets.Refused(why, 1)
	h.c.Log.Error().Err(err).Str(outcome.Field,
		string(why)).Msg("key set refused; reports are sealed to the latest one seen")
	return nil
}

// takeKeys seals to the newest key of a set from now on.
func (h *Host) takeKeys(set *wire.KeySet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys, h.shuffler = set, set.Keys[0]
}

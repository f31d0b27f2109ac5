package shuffler

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// keysCondition is the readiness condition that the broker shows this shuffler's keys. It is noticed only where it is
// not met at first.
const keysCondition = "keys"

// keySet publishes the keys that reports may be sealed to.
type keySet struct{ *core }

// publishKeys publishes the keys that reports may be sealed to, under a number above that of every set before: a host
// that saw a later set refuses an earlier one. A set that is unchanged keeps its number and, where the broker shows it,
// is not published again. The number is in the journal before it leaves; where one of state folder and broker was set
// back, the other still knows it. Where both were, a number comes again: hosts that saw a later set refuse this one,
// and say so.
func (s *keySet) publishKeys(ctx context.Context) error {
	set := &wire.KeySet{Deployment: s.c.Deployment}
	for _, k := range s.c.Keys {
		set.Keys = append(set.Keys, k.Public())
	}
	digest := keysDigest(set.Keys)
	shown, err := s.shownKeys(ctx)
	if err != nil {
		return err
	}
	if shown == nil {
		shown = new(wire.KeySet)
	}
	s.mu.Lock()
	own := s.state.Keys()
	s.mu.Unlock()
	set.Number = max(shown.Number, own.Number)
	changed := own.Number == set.Number && !bytes.Equal(own.Digest, digest[:]) ||
		shown.Number == set.Number && keysDigest(shown.Keys) != digest
	if set.Number == 0 || changed {
		if set.Number == math.MaxUint64 {
			return fmt.Errorf("shuffler: there is no number for another set of keys")
		}
		set.Number++
	}
	err = s.decide(func(state *cohort.State) (*cohort.Event, error) {
		if state.Keys().Number == set.Number {
			return nil, nil
		}
		return &cohort.Event{Keys: &cohort.Keys{Number: set.Number, Digest: digest[:]}}, nil
	})
	if err != nil || shown.Number == set.Number {
		return err
	}
	signed, _, err := wire.Sign(set, s.c.Identity)
	if err != nil {
		return fmt.Errorf("shuffler: %w", err)
	}
	if err := s.c.Bus.PutKeys(ctx, signed); err != nil {
		return err
	}
	s.c.Log.Info().Uint64("number", set.Number).Int("keys", len(set.Keys)).Msg("key set published")
	return nil
}

// keepPublishing tries again to publish the keys until the broker has room for them. Until then hosts seal to the set
// that the broker shows, which this shuffler can open if its keys were rotated with the old one kept. The cause is why
// they could not be published so far.
func (s *keySet) keepPublishing(ctx context.Context, cause error) error {
	s.c.Log.Error().Err(cause).Msg("the broker has no room for the key set; tried again until it has")
	for {
		s.notice(keysCondition, fmt.Errorf("the key set is not published: %w", cause))
		if err := role.Sleep(ctx, s.c.Clock, retryPause); err != nil {
			return err
		}
		switch cause = s.publishKeys(ctx); {
		case cause == nil:
			s.notice(keysCondition, nil)
			return nil
		case !errors.Is(cause, bus.ErrFull):
			return cause
		}
	}
}

// shownKeys is this shuffler's own latest set at the broker; nil where there is none. A set that this shuffler did not
// sign counts for nothing.
func (s *keySet) shownKeys(ctx context.Context) (*wire.KeySet, error) {
	payload, err := s.c.Bus.ReadKeys(ctx, bus.Shuffler)
	if errors.Is(err, bus.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	set, _, err := wire.Open[wire.KeySet](payload, s.own())
	if err != nil {
		s.c.Log.Error().Err(err).
			Msg("the key set at the broker is not this shuffler's; hosts refuse it, and another is published")
		return nil, nil
	}
	return set, nil
}

// keysDigest names a list of keys.
func keysDigest(keys [][]byte) cohort.Digest {
	return sha256.Sum256(bytes.Join(keys, nil)) // all have one length
}

package shuffler

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// published runs the shuffler's publication of its keys with these, and returns what the broker shows then.
func (s *scene) published(keys ...*seal.HPKEKey) *wire.KeySet {
	s.t.Helper()
	s.config.Keys = keys
	sh, err := s.configured().open()
	s.must(err)
	s.must(sh.keys.publishKeys(s.Context()))
	s.must(sh.Close())
	payload, err := s.devices.Keys.ReadKeys(s.Context(), bus.Shuffler)
	s.must(err)
	set, _, err := wire.Open[wire.KeySet](payload, s.ShufflerParty())
	s.must(err)
	if want := keys[0].Public(); !bytes.Equal(set.Keys[0], want) || len(set.Keys) != len(keys) {
		s.t.Fatalf("the set shown has %d keys, and not the configured ones", len(set.Keys))
	}
	return set
}

// A set of keys has a number above that of every other set before it, and an unchanged one keeps its own, whichever of
// state folder and broker was set back in between.
func TestKeySetsAreNumbered(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a, b, c := s.ShufflerKey, testbed.NewKey(t), testbed.NewKey(t)
	var numbers []uint64
	step := func(keys ...*seal.HPKEKey) { numbers = append(numbers, s.published(keys...).Number) }
	step(a)
	step(a) // as it was
	step(b, a)
	folder := t.TempDir()
	s.must(os.CopyFS(folder, os.DirFS(s.config.StateDir)))
	broker := s.Backup()
	step(c, b)
	step(b, a) // a set that was shown before is another set now
	if want := []uint64{1, 1, 2, 3, 4}; !slices.Equal(numbers, want) {
		t.Fatalf("numbers %v, expected %v", numbers, want)
	}
	newest := s.config.StateDir
	s.config.StateDir = folder // the state folder alone is restored: the broker still shows 4
	step(b, a)
	step(c)
	if want := []uint64{4, 5}; !slices.Equal(numbers[5:], want) {
		t.Fatalf("with a restored state folder: numbers %v, expected %v", numbers[5:], want)
	}
	s.config.StateDir = newest // and the broker alone: the journal still knows 4
	s.Restore(broker)
	step(b, a)
	step(a)
	if want := []uint64{4, 5}; !slices.Equal(numbers[7:], want) {
		t.Fatalf("with a restored broker: numbers %v, expected %v", numbers[7:], want)
	}
}

// An unchanged set is not published again, and one that another party signed counts for nothing.
func TestKeySetsAreTheShufflersOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.published(s.ShufflerKey)
	before, err := s.devices.Keys.ReadKeys(s.Context(), bus.Shuffler)
	s.must(err)
	s.published(s.ShufflerKey)
	if after, err := s.devices.Keys.ReadKeys(s.Context(), bus.Shuffler); err != nil || !bytes.Equal(before, after) {
		t.Errorf("an unchanged set changed: %v", err)
	}
	other := &wire.KeySet{Deployment: testbed.Deployment, Number: 900, Keys: [][]byte{testbed.NewKey(t).Public()}}
	forged, _ := s.Sign(other, s.Analyzer)
	s.must(s.broker.Keys.PutKeys(s.Context(), forged))
	if n := s.published(s.ShufflerKey).Number; n != 1 {
		t.Errorf("after another party's set: number %d", n)
	}
}

// full is a broker without room for key sets, until it is told otherwise.
type full struct {
	Broker
	roomy   atomic.Bool
	refused atomic.Int32
}

func (b *full) PutKeys(ctx context.Context, signed []byte) error {
	if !b.roomy.Load() {
		b.refused.Add(1)
		return fmt.Errorf("publish: %w", bus.ErrFull)
	}
	return b.Broker.PutKeys(ctx, signed)
}

// A broker that has no room for the key set does not end the shuffler: it says that it is not ready, mixes meanwhile,
// which may be what makes room, and publishes the set once there is room.
func TestAFullBrokerGetsTheKeysWhenItHasRoom(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var broker *full
	s.wrap = func(c Broker) Broker {
		broker = &full{Broker: c}
		return broker
	}
	s.start()
	s.eventually("tried twice", func() bool { return broker.refused.Load() >= 2 })
	if why := s.why(keysCondition); !strings.Contains(why, bus.ErrFull.Error()) {
		t.Errorf("readiness says %q", why)
	}
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(12)
	if m := s.manifest(1, 0); m.Outcome != wire.Released {
		t.Errorf("the round is %v", m.Outcome)
	}
	broker.roomy.Store(true)
	s.eventually("ready", func() bool { return s.unmetKnown(keysCondition) && s.why(keysCondition) == "" })
	payload, err := s.devices.Keys.ReadKeys(s.Context(), bus.Shuffler)
	s.must(err)
	if set, _, err := wire.Open[wire.KeySet](payload, s.ShufflerParty()); err != nil || set.Number != 1 {
		t.Errorf("the broker shows %v, %v", set, err)
	}
}

package bus_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// retainedOf reads what is retained of a round.
func retainedOf(t *testing.T, c *bus.Conn, b *bed, epoch uint64, round uint32) (all []bus.Retained) {
	t.Helper()
	err := c.Retained.ReadRetained(b.ctx(), epoch, round, func(r bus.Retained) error {
		all = append(all, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The broker drops what is retained when its window is over, also where it was restarted meanwhile, and not before.
// Then the place is free: a release that could not be finished within the window is retained again.
func TestTheBrokerEndsTheWindow(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	shuf, auditor := b.connect(bus.Shuffler), b.connect(bus.Auditor)
	for index, window := range []time.Duration{bus.MinRetain, time.Hour} {
		if err := shuf.Retained.PublishRetained(b.ctx(), 7, 1, uint32(index), []byte("x"), window); err != nil {
			t.Fatal(err)
		}
	}
	b.server.Stop()
	b.start()
	left := func() (indexes []uint32) {
		for _, r := range retainedOf(t, auditor, b, 7, 1) {
			indexes = append(indexes, r.Index)
		}
		return indexes
	}
	testbed.Eventually(t, "dropped", func() bool { return len(left()) < 2 })
	if got := left(); !slices.Equal(got, []uint32{1}) {
		t.Errorf("%v are left", got)
	}
	if err := shuf.Retained.PublishRetained(b.ctx(), 7, 1, 0, []byte("again"), time.Hour); err != nil {
		t.Error(err)
	}
	if got := left(); !slices.Equal(got, []uint32{1, 0}) {
		t.Errorf("%v are left", got)
	}
}

// Nothing is retained without an end that the broker knows and that is within the longest.
func TestAWindowHasAnEnd(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	shuf, auditor := b.connect(bus.Shuffler), b.connect(bus.Auditor)
	for _, window := range []time.Duration{-time.Hour, 0, bus.MinRetain - 1, bus.MaxRetain + 1} {
		if err := shuf.Retained.PublishRetained(b.ctx(), 7, 1, 0, []byte("x"), window); err == nil {
			t.Errorf("retained for %s", window)
		}
	}
	if all := retainedOf(t, auditor, b, 7, 1); len(all) > 0 {
		t.Errorf("%d are retained", len(all))
	}
	for _, s := range (bus.ProvisionOptions{}).Streams() {
		if s.Name == bus.StreamRetained && s.MaxAge != bus.MaxRetain {
			t.Errorf("what comes without an end is kept for %s", s.MaxAge)
		}
	}
}

// The shuffler writes and the auditor reads; no one else does either.
func TestOnlyTheAuditorReadsWhatIsRetained(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	if err := b.connect(bus.Shuffler).Retained.PublishRetained(b.ctx(), 7, 1, 0, []byte("x"), time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, r := range everyRole {
		c := b.connect(r)
		read := c.Retained.ReadRetained(b.ctx(), 7, 1, func(bus.Retained) error { return nil })
		if (read == nil) != (r == bus.Auditor) || read != nil && !errors.Is(read, bus.ErrForbidden) {
			t.Errorf("the %s reads: %v", r, read)
		}
		write := c.Retained.PublishRetained(b.ctx(), 7, 1, 1, []byte("x"), time.Hour)
		if (write == nil) != (r == bus.Shuffler) || write != nil && !errors.Is(write, bus.ErrForbidden) {
			t.Errorf("the %s writes: %v", r, write)
		}
	}
}

// A deployment that was provisioned before anything could be retained says so at once and gets the stream when it is
// provisioned again; so does one whose stream would not drop what is too old.
func TestWhatCannotRetainSaysSo(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	admin, shuf := b.connect(bus.Admin), b.connect(bus.Shuffler)
	says := func(what, words string) {
		t.Helper()
		err := shuf.Retained.CanRetain(b.ctx())
		if !errors.Is(err, bus.ErrUnprovisioned) || !strings.Contains(err.Error(), "riffle broker provision again") ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := admin.JetStream().DeleteStream(b.ctx(), bus.StreamRetained); err != nil {
		t.Fatal(err)
	}
	says("no stream", "no stream RETAINED")
	for what, change := range map[string]func(*jetstream.StreamConfig){
		"no time to live": func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false },
		"no age":          func(c *jetstream.StreamConfig) { c.MaxAge = 0 },
	} {
		for _, s := range (bus.ProvisionOptions{}).Streams() {
			if s.Name != bus.StreamRetained {
				continue
			}
			change(&s)
			if _, err := admin.JetStream().CreateStream(b.ctx(), s); err != nil {
				t.Fatal(err)
			}
		}
		says(what, "would not drop")
		if what == "no time to live" {
			if err := shuf.Retained.PublishRetained(b.ctx(), 7, 1, 0, []byte("x"), time.Hour); !errors.Is(err,
				bus.ErrRefused) {
				t.Errorf("retained without an end: %v", err)
			}
		}
		if err := bus.Provision(b.ctx(), admin, bus.ProvisionOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := shuf.Retained.CanRetain(b.ctx()); err != nil {
			t.Errorf("%s, provisioned again: %v", what, err)
		}
		if err := admin.JetStream().DeleteStream(b.ctx(), bus.StreamRetained); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.connect(bus.Analyzer).Retained.CanRetain(b.ctx()); !errors.Is(err, bus.ErrForbidden) {
		t.Errorf("the analyzer asks: %v", err)
	}
}

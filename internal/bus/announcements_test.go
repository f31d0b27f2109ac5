package bus_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
)

// A place takes any number of announcements, so that no one can occupy it, and shows all readers the same order.
func TestNoAnnouncementOccupiesAPlace(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	thief, ana := b.connect(bus.Analyzer), b.connect(bus.Analyzer)
	dev, aud := b.connect(bus.Randomizer), b.connect(bus.Auditor)
	ctx := b.ctx()
	var want []string
	for i, p := range []string{"junk", "", "announcement", "more junk", "junk", "announcement"} {
		if err := []*bus.Conn{thief, ana}[i%2].Announcements.PutAnnouncement(ctx, 7, 2, []byte(p)); err != nil {
			t.Fatal(err)
		}
		if i < 4 {
			want = append(want, p)
		}
	}
	for _, c := range []*bus.Conn{dev, aud, ana} {
		all, err := c.Announcements.ReadAnnouncementsAt(ctx, 7, 2)
		var got []string
		for _, a := range all {
			got = append(got, string(a.Payload))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s reads %q, %v", c.Role(), got, err)
		}
	}
	for _, at := range [][2]uint64{{7, 0}, {7, 20}, {72, 0}} {
		if all, err := dev.Announcements.ReadAnnouncementsAt(ctx, at[0], uint32(at[1])); err != nil || len(all) != 0 {
			t.Errorf("at another place: %+v, %v", all, err)
		}
	}
}

// waiting is a transport that says when a watcher begins to wait for news.
type waiting struct {
	bus.Transport
	now chan struct{} // holds a token then
}

func (w waiting) PollAfter() time.Duration {
	select {
	case w.now <- struct{}{}:
	default:
	}
	return w.Transport.PollAfter()
}

// What is announced is heard of well before a watcher would look by itself.
func TestAnAnnouncementIsHeardOfAtOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ana := b.connect(bus.Analyzer)
	dev := waiting{b.connect(bus.Randomizer).Transport(), make(chan struct{}, 1)}
	ctx, cancel := context.WithCancelCause(b.ctx())
	seen := make(chan bus.Announcement, 100)
	done := make(chan error, 1)
	go func() {
		done <- bus.Over(dev).Announcements.WatchAnnouncements(ctx, func(a bus.Announcement) error {
			seen <- a
			return nil
		})
	}()
	late := time.Hour // the next look comes after ten seconds; a busy machine may be late once
	for e := uint64(0); e < 4 && late > 5*time.Second; e++ {
		<-dev.now // the watcher has looked, found no more, and waits
		begin := time.Now()
		if err := ana.Announcements.PutAnnouncement(ctx, e, 0, []byte("policy")); err != nil {
			t.Fatal(err)
		}
		if a := <-seen; a.Epoch != e {
			t.Fatalf("watcher saw %+v", a)
		}
		late = time.Since(begin)
	}
	if late > 5*time.Second {
		t.Errorf("four live announcements took more than 5 s each, the last %v: notices do not work", late)
	}
	cancel(errStop)
	if err := <-done; !errors.Is(err, errStop) {
		t.Errorf("watch ended with %v", err)
	}
}

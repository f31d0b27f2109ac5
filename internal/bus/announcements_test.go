package bus_test

import (
	"slices"
	"testing"

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

package randomizer

import (
	"context"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Broker is what a host does at the broker. Over makes one; the handles of package bus document each method. Safe for
// concurrent use.
type Broker interface {
	ReadAnnouncements(ctx context.Context) ([]bus.Announcement, error)
	WatchAnnouncements(ctx context.Context, handler func(bus.Announcement) error) error
	ReadKeys(ctx context.Context, role bus.Role) ([]byte, error)
	WatchKeys(ctx context.Context, handler func(role bus.Role, payload []byte) error) error
	EnrolOnce(ctx context.Context, request []byte) (reply []byte, err error)
	PublishReport(ctx context.Context, epoch uint64, round uint32, id string, envelope []byte) error
}

// Over are the handles of a connection that a host works with.
func Over(s bus.Streams) Broker {
	return struct {
		*bus.AnnouncementStream
		*bus.KeyStream
		*bus.Enrolment
		*bus.ReportStream
	}{s.Announcements, s.Keys, s.Enrolment, s.Reports}
}

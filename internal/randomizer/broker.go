package randomizer

import (
	"context"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Broker is what a host needs of the broker. *bus.Conn is one, whose documentation holds here. Safe for concurrent use.
type Broker interface {
	Announcements(ctx context.Context) ([]bus.Announcement, error)
	WatchAnnouncements(ctx context.Context, handler func(bus.Announcement) error) error
	Keys(ctx context.Context, role bus.Role) ([]byte, error)
	WatchKeys(ctx context.Context, handler func(role bus.Role, payload []byte) error) error
	EnrolOnce(ctx context.Context, request []byte) (reply []byte, err error)
	PublishReport(ctx context.Context, epoch uint64, round uint32, id string, envelope []byte) error
}

package analyzer

import (
	"context"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
)

// Broker is what the analyzer needs of its broker. *bus.Conn is one, and documents each method.
type Broker interface {
	Announcements(ctx context.Context) ([]bus.Announcement, error)
	AnnouncementsAt(ctx context.Context, epoch uint64, round uint32) ([]bus.Announcement, error)
	PutAnnouncement(ctx context.Context, epoch uint64, round uint32, payload []byte) error

	Mixed(ctx context.Context, handler func(*bus.Mixed)) error
	ReadManifest(ctx context.Context, epoch uint64, round uint32) ([]byte, error)
	shuffle.ChunkStore

	AppendAudit(ctx context.Context, kind string, payload []byte) error
	Audited(ctx context.Context, role bus.Role, kind string, payload []byte) (bool, error)
	ReadAudit(ctx context.Context, filter bus.AuditFilter, handler func(bus.Statement) error) error
}

// counting is the analyzer's side of the deployment's channel.
func (c Config) counting() channel.Counting {
	return &shuffle.Counting{Chunks: c.Bus, Clock: c.Clock, Log: c.Log, Messages: c.Messages}
}

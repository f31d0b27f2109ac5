package shuffler

import (
	"context"
	"errors"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/translog"
)

// Broker is what the shuffler does at its broker. Over makes one; the handles of package bus document each method.
type Broker interface {
	ReadAnnouncements(ctx context.Context) ([]bus.Announcement, error)
	ReadAnnouncementsAt(ctx context.Context, epoch uint64, round uint32) ([]bus.Announcement, error)
	WatchAnnouncements(ctx context.Context, handler func(bus.Announcement) error) error
	ReadKeys(ctx context.Context, role bus.Role) ([]byte, error)
	PutKeys(ctx context.Context, payload []byte) error
	ServeEnrol(ctx context.Context, workers int, handler func(context.Context, []byte) ([]byte, error)) error

	ReceiveReports(ctx context.Context, handler func(*bus.Delivery)) error
	ReportRoom(ctx context.Context) (bus.ReportRoom, error)
	GetReport(ctx context.Context, sequence uint64) ([]byte, error)
	StoredReports(ctx context.Context, epoch uint64, round uint32, from uint64, fn func(uint64, []byte) error) error
	LastReport(ctx context.Context) (uint64, error)
	PurgeReports(ctx context.Context, upTo uint64) error
	Backlog(ctx context.Context) (bus.Backlog, error)
	Traffic() bus.Traffic

	// Of the channel of shares.
	ReadPrepared(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error)
	PreparedNews(epoch uint64, round uint32) (news <-chan struct{}, stop func(), err error)
	Audited(ctx context.Context, role bus.Role, kind string, payload []byte) (bool, error)
	// Of that channel and of panels.
	Said(ctx context.Context, role bus.Role, kind string, handler func(payload []byte) error) error

	// Where there are workers.
	ReadChunks(ctx context.Context, epoch uint64, round uint32, handler func(index uint32, payload []byte) error) error
	PurgeSegments(ctx context.Context) error

	PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error
	SaidSince(ctx context.Context, role bus.Role, from uint64, handler func(bus.Statement) error) error
	AppendAuditAfter(ctx context.Context, kind string, payload []byte, last uint64) (sequence uint64, err error)
	// Where what is forwarded is retained.
	CanRetain(ctx context.Context) error
	PublishRetained(ctx context.Context, epoch uint64, round, index uint32, sealed []byte, window time.Duration) error
	PublishManifest(ctx context.Context, epoch uint64, round uint32, payload []byte) error
	ReadManifest(ctx context.Context, epoch uint64, round uint32) ([]byte, error)
}

// Over are the handles of a connection that the shuffler works with.
func Over(s bus.Streams) Broker {
	return streams{s.Announcements, s.Keys, s.Enrolment, s.Reports, s.Mixed, s.Prepared, s.Retained, s.Segments,
		s.Audit,
		s.Traffic}
}

type streams struct {
	*bus.AnnouncementStream
	*bus.KeyStream
	*bus.Enrolment
	*bus.ReportStream
	*bus.MixedStream
	*bus.PreparedStream
	*bus.RetainedStream
	*bus.SegmentStream
	*bus.AuditStream
	traffic func() bus.Traffic
}

// Traffic implements Broker.
func (s streams) Traffic() bus.Traffic { return s.traffic() }

// logged is the broker with the shuffler's transparency log before its part of the audit stream.
type logged struct {
	Broker
	log *translog.Log
}

// AppendAudit is that of the log. Its error is fatal where the log's file cannot be written.
func (l logged) AppendAudit(ctx context.Context, kind string, signed []byte) error {
	err := l.log.AppendAudit(ctx, kind, signed)
	if errors.Is(err, translog.ErrDisk) {
		return fatal(err)
	}
	return err
}

package bus

import "context"

// What a role can do, in parts as small as its rooms need them. A Conn has all of them; the broker refuses those beyond its role.
type (
	// ReportPublisher is the randomizer's way out.
	ReportPublisher interface {
		PublishReport(ctx context.Context, epoch uint64, round uint32, msgID string, payload []byte) error
	}
	// Enroller asks for a slot.
	Enroller interface {
		Enrol(ctx context.Context, payload []byte) ([]byte, error)
		EnrolOnce(ctx context.Context, payload []byte) ([]byte, error)
	}
	// EnrolServer gives slots.
	EnrolServer interface {
		ServeEnrol(ctx context.Context, workers int, handler func(ctx context.Context, payload []byte) ([]byte, error)) error
	}
	// ReportReader takes reports in, reads them again and forgets them.
	ReportReader interface {
		Reports(ctx context.Context, handler func(*Delivery)) error
		Backlog(ctx context.Context) (Backlog, error)
		LastReport(ctx context.Context) (uint64, error)
		StoredReports(ctx context.Context, epoch uint64, round uint32, from uint64, handler func(sequence uint64, payload []byte) error) error
		GetReport(ctx context.Context, sequence uint64) ([]byte, error)
		PurgeReports(ctx context.Context, upTo uint64) error
	}
	// MixedPublisher forwards a released round.
	MixedPublisher interface {
		PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error
		PublishManifest(ctx context.Context, epoch uint64, round uint32, payload []byte) error
	}
	// MixedReader takes released rounds in.
	MixedReader interface {
		Mixed(ctx context.Context, handler func(*Mixed)) error
		ReadChunks(ctx context.Context, epoch uint64, round uint32, handler func(index uint32, payload []byte) error) error
		ReadManifest(ctx context.Context, epoch uint64, round uint32) ([]byte, error)
		PurgeMixed(ctx context.Context, epoch uint64, round uint32) error
	}
	// AnnouncementWriter announces.
	AnnouncementWriter interface {
		PutAnnouncement(ctx context.Context, epoch uint64, round uint32, payload []byte) error
	}
	// AnnouncementReader reads what was announced.
	AnnouncementReader interface {
		Announcements(ctx context.Context) ([]Announcement, error)
		AnnouncementsAt(ctx context.Context, epoch uint64, round uint32) ([]Announcement, error)
		WatchAnnouncements(ctx context.Context, handler func(Announcement) error) error
	}
	// KeyWriter publishes the role's public keys.
	KeyWriter interface {
		PutKeys(ctx context.Context, payload []byte) error
	}
	// KeyReader reads them.
	KeyReader interface {
		Keys(ctx context.Context, role Role) ([]byte, error)
		WatchKeys(ctx context.Context, handler func(role Role, payload []byte) error) error
	}
	// AuditWriter appends to the audit log.
	AuditWriter interface {
		AppendAudit(ctx context.Context, kind string, payload []byte) error
	}
	// AuditReader reads it.
	AuditReader interface {
		Audited(ctx context.Context, role Role, kind string, payload []byte) (bool, error)
		ReadAudit(ctx context.Context, filter AuditFilter, handler func(Statement) error) error
	}
)

var _ interface {
	ReportPublisher
	Enroller
	EnrolServer
	ReportReader
	MixedPublisher
	MixedReader
	AnnouncementWriter
	AnnouncementReader
	KeyWriter
	KeyReader
	AuditWriter
	AuditReader
} = (*Conn)(nil)

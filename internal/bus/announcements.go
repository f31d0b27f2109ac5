package bus

import (
	"context"
)

// Announcement is one stored announcement.
type Announcement struct {
	Epoch   uint64
	Round   uint32
	Payload []byte
}

// PutAnnouncement stores an announcement for good. Doing it again with the same payload is fine.
//
// Errors: ErrExists (an ExistsError with what is stored) where the round has another one, which stays; ErrForbidden, ErrTooLarge, ErrFull:
// not stored; ErrUnknown: maybe stored, repeat with the same payload.
func (c *Conn) PutAnnouncement(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	return c.create(ctx, streamAnnouncements, subjectRound(subjectAnnouncements, epoch, round), payload)
}

// Announcements reads all announcements in the order in which they were stored.
//
// Errors: ErrForbidden; ErrUnknown where the context ended first. Reading changes nothing.
func (c *Conn) Announcements(ctx context.Context) ([]Announcement, error) {
	var all []Announcement
	_, err := c.scan(ctx, streamAnnouncements, subjectAnnouncements+".*.*", 1, func(r record) error {
		return c.announcement(r, func(a Announcement) error { all = append(all, a); return nil })
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// WatchAnnouncements hands every announcement to the handler in the order in which they were stored, the existing ones first, each once,
// then new ones as they come, across reconnects, until the context ends or the handler returns an error. It always returns an error: the
// handler's own, the context's cause, ErrForbidden or ErrClosed. The handler runs on the caller's goroutine and may take its time.
func (c *Conn) WatchAnnouncements(ctx context.Context, handler func(Announcement) error) error {
	return c.watch(ctx, streamAnnouncements, subjectAnnouncements+".*.*", SubjectAnnounced+".>", func(r record) error {
		return c.announcement(r, handler)
	})
}

// announcement skips what has no proper name: only a broker's operator can have put it there.
func (c *Conn) announcement(r record, fn func(Announcement) error) error {
	epoch, round, _, err := parseRound(r.Subject, subjectAnnouncements, false)
	if err != nil {
		c.log.Warn().Str("subject", r.Subject).Msg("announcement under a malformed name skipped")
		return nil
	}
	return fn(Announcement{Epoch: epoch, Round: round, Payload: r.Data})
}

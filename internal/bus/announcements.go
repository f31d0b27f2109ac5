package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Announcement is one stored announcement. The reader must check that it is one, and who signed it.
type Announcement struct {
	Epoch   uint64
	Round   uint32
	Payload []byte
}

// PutAnnouncement stores an announcement for good. Repeating the call with the same payload is safe. The payload's
// digest is part of its name: if a round had a single place, a thief of the analyzer's credential could fill it with
// junk that no one can remove. The readers decide which announcement of a round counts, and all decide alike, because
// the broker shows them all in the same order.
//
// Errors: ErrForbidden, ErrTooLarge, ErrFull, ErrRefused: not stored; ErrExists (an ExistsError with what is stored)
// where something else has this digest's name; ErrUnknown: maybe stored, repeat with the same payload.
func (c *Conn) PutAnnouncement(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	return c.create(ctx, StreamAnnouncements, subjectAnnouncement(epoch, round, payload), payload)
}

// Announcements reads all announcements in the order in which they were stored.
//
// Errors: ErrForbidden; ErrUnknown where the context ended first. Reading changes nothing.
func (c *Conn) Announcements(ctx context.Context) ([]Announcement, error) {
	return c.announcements(ctx, SubjectAnnouncements+".*.*.*")
}

// AnnouncementsAt reads what is stored under one round, in that order. Nothing that was stored before the call is
// missed.
//
// Errors: those of Announcements.
func (c *Conn) AnnouncementsAt(ctx context.Context, epoch uint64, round uint32) ([]Announcement, error) {
	return c.announcements(ctx, subjectRound(SubjectAnnouncements, epoch, round)+".*")
}

func (c *Conn) announcements(ctx context.Context, filter string) ([]Announcement, error) {
	var all []Announcement
	_, err := c.scan(ctx, StreamAnnouncements, filter, 1, func(r record) error {
		return c.announcement(r, func(a Announcement) error { all = append(all, a); return nil })
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// WatchAnnouncements hands every announcement to the handler in the order in which they were stored, the existing
// ones first, each once, then new ones as they come, across reconnects, until the context ends or the handler returns
// an error. It always returns an error: the handler's own, the context's cause, ErrForbidden, ErrRefused or
// ErrClosed. The handler runs on the caller's goroutine and may be slow.
func (c *Conn) WatchAnnouncements(ctx context.Context, handler func(Announcement) error) error {
	return c.watch(ctx, StreamAnnouncements, SubjectAnnouncements+".*.*.*", SubjectAnnounced+".>",
		func(r record) error {
			return c.announcement(r, handler)
		})
}

// announcement skips an entry whose name does not fit its content: this package did not store it.
func (c *Conn) announcement(r record, fn func(Announcement) error) error {
	var epoch uint64
	var round uint32
	var err error
	if cut := strings.LastIndexByte(r.Subject, '.'); cut > 0 {
		epoch, round, _, err = parseRound(r.Subject[:cut], SubjectAnnouncements, false)
	}
	if err != nil || r.Subject != subjectAnnouncement(epoch, round, r.Data) {
		c.log.Warn().Str("subject", r.Subject).
			Msg("announcement under a false name skipped: another writes with the analyzer's credential; rotate it")
		return nil
	}
	return fn(Announcement{Epoch: epoch, Round: round, Payload: r.Data})
}

func subjectAnnouncement(epoch uint64, round uint32, payload []byte) string {
	digest := sha256.Sum256(payload)
	return fmt.Sprintf("%s.%s", subjectRound(SubjectAnnouncements, epoch, round), hex.EncodeToString(digest[:16]))
}

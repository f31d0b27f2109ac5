package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// AnnouncementStream is the handle of the announcements. The analyzer writes them; every role reads them. They are kept
// for good: no role can change or remove one.
type AnnouncementStream struct{ stream }

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
func (s *AnnouncementStream) PutAnnouncement(ctx context.Context, epoch uint64, round uint32, payload []byte) error {
	return s.create(ctx, subjectAnnouncement(epoch, round, payload), payload)
}

// ReadAnnouncements reads all announcements in the order in which they were stored.
//
// Errors: ErrForbidden; ErrUnknown where the context ended first. Reading changes nothing.
func (s *AnnouncementStream) ReadAnnouncements(ctx context.Context) ([]Announcement, error) {
	return s.announcements(ctx, SubjectAnnouncements+".*.*.*")
}

// ReadAnnouncementsAt reads what is stored under one round, in that order. Nothing that was stored before the call is
// missed.
//
// Errors: those of ReadAnnouncements.
func (s *AnnouncementStream) ReadAnnouncementsAt(ctx context.Context, epoch uint64, round uint32) ([]Announcement,
	error) {
	return s.announcements(ctx, subjectRound(SubjectAnnouncements, epoch, round)+".*")
}

func (s *AnnouncementStream) announcements(ctx context.Context, filter string) ([]Announcement, error) {
	var all []Announcement
	_, err := s.scan(ctx, filter, 1, func(r Record) error {
		return s.announcement(r, func(a Announcement) error { all = append(all, a); return nil })
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
func (s *AnnouncementStream) WatchAnnouncements(ctx context.Context, handler func(Announcement) error) error {
	return s.watch(ctx, SubjectAnnouncements+".*.*.*", SubjectAnnounced+".>",
		func(r Record) error { return s.announcement(r, handler) })
}

// announcement skips an entry whose name does not fit its content: this package did not store it.
func (s *AnnouncementStream) announcement(r Record, fn func(Announcement) error) error {
	var epoch uint64
	var round uint32
	var err error
	if cut := strings.LastIndexByte(r.Subject, '.'); cut > 0 {
		epoch, round, _, err = parseRound(r.Subject[:cut], SubjectAnnouncements, false)
	}
	if err != nil || r.Subject != subjectAnnouncement(epoch, round, r.Data) {
		s.t.Log().Warn().Str("subject", r.Subject).
			Msg("announcement under a false name skipped: another writes with the analyzer's credential; rotate it")
		return nil
	}
	return fn(Announcement{Epoch: epoch, Round: round, Payload: r.Data})
}

func subjectAnnouncement(epoch uint64, round uint32, payload []byte) string {
	digest := sha256.Sum256(payload)
	return fmt.Sprintf("%s.%s", subjectRound(SubjectAnnouncements, epoch, round), hex.EncodeToString(digest[:16]))
}

package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Streams are the handles of a connection, one for each of the broker's streams, and for what is asked without being
// stored. Whether the connection's role may call a method, the broker decides; a role is given the handles that it
// needs.
type Streams struct {
	Announcements *AnnouncementStream
	Keys          *KeyStream
	Enrolment     *Enrolment
	Reports       *ReportStream
	Mixed         *MixedStream
	Prepared      *PreparedStream
	Retained      *RetainedStream
	Segments      *SegmentStream
	Tasks         *TaskStream
	Lead          *Lead
	Audit         *AuditStream

	t Transport
}

// Over are the handles over a transport.
func Over(t Transport) Streams {
	of := func(name string) stream { return stream{t, name} }
	return Streams{
		Announcements: &AnnouncementStream{of(StreamAnnouncements)},
		Keys:          &KeyStream{of(StreamKeys)},
		Enrolment:     &Enrolment{t},
		Reports:       &ReportStream{of(StreamReports)},
		Mixed:         &MixedStream{of(StreamMixed)},
		Prepared:      &PreparedStream{of(StreamPrepared)},
		Retained:      &RetainedStream{of(StreamRetained)},
		Segments:      &SegmentStream{of(StreamMixing)},
		Tasks:         &TaskStream{of(tasksOf(t.Role()))},
		Lead:          &Lead{t},
		Audit:         &AuditStream{of(StreamAudit)},
		t:             t,
	}
}

// Role is whose connection this is.
func (s Streams) Role() Role { return s.t.Role() }

// Traffic reports the connection's counters. It waits while the connection is being made again, for seconds.
func (s Streams) Traffic() Traffic { return s.t.Traffic() }

// stream is what the handles have in common.
type stream struct {
	t    Transport
	name string
}

// create stores a message under a subject that may hold only one. If the same message is already stored, the call
// succeeds.
func (s stream) create(ctx context.Context, subject string, payload []byte) error {
	first := nats.Header{headerExpectLast: {strconv.Itoa(0)}}
	for {
		_, err := s.t.Publish(ctx, subject, first, payload)
		if !errors.Is(err, ErrTaken) {
			return err
		}
		stored, err := s.last(ctx, subject)
		switch {
		case errors.Is(err, ErrGone):
			continue // purged in between
		case err != nil:
			return err
		case bytes.Equal(stored.Data, payload):
			return nil
		}
		return &ExistsError{Name: subject, Stored: stored.Data}
	}
}

// last reads the newest message of a subject.
func (s stream) last(ctx context.Context, subject string) (Record, error) {
	return s.t.Leader(ctx, s.name, Query{Last: subject})
}

// anywhere reads one message from any replica, and from the leader where that one does not have it.
func (s stream) anywhere(ctx context.Context, q Query) (Record, error) {
	got, err := s.t.Replica(ctx, s.name, q)
	if errors.Is(err, ErrGone) || errors.Is(err, errNoReplica) {
		return s.t.Leader(ctx, s.name, q)
	}
	return got, err
}

// scan hands every message that matches the filter, from a sequence on and in order, to fn, and returns the sequence
// to go on from. Batches come from any replica; whether they were all the leader decides, so nothing
// acknowledged before the call is missed. An error of fn ends it and is returned as it is, with the sequence of the
// message that fn did not take.
func (s stream) scan(ctx context.Context, filter string, from uint64, fn func(Record) error) (uint64, error) {
	from = max(from, 1)
	for {
		records, err := s.t.Batch(ctx, s.name, filter, from)
		if err != nil {
			return from, err
		}
		if len(records) == 0 {
			r, err := s.t.Leader(ctx, s.name, Query{Next: filter, Sequence: from})
			if errors.Is(err, ErrGone) {
				return from, nil
			}
			if err != nil {
				return from, err
			}
			records = []Record{r}
		}
		for _, r := range records {
			if err := fn(r); err != nil {
				return from, err
			}
			from = r.Sequence + 1
		}
	}
}

// pollPause is the least time between two looks, however many notices come.
const pollPause = 20 * time.Millisecond

// watch hands every message that matches the filter to fn, in order and once each, first those that are there, then new
// ones as they come, until the context ends or fn returns an error. Notices, reconnects and a slow clock only say when
// to look; what is handed on is always read from the stream, so a forged or lost notice changes nothing.
func (s stream) watch(ctx context.Context, filter, notice string, fn func(Record) error) error {
	heard, news, stop, err := s.t.Listen(ctx, notice)
	if err != nil {
		return fmt.Errorf("bus: watch %s: %w", s.name, err)
	}
	defer stop()
	var from uint64
	for {
		if from, err = s.scan(heard, filter, from, fn); err != nil {
			return err
		}
		wait := time.NewTimer(s.t.PollAfter())
		select {
		case <-heard.Done():
		case <-news:
		case <-wait.C:
		}
		wait.Stop()
		if pause := pollPause; !sleep(heard, &pause) {
			return context.Cause(heard)
		}
	}
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// How long a chunk may be retained.
const (
	MinRetain = time.Second // the broker's shortest time to live
	// MaxRetain is for an audit once a year. The stream drops what is older, whatever it says itself.
	MaxRetain = 366 * 24 * time.Hour
)

// RetainedStream is the handle of forwarded chunks that are kept for an audit, sealed to the auditor. The shuffler
// writes them; the auditor reads them. The broker drops each when its window is over; no role removes one before.
type RetainedStream struct{ stream }

// Retained is one chunk that the shuffler forwarded and retained, sealed to the auditor.
type Retained struct {
	Index  uint32        // of the chunk, from 0
	Sealed []byte        // as seal.SealRetained made it
	Stored time.Time     // when the broker stored it
	Window time.Duration // time from Stored after which the broker drops it; 0: none was given, so MaxRetain
}

// PublishRetained stores a forwarded chunk that is sealed to the auditor and returns once the broker has it. The broker
// drops it when the window, in whole seconds, is over. A round's chunk is stored once within its window: where one is
// stored already, that one stays with its own window and the call succeeds, for sealing is randomized and the same
// chunk looks different each time.
//
// Errors: a window that is not MinRetain to MaxRetain; ErrForbidden, ErrTooLarge, ErrFull: not stored; ErrRefused where
// the stream takes no time to live (see CanRetain); ErrUnknown: maybe stored, repeat.
func (s *RetainedStream) PublishRetained(ctx context.Context, epoch uint64, round, index uint32, sealed []byte,
	window time.Duration) error {
	if window < MinRetain || window > MaxRetain {
		return fmt.Errorf("bus: retained for %s: must be %s to %s", window, MinRetain, MaxRetain)
	}
	subject := fmt.Sprintf("%s.%d", subjectRound(SubjectRetained, epoch, round), index)
	_, err := s.t.Publish(ctx, subject, nats.Header{
		headerExpectLast:       {strconv.Itoa(0)},
		jetstream.MsgTTLHeader: {window.Truncate(time.Second).String()},
	}, sealed)
	if errors.Is(err, ErrTaken) {
		return nil
	}
	return err
}

// ReadRetained reads what is retained of a round, in the order in which it was stored: usually that of the index.
// Chunks whose window is over are missing. Nothing that was stored before the call is missed otherwise.
//
// Errors: the handler's own; ErrForbidden; ErrUnknown where the context ended first, with ErrUnprovisioned where the
// broker has no such stream. Reading changes nothing.
func (s *RetainedStream) ReadRetained(ctx context.Context, epoch uint64, round uint32,
	handler func(Retained) error) error {
	_, err := s.scan(ctx, subjectRound(SubjectRetained, epoch, round)+".*", 1, func(r Record) error {
		_, _, index, err := parseRound(r.Subject, SubjectRetained, true)
		if err != nil {
			s.t.Log().Warn().Str("subject", r.Subject).Msg("retained chunk under a malformed name skipped")
			return nil
		}
		window, err := time.ParseDuration(r.Header.Get(jetstream.MsgTTLHeader))
		if err != nil {
			window = 0
		}
		return handler(Retained{Index: index, Sealed: r.Data, Stored: r.Time, Window: window})
	})
	return err
}

// CanRetain reports whether the broker keeps retained chunks and drops them when their window is over. It answers for
// the shuffler, and before the shuffler retains anything.
//
// Errors: ErrUnprovisioned where there is no stream for them, or one that drops nothing; ErrForbidden for another
// role; ErrUnknown where the context ended first.
func (s *RetainedStream) CanRetain(ctx context.Context) error {
	const again = "run riffle broker provision again"
	// Elsewhere a missing stream is waited for. Here a role is starting that was told to use it.
	is, err := s.t.Stream(ctx, s.name, false)
	switch {
	case err != nil:
		return fmt.Errorf("bus: look into %s: %w", StreamRetained, err)
	case is == nil:
		return fmt.Errorf("%w: no stream %s: %s", ErrUnprovisioned, StreamRetained, again)
	case !is.AllowMsgTTL || is.MaxAge <= 0:
		return fmt.Errorf("%w: the stream %s would not drop what is too old: %s, at a NATS server of version 2.11 or "+
			"later", ErrUnprovisioned, StreamRetained, again)
	}
	return nil
}

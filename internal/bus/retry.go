package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// oddTries is how often an answer that is not known here is asked for again: with the pauses between tries about five
// seconds, which covers what a server says while it starts, moves a leader or stops.
const oddTries = 8

// do tries fn until it succeeds, fails for good, or the context ends. Subject is where fn sends to: the broker's
// refusal of it ends the try at once. Each try gets a context of its own, and more time than one that was too short.
//
// A call is repeated for as long as its context lives while there is no answer, or one that is known to pass. An
// answer that is not known here ends the call as ErrRefused after oddTries tries: it may never change.
func (c *link) do(ctx context.Context, subject string, fn func(context.Context) error) error {
	pause, odd, limit := c.pause, 0, c.attempt
	waiting := c.await(subject)
	defer waiting.done()
	for {
		connected := c.connectionNow()
		err := c.try(ctx, subject, limit, fn)
		if err == nil {
			return nil
		}
		means, err := interpret(err)
		if means == unknown && connected.Err() == nil { // what a dying connection says is no answer
			if odd++; odd >= oddTries {
				return refusal(err)
			}
		}
		if means == final {
			return err
		}
		if c.closed.Load() {
			return fmt.Errorf("%w (%w)", ErrClosed, err)
		}
		if errors.Is(err, context.DeadlineExceeded) && connected.Err() == nil {
			limit = min(2*limit, longestTry)
		}
		waiting.noteFailure(err)
		if ctx.Err() != nil || !sleep(ctx, &pause) {
			return fmt.Errorf("%w: %w (%w)", ErrUnknown, context.Cause(ctx), err)
		}
		c.repeats.Add(1)
		c.log.Debug().Err(err).Str("subject", subject).Msg("broker request repeated")
	}
}

// connectionNow ends when the connection that there is now is lost.
func (c *link) connectionNow() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connection
}

func (c *link) try(ctx context.Context, subject string, limit time.Duration, fn func(context.Context) error) error {
	if !c.connected.Load() && !c.closed.Load() {
		// at once: nats.go would have the call wait while it dials, whatever its context says
		return nats.ErrDisconnected
	}
	guarded, release := c.guard(ctx, subject)
	defer release()
	connection := c.connectionNow()
	asked, lose := context.WithCancelCause(guarded)
	defer lose(nil)
	defer context.AfterFunc(connection, func() { lose(context.Cause(connection)) })()
	limited, cancel := context.WithTimeout(asked, limit)
	defer cancel()
	err := fn(limited)
	if cause := context.Cause(asked); err != nil && (errors.Is(cause, ErrForbidden) || errors.Is(cause, errLost)) {
		return cause
	}
	return err
}

// waitingCalls are the calls whose first try failed and that are being repeated, and the writes that were refused for
// want of room.
type waitingCalls struct {
	mu    sync.Mutex
	calls map[*waitingCall]struct{}
	full  map[string]Refusal // by subject's kind
}

// waitingCall is one call until it ends.
type waitingCall struct {
	all     *waitingCalls
	subject string
	write   bool
	began   time.Time
	since   time.Time // zero while no try failed
	last    error
}

// await begins a call.
func (c *link) await(subject string) *waitingCall {
	write := !strings.HasPrefix(subject, APILocal+".") && !strings.HasPrefix(subject, APIStreams+".") &&
		subject != SubjectEnrol
	return &waitingCall{all: &c.waiting, subject: subject, write: write, began: time.Now()}
}

// noteFailure notes that a try brought nothing.
func (w *waitingCall) noteFailure(err error) {
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.last = err
	if !w.since.IsZero() {
		return
	}
	w.since = w.began
	if earliest := time.Now().Add(-attemptTime); w.since.Before(earliest) {
		w.since = earliest // a long batch had answers before
	}
	if w.all.calls == nil {
		w.all.calls = map[*waitingCall]struct{}{}
	}
	w.all.calls[w] = struct{}{}
}

// done ends the call.
func (w *waitingCall) done() {
	if w.since.IsZero() { // written by this goroutine alone
		return
	}
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	delete(w.all.calls, w)
}

// Stuck is what is asked of the broker again and again without a final answer.
type Stuck struct {
	What  string // the call, or the subject of what is published
	Write bool   // it is published, to be stored
	Calls int
	Since time.Time // since when the oldest of them waits
	Last  error     // what the last try of the oldest brought
}

// stuckCalls lists, the oldest first, what has been asked for longer than a time.
func (c *link) stuckCalls(longer time.Duration) []Stuck {
	limit := time.Now().Add(-longer)
	c.waiting.mu.Lock()
	defer c.waiting.mu.Unlock()
	by := map[string]Stuck{}
	for w := range c.waiting.calls {
		if w.since.After(limit) {
			continue
		}
		s, ok := by[w.subject]
		if !ok || w.since.Before(s.Since) {
			s.What, s.Write, s.Since, s.Last = strings.TrimPrefix(w.subject, APILocal+"."), w.write, w.since, w.last
		}
		s.Calls++
		by[w.subject] = s
	}
	all := make([]Stuck, 0, len(by))
	for _, s := range by {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Stuck) int { return a.Since.Compare(b.Since) })
	return all
}

// Refusal is a write that the broker had no room for.
type Refusal struct {
	What string // subject
	At   time.Time
	Err  error
}

// noteWrite notes how a write ended: a refusal for want of room counts until a write of its kind succeeds.
func (c *link) noteWrite(subject string, err error) {
	kind := subject
	// riffle.v1.report.<...>; $KV.announcements.<...> counts by epoch, which does no harm
	if parts := strings.SplitN(subject, ".", 4); len(parts) == 4 {
		kind = strings.Join(parts[:3], ".")
	}
	c.waiting.mu.Lock()
	defer c.waiting.mu.Unlock()
	switch {
	case err == nil:
		delete(c.waiting.full, kind)
	case errors.Is(err, ErrFull):
		if c.waiting.full == nil {
			c.waiting.full = map[string]Refusal{}
		}
		c.waiting.full[kind] = Refusal{What: subject, At: time.Now(), Err: err}
	}
}

// noRoom tells the newest write that the broker refused for want of room no longer ago than that, with none of its
// kind succeeding since.
func (c *link) noRoom(within time.Duration) (Refusal, bool) {
	limit := time.Now().Add(-within)
	c.waiting.mu.Lock()
	defer c.waiting.mu.Unlock()
	var newest Refusal
	for kind, r := range c.waiting.full {
		if r.At.Before(limit) {
			delete(c.waiting.full, kind)
		} else if r.At.After(newest.At) {
			newest = r
		}
	}
	return newest, newest.Err != nil
}

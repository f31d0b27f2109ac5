package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
)

const (
	askPause    = 100 * time.Millisecond // before a question is repeated, doubling
	askLongest  = 2 * time.Second
	returnPause = 2 * time.Second // before a task comes again that this process cannot do
)

// Worker is a process that does tasks and asks the lead. It keeps nothing.
type Worker struct {
	c      Config
	id     id
	counts *counters

	mu          sync.Mutex
	incarnation id // of the lead that answered last
	heard       time.Time
	doing       map[id]struct{}
}

// NewWorker returns a worker that does nothing yet.
func NewWorker(c Config) *Worker {
	c.Parallel = max(c.Parallel, 1)
	w := &Worker{c: c, id: c.Sealer.newID(), doing: map[id]struct{}{}}
	w.counts = newCounters(c.Sealer.role, func() float64 {
		if w.Ready() == nil {
			return 1
		}
		return 0
	})
	return w
}

// Serve does tasks until the context ends, with its cause. A task that has begun then is given back.
//
// Errors: bus.ErrForbidden; bus.ErrClosed.
func (w *Worker) Serve(ctx context.Context, h Handlers) error {
	if err := w.counts.register(w.c.Metrics); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := w.c.Tasks.ReceiveTasks(ctx, w.c.Parallel, func(t *bus.Task) { w.handle(ctx, h, t) })
		if errors.Is(err, bus.ErrForbidden) {
			return fmt.Errorf("%w: the broker's configuration does not let this role have workers: write it again "+
				"with riffle broker config, have the broker read it, and run riffle broker provision --workers", err)
		}
		return err
	})
	g.Go(func() error {
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			say, cancel := context.WithTimeout(ctx, beat)
			_, _, err := w.call(say, head{kind: callHello}, w.greeting())
			cancel()
			if errors.Is(err, bus.ErrForbidden) {
				return err
			}
			w.c.notice(w.Ready())
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-tick.C:
			}
		}
	})
	return g.Wait()
}

// Serve does tasks in a worker of its own, see Worker.Serve.
func Serve(ctx context.Context, c Config, h Handlers) error { return NewWorker(c).Serve(ctx, h) }

// Ready is nil if the lead answered lately.
func (w *Worker) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.heard) > silence {
		return fmt.Errorf("the lead has not answered for %v: it is not running, has no workers in its settings, or "+
			"has other keys", silence)
	}
	return nil
}

// Ask implements Asker.
func (w *Worker) Ask(ctx context.Context, kind string, body []byte) ([]byte, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("%w: a question %s of %d bytes, at most %d", ErrTooLarge, kind, len(body), MaxBody)
	}
	for {
		w.mu.Lock()
		h := head{incarnation: w.incarnation, kind: kind}
		w.mu.Unlock()
		s, answer, err := w.call(ctx, h, body)
		switch {
		case err != nil:
			return nil, err
		case s == statusOK:
			return answer, nil
		case s == statusFailed:
			return nil, fmt.Errorf("%w: %s: %s", ErrFailed, kind, answer)
		case s == statusKind:
			return nil, fmt.Errorf("%w %q", ErrKind, kind)
		case s != statusMoved:
			return nil, fmt.Errorf("%w: status %d of an answer", errLetter, s)
		}
		if h.incarnation == id(answer) {
			return nil, fmt.Errorf("%w: the lead does not know its own incarnation", errLetter)
		}
	}
}

// call says something to the lead until it replies or the context ends. The reply belongs to this very call: it is
// sealed under an id that was drawn for it.
func (w *Worker) call(ctx context.Context, h head, parts ...[]byte) (status, []byte, error) {
	h.id = w.c.Sealer.newID()
	letter := w.c.Sealer.seal(h, toLead, parts...)
	pause, told := askPause, false
	for {
		reply, err := w.c.Lead.AskLead(ctx, letter)
		if err == nil {
			var body []byte
			if body, err = w.c.Sealer.open(h, back, reply); err == nil {
				return w.noteReply(h, body)
			}
			if !told {
				told = true
				w.counts.add(outcomeRefused)
				w.c.Log.Warn().Err(err).Msg("a reply of the lead cannot be opened")
			}
		}
		if errors.Is(err, bus.ErrForbidden) || errors.Is(err, bus.ErrTooLarge) {
			return 0, nil, err
		}
		select {
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		case <-time.After(pause):
			pause = min(2*pause, askLongest)
		}
	}
}

// noteReply notes what a reply says of the lead.
func (w *Worker) noteReply(h head, body []byte) (status, []byte, error) {
	if len(body) < 1 {
		return 0, nil, errLetter
	}
	s, text := status(body[0]), body[1:]
	names := s == statusMoved || s == statusOK && h.kind == callHello
	if names && len(text) != len(id{}) {
		return 0, nil, errLetter
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = time.Now()
	if names {
		w.incarnation = id(text)
	}
	return s, text, nil
}

// greeting is the body of a hello: who this is, how many places it has, and what it does.
func (w *Worker) greeting() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := binary.LittleEndian.AppendUint32(append([]byte(nil), w.id[:]...), uint32(w.c.Parallel))
	for task := range maps.Keys(w.doing) {
		b = append(b, task[:]...)
	}
	return b
}

// handle does one task, if the lead still wants it, and acknowledges it or gives it back.
func (w *Worker) handle(ctx context.Context, handlers Handlers, t *bus.Task) {
	h, body, err := w.open(t.Payload)
	switch {
	case errors.Is(err, ErrKey): // another process may have it
		w.countEnd(outcomeReturned, err, t.Return(returnPause))
		return
	case err != nil: // nobody can do this; the lead will store its task again
		w.countEnd(outcomeRefused, err, t.Done())
		return
	case handlers[h.kind] == nil: // one of another version may
		w.countEnd(outcomeReturned, fmt.Errorf("%w %q", ErrKind, h.kind), t.Return(returnPause))
		return
	}
	hand, stop := context.WithCancel(ctx)
	var holding sync.WaitGroup
	holding.Go(func() { w.hold(hand, t) })
	outcome := w.do(ctx, handlers[h.kind], h, body)
	stop()
	holding.Wait()
	if outcome == outcomeReturned {
		w.countEnd(outcome, nil, t.Return(0))
		return
	}
	w.countEnd(outcome, nil, t.Done())
}

func (w *Worker) open(payload []byte) (head, []byte, error) {
	h, sealed, err := parseHead(payload)
	if err != nil {
		return head{}, nil, err
	}
	body, err := w.c.Sealer.open(h, toWorker, sealed)
	return h, body, err
}

// countEnd counts how a delivery ended. An acknowledgement that is lost means another delivery, which nobody wants.
func (w *Worker) countEnd(outcome string, why, err error) {
	w.counts.add(outcome)
	if err := errors.Join(why, err); err != nil {
		w.c.Log.Warn().Err(err).Str("outcome", outcome).Msg("a task ended without a result of this worker")
	}
}

// hold keeps the broker from giving the task to somebody else.
func (w *Worker) hold(ctx context.Context, t *bus.Task) {
	tick := time.NewTicker(t.Wait / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = t.InHand() // best effort: if it is lost, another worker does the task too
		}
	}
}

// do asks whether a task is wanted, does it, and hands its result to the lead. Every call names the incarnation of the
// lead that stored the task: a later one wants nothing of it.
func (w *Worker) do(ctx context.Context, handler Handler, h head, body []byte) (outcome string) {
	s, _, err := w.call(ctx, head{incarnation: h.incarnation, kind: callBegin}, h.id[:])
	switch {
	case err != nil:
		return outcomeReturned
	case s != statusOK:
		return outcomeUnwanted
	}
	w.mu.Lock()
	w.doing[h.id] = struct{}{}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.doing, h.id)
	}()
	r, err := do(ctx, handler, body)
	if err != nil {
		return outcomeReturned
	}
	s, _, err = w.call(ctx, head{incarnation: h.incarnation, kind: callDone}, h.id[:], []byte{byte(r.status)}, r.body)
	switch {
	case err != nil:
		return outcomeReturned
	case s != statusOK:
		return outcomeUnwanted
	case r.status != statusOK:
		return outcomeFailed
	}
	return outcomeDone
}

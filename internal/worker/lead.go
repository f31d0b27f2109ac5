package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
)

// DefaultReissue is after how long a lead stores a task anew of which nobody was heard, twice that the next time, and
// so on. Workers that die are noticed by the broker, much sooner: this is for a broker that has lost the task.
const DefaultReissue = time.Minute

const (
	beat      = 2 * time.Second        // how often a worker says that it lives
	silence   = 5 * beat               // after how long it counts as gone
	fullPause = 200 * time.Millisecond // before a task is stored again that the broker had no room for
	patience  = 10 * time.Second       // for the broker, before what is missing there is logged
	callers   = 128                    // questions of workers that are answered at a time
)

// Config says how a process takes part in its role's work. Lead and workers have the same keys and the same credential
// for the broker.
type Config struct {
	Tasks  *bus.TaskStream // of the role
	Lead   *bus.Lead       // the line to its lead
	Sealer *Sealer         // of the role

	// Of a lead: what it does in its own process, and how many tasks at a time. With Inside 0 nothing is done while
	// there are no workers.
	Handlers Handlers
	Inside   int
	Reissue  time.Duration // of a lead; 0: DefaultReissue

	Parallel int // of a worker: how many tasks it does at a time; 0: one

	Notice  func(error) // hears of Ready, again and again; may be nil
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none
}

func (c *Config) notice(err error) {
	if c.Notice != nil {
		c.Notice(err)
	}
}

// Asker asks the lead, from wherever a handler runs.
type Asker interface {
	// Ask returns the lead's answer. It is repeated until there is one, so the lead may be asked more than once, and a
	// broker can have an earlier question of the same lead answered again: what a question does must be harmless if it
	// is done twice. A lead that was started anew is asked too.
	//
	// Errors: ErrFailed with the words of whoever answers; ErrKind where the lead answers no such questions;
	// ErrTooLarge; the context's cause; bus.ErrForbidden.
	Ask(ctx context.Context, kind string, body []byte) ([]byte, error)
}

// Lead hands tasks out over the broker, in a stream of tasks that each worker takes from when it has a place. It does
// tasks itself as well where it has a free place and no worker has begun them. It is a Pool and an Asker.
type Lead struct {
	c           Config
	incarnation id
	answers     Handlers
	counts      *counters
	ready       chan struct{} // closed when tasks can be stored

	mu      sync.Mutex
	free    int // places of this process
	waiting []*pending
	tasks   map[id]*pending
	workers map[id]heard
	calls   map[id]*call
}

// pending is a task without a result.
type pending struct {
	id     id
	turn   context.Context // ends when this process is to do the task
	grant  context.CancelFunc
	result chan result
	here   bool      // this process does it
	begun  int       // how often a worker began it
	seen   time.Time // when a worker last said that it does it
}

type result struct {
	status status
	body   []byte
}

// heard is what is known of a worker.
type heard struct {
	at     time.Time
	places int
}

// call is a question that is being answered.
type call struct {
	done  chan struct{}
	reply []byte
}

// NewLead returns a lead with a incarnation of its own: it answers no worker about what an earlier lead handed out. One
// lead of a role may run at a time.
func NewLead(c Config) *Lead {
	if c.Reissue == 0 {
		c.Reissue = DefaultReissue
	}
	l := &Lead{
		c: c, incarnation: c.Sealer.newID(), answers: Handlers{}, free: c.Inside, ready: make(chan struct{}),
		tasks: map[id]*pending{}, workers: map[id]heard{}, calls: map[id]*call{},
	}
	l.counts = newCounters(c.Sealer.role, func() float64 { return float64(l.heardOf()) })
	return l
}

// Answer says how questions of one kind are answered. It must be called before Run.
func (l *Lead) Answer(kind string, h Handler) { l.answers[kind] = h }

// Ask answers a question of a handler in this process.
func (l *Lead) Ask(ctx context.Context, kind string, body []byte) ([]byte, error) {
	h := l.answers[kind]
	if h == nil {
		return nil, fmt.Errorf("%w %q", ErrKind, kind)
	}
	answer, err := h(ctx, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFailed, kind, err)
	}
	return answer, nil
}

// Run takes results and answers workers until the context ends, with its cause. Tasks that an earlier lead left at the
// broker are dropped first.
//
// Errors: bus.ErrForbidden; bus.ErrClosed.
func (l *Lead) Run(ctx context.Context) error {
	if err := l.counts.register(l.c.Metrics); err != nil {
		return err
	}
	for {
		purge, cancel := context.WithTimeout(ctx, patience)
		err := l.c.Tasks.PurgeTasks(purge)
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, bus.ErrForbidden):
			return fmt.Errorf("%w: the broker's configuration does not let this role have workers: write it again "+
				"with riffle broker config, have the broker read it, and run riffle broker provision --workers", err)
		case errors.Is(err, bus.ErrUnknown):
			l.c.Log.Warn().Err(err).Msg("no stream of tasks at the broker: run riffle broker provision --workers")
			continue
		default:
			return err
		}
		break
	}
	close(l.ready)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.c.Lead.ServeLead(ctx, callers, l.handle) })
	g.Go(func() error {
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-tick.C:
				l.c.notice(l.Ready())
				l.mu.Lock()
				l.give() // what a worker has begun may be without one now
				l.mu.Unlock()
			}
		}
	})
	return g.Wait()
}

// Beside runs a role's work with its lead beside it, who gives these answers, until one of them ends. A nil lead is a
// role without workers.
func (l *Lead) Beside(ctx context.Context, answers Handlers, work func(context.Context) error) error {
	if l == nil {
		return work(ctx)
	}
	for kind, h := range answers {
		l.Answer(kind, h)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return l.Run(ctx) })
	g.Go(func() error { return work(ctx) })
	return g.Wait()
}

// Workers is how many processes do tasks: those heard of lately, and this one.
func (l *Lead) Workers() int {
	n := l.heardOf()
	if l.c.Inside > 0 || n == 0 {
		n++
	}
	return n
}

// Places is how many tasks are done at a time, in all processes together; at least 1.
func (l *Lead) Places() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.c.Inside
	for _, w := range l.workers {
		if time.Since(w.at) < silence {
			n += w.places
		}
	}
	return max(n, 1)
}

// Ready is nil if a worker was heard of lately.
func (l *Lead) Ready() error {
	if l.heardOf() == 0 {
		return fmt.Errorf("no worker was heard of for %v: start some, with the same keys, or turn workers off", silence)
	}
	return nil
}

func (l *Lead) heardOf() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, w := range l.workers {
		if time.Since(w.at) < silence {
			n++
		} else {
			delete(l.workers, name)
		}
	}
	return n
}

// Do implements Pool.
func (l *Lead) Do(ctx context.Context, t Task) ([]byte, error) {
	switch {
	case l.c.Handlers != nil && l.c.Handlers[t.Kind] == nil || len(t.Kind) > maxKind:
		return nil, fmt.Errorf("%w %q", ErrKind, t.Kind)
	case len(t.Body) > MaxBody:
		return nil, fmt.Errorf("%w: a task %s of %d bytes, at most %d", ErrTooLarge, t.Kind, len(t.Body), MaxBody)
	}
	p := &pending{id: l.c.Sealer.newID(), result: make(chan result, 1)}
	p.turn, p.grant = context.WithCancel(ctx)
	l.enter(p)
	defer l.leave(p)
	next, wait := time.Time{}, l.c.Reissue
	for {
		pause := l.c.Reissue
		switch now := time.Now(); {
		case l.c.Inside > 0 && l.heardOf() == 0: // nobody would take it from the broker
			pause = beat
		case now.After(next) && l.open(p.turn):
			switch err := l.issue(p, t); {
			case err == nil:
				if !next.IsZero() {
					l.counts.add(outcomeReissued)
				}
				next, wait = now.Add(wait), 2*wait
			case p.turn.Err() != nil:
			case errors.Is(err, bus.ErrFull):
				pause = fullPause
			case l.c.Inside == 0:
				return nil, err
			default:
				l.c.Log.Warn().Err(err).Msg("a task cannot be stored; it waits for a place in this process")
				next = now.Add(wait)
			}
		}
		timer := time.NewTimer(pause)
		select {
		case r := <-p.result:
			timer.Stop()
			return r.of(t.Kind)
		case <-p.turn.Done():
			timer.Stop()
			return l.inside(ctx, p, t)
		case <-timer.C:
			l.mu.Lock()
			if later := p.seen.Add(l.c.Reissue); later.After(next) {
				next = later // somebody does it
			}
			l.mu.Unlock()
		}
	}
}

// open waits until tasks can be stored. It is false where this process is to do the task, or the context ended.
func (l *Lead) open(turn context.Context) bool {
	select {
	case <-turn.Done():
		return false
	case <-l.ready:
		return turn.Err() == nil
	}
}

func (l *Lead) issue(p *pending, t Task) error {
	h := head{incarnation: l.incarnation, id: p.id, kind: t.Kind}
	return l.c.Tasks.PublishTask(p.turn, l.c.Sealer.seal(h, toWorker, t.Body))
}

// inside does a task in this process, in the place that was given to it.
func (l *Lead) inside(ctx context.Context, p *pending, t Task) ([]byte, error) {
	l.mu.Lock()
	here := p.here
	l.mu.Unlock()
	if !here {
		return nil, context.Cause(ctx)
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.free++
		l.give()
	}()
	r, err := do(ctx, l.c.Handlers[t.Kind], t.Body)
	if err != nil {
		return nil, err
	}
	if r.status == statusOK {
		l.counts.add(outcomeHere)
	}
	return l.countResult(r).of(t.Kind)
}

// do runs a handler. Its error is the context's cause.
func do(ctx context.Context, h Handler, body []byte) (result, error) {
	out, err := h(ctx, body)
	switch {
	case ctx.Err() != nil:
		return result{}, context.Cause(ctx)
	case err != nil:
		return result{statusFailed, []byte(err.Error())}, nil
	case len(out) > MaxBody:
		return result{statusFailed, fmt.Appendf(nil, "%v: the result has %d bytes, at most %d", ErrTooLarge, len(out),
			MaxBody)}, nil
	}
	return result{statusOK, out}, nil
}

func (l *Lead) countResult(r result) result {
	if r.status != statusOK {
		l.counts.add(outcomeFailed)
	}
	return r
}

func (r result) of(kind string) ([]byte, error) {
	if r.status == statusOK {
		return r.body, nil
	}
	return nil, fmt.Errorf("%w: %s: %s", ErrFailed, kind, r.body)
}

// enter takes a task in, to wait for its turn.
func (l *Lead) enter(p *pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks[p.id] = p
	l.waiting = append(l.waiting, p)
	l.give()
}

func (l *Lead) leave(p *pending) {
	p.grant()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tasks, p.id)
	l.waiting = slices.DeleteFunc(l.waiting, func(o *pending) bool { return o == p })
}

// give gives this process's free places to the oldest tasks that nobody does. The caller holds the lock.
func (l *Lead) give() {
	for _, p := range l.waiting {
		if l.free == 0 {
			return
		}
		if p.here || p.begun > 0 && time.Since(p.seen) < silence || p.turn.Err() != nil || len(p.result) > 0 {
			continue
		}
		p.here = true
		l.free--
		p.grant()
	}
}

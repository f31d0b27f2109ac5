package bus

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// leading are the roles that can have workers.
func leading() []Role { return []Role{Shuffler, Analyzer} }

func tasksOf(r Role) string      { return StreamTasks + string(r) }
func subjectTasks(r Role) string { return SubjectTasks + "." + string(r) }
func subjectLead(r Role) string  { return SubjectLead + "." + string(r) }

// taskPull is how long one request for a task waits at the broker before it is made again. A request of a client that
// is gone is dropped with its connection.
const taskPull = 5 * time.Second

// askTime is how long a worker waits for the lead's reply before it asks again. The lead answers a question that is
// repeated meanwhile once.
const askTime = 2 * time.Second

// backlogBytes is how many bytes of requests wait at most, of whatever size: honest requests for enrolment have some kB,
// and a stranger's 8 MB would fill the memory long before they are as many as may wait.
const backlogBytes = 64 << 20

// leadBacklog is how many messages to the lead wait for it. Workers repeat those that are lost.
const leadBacklog = 1024

// ErrNoLead says that no lead of the role answers its workers now, or that the broker is away.
var ErrNoLead = errors.New("bus: no lead of this role answers its workers now")

// PublishTask stores a task for the role's workers and returns once the broker has it. It stays until a worker
// acknowledges it.
//
// Errors: ErrForbidden, ErrTooLarge: not stored; ErrFull: as many tasks wait as may, repeat when some are done;
// ErrUnknown: maybe stored, repeat with the same bytes.
func (c *Conn) PublishTask(ctx context.Context, payload []byte) error {
	digest := sha256.Sum256(payload)
	id := base64.RawURLEncoding.EncodeToString(digest[:18])
	_, err := c.publish(ctx, subjectTasks(c.role), nats.Header{headerMsgID: {id}}, payload)
	return err
}

// PurgeTasks drops every task that waits for workers, begun or not: a new lead knows none of them.
//
// Errors: ErrForbidden, ErrUnprovisioned; ErrUnknown: repeat.
func (c *Conn) PurgeTasks(ctx context.Context) error {
	return c.call(ctx, "STREAM.PURGE."+tasksOf(c.role), struct{}{})
}

// Task is one delivery of a task. It comes to another worker if it is neither acknowledged nor said to be in hand for
// the consumer's TaskWait.
type Task struct {
	Payload     []byte
	Redelivered bool          // delivered before, here or elsewhere
	Wait        time.Duration // for how long the broker waits to hear of it
	msg         Settler
}

// NewTask is t as a broker hands it over that no Conn leads to: its methods are those of s.
func NewTask(t Task, s Settler) *Task {
	t.msg = s
	return &t
}

// Done removes the task for ever: its result is with the lead, or nobody wants it.
func (t *Task) Done() error { return acked(t.msg.Ack()) }

// Return gives the task to another worker, or to this one again, after a pause.
func (t *Task) Return(after time.Duration) error { return acked(t.msg.NakWithDelay(after)) }

// InHand says that the task is being done.
func (t *Task) InHand() error { return acked(t.msg.InProgress()) }

// Tasks hands tasks to the handler, on this number of goroutines at a time, until the context ends. A goroutine asks
// for the next task when its handler has returned, so no task waits at a busy worker. The handler settles its task.
//
// It always returns an error: the context's cause, ErrForbidden, ErrUnprovisioned or ErrClosed. Handlers that run are
// waited for.
func (c *Conn) Tasks(ctx context.Context, parallel int, handler func(*Task)) error {
	stream := tasksOf(c.role)
	next := APILocal + ".CONSUMER.MSG.NEXT." + stream + "." + ConsumerTasks
	guarded, release := c.guard(ctx, next)
	defer release()
	cons, err := c.consumer(guarded, stream, ConsumerTasks)
	if err != nil {
		if guarded.Err() != nil {
			return context.Cause(guarded)
		}
		return fmt.Errorf("bus: tasks of %s: %w", stream, err)
	}
	var wg sync.WaitGroup
	for range max(parallel, 1) {
		wg.Go(func() {
			pause := firstPause
			for guarded.Err() == nil && !c.nc.IsClosed() {
				if t, err := c.nextTask(guarded, cons); t != nil {
					pause = firstPause
					handler(t)
				} else if err != nil && !sleep(guarded, &pause) {
					return
				}
			}
		})
	}
	wg.Wait()
	if guarded.Err() != nil {
		return context.Cause(guarded)
	}
	return fmt.Errorf("bus: tasks of %s: %w", stream, ErrClosed)
}

// nextTask waits for a task for a moment. It returns neither a task nor an error where there was none.
func (c *Conn) nextTask(ctx context.Context, cons jetstream.Consumer) (*Task, error) {
	if !c.connected.Load() {
		return nil, nats.ErrDisconnected
	}
	session := c.sessionNow()
	asked, cancel := context.WithTimeout(ctx, taskPull)
	defer cancel()
	defer context.AfterFunc(session, cancel)()
	m, err := cons.Next(jetstream.FetchContext(asked))
	switch {
	case err == nil:
	case asked.Err() != nil, errors.Is(err, nats.ErrTimeout):
		return nil, nil
	default:
		c.log.Debug().Err(err).Msg("task asked for again")
		return nil, err
	}
	t := &Task{Payload: m.Data(), Wait: cons.CachedInfo().Config.AckWait, msg: m}
	if meta, err := m.Metadata(); err == nil {
		t.Redelivered = meta.NumDelivered > 1
	}
	return t, nil
}

// AskLead sends one message to the lead of this role and returns its reply. It is made once: the caller repeats it.
//
// Errors: ErrForbidden, ErrTooLarge, ErrNoLead: no lead heard it; ErrUnknown: one may have.
func (c *Conn) AskLead(ctx context.Context, payload []byte) (reply []byte, err error) {
	if len(payload) > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(payload), MaxMessage)
	}
	subject := subjectLead(c.role)
	err = c.try(ctx, subject, attemptTime, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		m, err := c.nc.RequestWithContext(ctx, subject, payload)
		if err == nil {
			reply = m.Data
		}
		return err
	})
	switch {
	case err == nil:
		return reply, nil
	case errors.Is(err, ErrForbidden):
		return nil, fmt.Errorf("bus: ask the lead: %w", err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrReconnectBufExceeded):
		return nil, fmt.Errorf("%w (%w)", ErrNoLead, err)
	}
	return nil, fmt.Errorf("bus: ask the lead: %w (%w)", ErrUnknown, err)
}

// ServeLead answers what workers of this role ask, on this number of goroutines at once, until the context ends. Where
// the handler returns nothing, no reply is sent.
//
// It always returns an error: the context's cause, ErrForbidden or ErrClosed. What has begun is answered first.
func (c *Conn) ServeLead(ctx context.Context, parallel int,
	handler func(ctx context.Context, payload []byte) (reply []byte)) error {
	subject := subjectLead(c.role)
	guarded, release := c.guard(ctx, subject)
	defer release()
	return c.serve(guarded, subject, QueueLead, leadBacklog, parallel, func(m *nats.Msg) {
		reply := handler(guarded, m.Data)
		if reply == nil {
			return
		}
		if err := m.Respond(reply); err != nil {
			c.log.Warn().Err(err).Msg("a worker was not answered; it will ask again")
		}
	})
}

// serve hands the requests on a subject to the handler, on this number of goroutines, until the context ends. What comes
// while as many wait as may, or as many bytes, is lost: who asked will ask again.
func (c *Conn) serve(ctx context.Context, subject, queue string, backlog, parallel int, handler func(*nats.Msg)) error {
	requests := make(chan *nats.Msg)
	sub, err := c.nc.QueueSubscribe(subject, queue, func(m *nats.Msg) {
		select {
		case requests <- m:
		case <-ctx.Done():
		}
	})
	if err == nil {
		err = sub.SetPendingLimits(backlog, backlogBytes)
	}
	if err != nil {
		return fmt.Errorf("bus: serve %s: %w (%v)", subject, ErrClosed, err)
	}
	var wg sync.WaitGroup
	for range max(parallel, 1) {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case m := <-requests:
					handler(m)
				}
			}
		})
	}
	<-ctx.Done()
	_ = sub.Unsubscribe() // fails only on a closed connection
	wg.Wait()
	return context.Cause(ctx)
}

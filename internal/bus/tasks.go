package bus

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// leading are the roles that can have workers.
func leading() []Role { return []Role{Shuffler, Analyzer} }

func tasksOf(r Role) string      { return StreamTasks + string(r) }
func subjectTasks(r Role) string { return SubjectTasks + "." + string(r) }

// TaskStream is the handle of a role's tasks. The role's lead writes and purges them, and its workers take them. A task
// is kept until a worker acknowledges it.
type TaskStream struct{ stream }

// PublishTask stores a task for the role's workers and returns once the broker has it. It stays until a worker
// acknowledges it.
//
// Errors: ErrForbidden, ErrTooLarge: not stored; ErrFull: as many tasks wait as may, repeat when some are done;
// ErrUnknown: maybe stored, repeat with the same bytes.
func (s *TaskStream) PublishTask(ctx context.Context, payload []byte) error {
	digest := sha256.Sum256(payload)
	id := base64.RawURLEncoding.EncodeToString(digest[:18])
	_, err := s.t.Publish(ctx, subjectTasks(s.t.Role()), nats.Header{headerMsgID: {id}}, payload)
	return err
}

// PurgeTasks drops every task that waits for workers, begun or not: a new lead knows none of them.
//
// Errors: ErrForbidden, ErrUnprovisioned; ErrUnknown: repeat.
func (s *TaskStream) PurgeTasks(ctx context.Context) error {
	return s.t.Purge(ctx, s.name, "", 0)
}

// Task is one delivery of a task. It comes to another worker if it is neither acknowledged nor said to be in hand for
// the consumer's TaskWait.
type Task struct {
	Payload     []byte
	Redelivered bool          // delivered before, here or elsewhere
	Wait        time.Duration // for how long the broker waits to hear of it
	msg         Settler
}

// Done removes the task for ever: its result is with the lead, or nobody wants it.
func (t *Task) Done() error { return ackError(t.msg.Ack()) }

// Return gives the task to another worker, or to this one again, after a pause.
func (t *Task) Return(after time.Duration) error { return ackError(t.msg.NakWithDelay(after)) }

// InHand says that the task is being done.
func (t *Task) InHand() error { return ackError(t.msg.InProgress()) }

// ReceiveTasks hands tasks to the handler, on this number of goroutines at a time, until the context ends. A goroutine
// asks for the next task when its handler has returned, so no task waits at a busy worker. The handler settles its
// task.
//
// It always returns an error: the context's cause, ErrForbidden, ErrUnprovisioned or ErrClosed. Handlers that run are
// waited for.
func (s *TaskStream) ReceiveTasks(ctx context.Context, parallel int, handler func(*Task)) error {
	return s.t.Work(ctx, s.name, ConsumerTasks, parallel, func(a Arrival) {
		handler(&Task{Payload: a.Data, Redelivered: a.Redelivered, Wait: a.Wait, msg: a.Settler})
	})
}

// askTime is how long a worker waits for the lead's reply before it asks again. The lead answers a question that is
// repeated meanwhile once.
const askTime = 2 * time.Second

// leadBacklog is how many messages to the lead wait for it. Workers repeat those that are lost.
const leadBacklog = 1024

// ErrNoLead says that no lead of the role answers its workers now, or that the broker is away.
var ErrNoLead = errors.New("bus: no lead of this role answers its workers now")

// Lead is the handle of the line between a role's workers and its lead. Workers ask, and the lead answers. The broker
// keeps neither.
type Lead struct{ t Transport }

func subjectLead(r Role) string { return SubjectLead + "." + string(r) }

// AskLead sends one message to the lead of this role and returns its reply. It is made once: the caller repeats it.
//
// Errors: ErrForbidden, ErrTooLarge, ErrNoLead: no lead heard it; ErrUnknown: one may have.
func (l *Lead) AskLead(ctx context.Context, payload []byte) (reply []byte, err error) {
	subject := subjectLead(l.t.Role())
	return l.t.Ask(ctx, Question{Subject: subject, Payload: payload, Wait: askTime, Nobody: ErrNoLead})
}

// ServeLead answers what workers of this role ask, on this number of goroutines at once, until the context ends. Where
// the handler returns nothing, no reply is sent.
//
// It always returns an error: the context's cause, ErrForbidden or ErrClosed. What has begun is answered first.
func (l *Lead) ServeLead(ctx context.Context, parallel int,
	handler func(ctx context.Context, payload []byte) (reply []byte)) error {
	service := Service{Subject: subjectLead(l.t.Role()), Queue: QueueLead, Backlog: leadBacklog, Parallel: parallel}
	return l.t.Serve(ctx, service, handler)
}

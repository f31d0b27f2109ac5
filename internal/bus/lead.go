package bus

import (
	"context"
	"errors"
	"time"
)

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

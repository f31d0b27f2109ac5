package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// Transport carries what the handles of Streams ask of a broker: a Conn's goes over the network, and the simulation has
// one in memory. Each method repeats what has no answer while its context lives, where it does not say otherwise, and
// its errors are those of this package.
type Transport interface {
	Role() Role
	User() string // the name of the connection's user at the broker
	Log() *zerolog.Logger
	Traffic() Traffic

	// Publish stores a message and returns its sequence. The error is ErrTaken where its subject holds as many messages
	// as it may, or another newest one than the header expects.
	Publish(ctx context.Context, subject string, header nats.Header, payload []byte) (sequence uint64, err error)
	// PublishTogether stores messages of one subject with one sync. The error is ErrApart where the broker does not
	// take these together, and otherwise Publish's; after either nothing was stored now.
	PublishTogether(ctx context.Context, subject string, messages []Stored) error
	// Leader reads one message from the replica that orders the stream: its answer is current. ErrGone where there is
	// none.
	Leader(ctx context.Context, stream string, q Query) (Record, error)
	// Replica reads one message from any replica. ErrGone says nothing of what the leader has.
	Replica(ctx context.Context, stream string, q Query) (Record, error)
	// Batch reads from any replica some of the messages that match a filter, from a sequence on and in order; none
	// where that replica knows of no more.
	Batch(ctx context.Context, stream, filter string, from uint64) ([]Record, error)
	// Purge drops what matches the filter (empty: everything) before a sequence (0: whatever its sequence).
	Purge(ctx context.Context, stream, filter string, before uint64) error
	// Stream reads how a stream is configured. Where there is none it waits for one, or returns nil if it need not.
	Stream(ctx context.Context, stream string, wait bool) (*jetstream.StreamConfig, error)
	// Waiting is what the broker holds for a durable consumer.
	Waiting(ctx context.Context, stream, durable string) (Backlog, error)

	// Consume hands the messages of a durable consumer to fn, one after another on the caller's goroutine, until the
	// context ends, and asks for so many ahead. What fn calls false is dropped and does not come again. Its error is
	// the context's cause, ErrForbidden or ErrClosed.
	Consume(ctx context.Context, stream, durable string, ahead int, fn func(Arrival) bool) error
	// Work is Consume on this number of goroutines, of which each asks for a message when it has none.
	Work(ctx context.Context, stream, durable string, parallel int, fn func(Arrival)) error

	// Ask sends a question to whoever answers it. Errors: ErrForbidden, ErrTooLarge, and the question's Nobody where no
	// one heard it; ErrUnknown where someone may have.
	Ask(ctx context.Context, q Question) (reply []byte, err error)
	// Serve answers the questions on a subject, on this number of goroutines, until the context ends; several who serve
	// share them. What comes while as many wait as may is lost. Where the handler returns nil, no reply is sent.
	Serve(ctx context.Context, s Service, handler func(ctx context.Context, payload []byte) (reply []byte)) error

	// Listen returns a channel that holds a token after a notice on the subject and after a reconnection, and a context
	// that ends with ctx, or with ErrForbidden as its cause. stop ends it. Its error is ErrForbidden or ErrClosed.
	Listen(ctx context.Context, subject string) (heard context.Context, news <-chan struct{}, stop func(), err error)
	// PollAfter is how long whoever hears no notice waits until they look by themselves.
	PollAfter() time.Duration
}

// Stored is what is stored of a message.
type Stored struct {
	Header  nats.Header
	Payload []byte
}

// Record is one stored message.
type Record struct {
	Subject  string
	Sequence uint64
	Time     time.Time
	Header   nats.Header
	Data     []byte
}

// Query is the body of a read request, as the broker names its fields. It asks for the message with the sequence, for
// the last one whose subject matches, or for the next one that matches, from the sequence on.
type Query struct {
	Sequence uint64 `json:"seq,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// Arrival is one delivery of a durable consumer.
type Arrival struct {
	Record
	Redelivered bool          // delivered before, here or elsewhere
	Wait        time.Duration // it is delivered again where the broker hears nothing of it for so long
	Settler
}

// Settler tells the broker what became of a message that it delivered. A jetstream.Msg is one.
type Settler interface {
	Ack() error
	NakWithDelay(delay time.Duration) error
	InProgress() error
}

// Question is what one connection asks another one. It is not stored.
type Question struct {
	Subject string
	Payload []byte
	Wait    time.Duration // for the reply to one try
	Repeat  bool          // the same bytes are sent again until a reply comes; otherwise once
	Nobody  error         // nobody answers on this subject
}

// Service is what Serve answers.
type Service struct {
	Subject, Queue    string
	Backlog, Parallel int
}

package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// PublishPrepared stores one of the analyzer's answers to the shuffler about a round that is prepared, and returns once
// the broker has it. An answer is stored once, like a chunk, with the errors of PublishChunk.
func (c *Conn) PublishPrepared(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	return c.create(ctx, StreamPrepared, subjectPrepared(epoch, round, index), payload)
}

// ReadPrepared reads an answer of the analyzer. ErrGone where there is none.
func (c *Conn) ReadPrepared(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	r, err := c.last(ctx, StreamPrepared, subjectPrepared(epoch, round, index))
	if err != nil {
		return nil, fmt.Errorf("answer %d of epoch %d, round %d: %w", index, epoch, round, err)
	}
	return r.Data, nil
}

// PurgePrepared drops a round's answers once the round is over.
//
// Errors: ErrForbidden: still there; ErrUnknown: maybe there, repeat.
func (c *Conn) PurgePrepared(ctx context.Context, epoch uint64, round uint32) error {
	return c.purge(ctx, StreamPrepared, subjectRound(SubjectPrepared, epoch, round)+".*")
}

// answerPoll is how late a lost notice can make whoever waits for an answer.
const answerPoll = 2 * time.Second

// PreparedNews holds a token whenever answers about a round may have been stored since the last token was taken: after
// each notice, after a reconnection, and from time to time. A notice is a hint only; what counts is read. stop ends it.
//
// Errors: ErrClosed.
func (c *Conn) PreparedNews(epoch uint64, round uint32) (news <-chan struct{}, stop func(), err error) {
	token := make(chan struct{}, 1)
	tell := func() {
		select {
		case token <- struct{}{}:
		default:
		}
	}
	sub, err := c.nc.Subscribe(subjectRound(SubjectAnswered, epoch, round), func(*nats.Msg) { tell() })
	if err != nil {
		return nil, nil, fmt.Errorf("bus: watch %s: %w (%v)", StreamPrepared, ErrClosed, err)
	}
	back, forget := c.reconnects()
	ended := make(chan struct{})
	go func() {
		poll := time.NewTicker(answerPoll)
		defer poll.Stop()
		for {
			select {
			case <-ended:
				return
			case <-back:
			case <-poll.C:
			}
			tell()
		}
	}()
	return token, func() {
		close(ended)
		forget()
		_ = sub.Unsubscribe() // fails only on a closed connection
	}, nil
}

func subjectPrepared(epoch uint64, round, index uint32) string {
	return fmt.Sprintf("%s.%d", subjectRound(SubjectPrepared, epoch, round), index)
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// PreparedStream is the handle of the analyzer's answers to the shuffler about a round whose shares are being prepared.
// The analyzer writes, each answer once; the shuffler reads. They are kept until the analyzer purges the round's.
type PreparedStream struct{ stream }

// PublishPrepared stores one of the analyzer's answers to the shuffler about a round that is prepared, and returns once
// the broker has it. An answer is stored once, like a chunk, with the errors of PublishChunk.
func (s *PreparedStream) PublishPrepared(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	return s.create(ctx, subjectPrepared(epoch, round, index), payload)
}

// ReadPrepared reads an answer of the analyzer. ErrGone where there is none.
func (s *PreparedStream) ReadPrepared(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	r, err := s.last(ctx, subjectPrepared(epoch, round, index))
	if err != nil {
		return nil, fmt.Errorf("answer %d of epoch %d, round %d: %w", index, epoch, round, err)
	}
	return r.Data, nil
}

// PurgePrepared drops a round's answers once the round is over.
//
// Errors: ErrForbidden: still there; ErrUnknown: maybe there, repeat.
func (s *PreparedStream) PurgePrepared(ctx context.Context, epoch uint64, round uint32) error {
	return s.t.Purge(ctx, s.name, subjectRound(SubjectPrepared, epoch, round)+".*", 0)
}

// answerPoll is how late a lost notice can make whoever waits for an answer.
const answerPoll = 2 * time.Second

// PreparedNews holds a token whenever answers about a round may have been stored since the last token was taken: after
// each notice, after a reconnection, and from time to time. A notice is a hint only; what counts is read. stop ends it.
//
// Errors: ErrClosed.
func (s *PreparedStream) PreparedNews(epoch uint64, round uint32) (news <-chan struct{}, stop func(), err error) {
	heard, told, end, err := s.t.Listen(context.Background(), subjectRound(SubjectAnswered, epoch, round))
	if err != nil {
		return nil, nil, fmt.Errorf("bus: watch %s: %w", s.name, err)
	}
	token := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		poll := time.NewTicker(answerPoll)
		defer poll.Stop()
		over := heard.Done()
		for {
			select {
			case <-ended:
				return
			case <-over:
				if !errors.Is(context.Cause(heard), ErrForbidden) {
					return
				}
				over = nil // the poll goes on
			case <-told:
			case <-poll.C:
			}
			tell(token)
		}
	}()
	return token, func() {
		close(ended)
		end()
	}, nil
}

func subjectPrepared(epoch uint64, round, index uint32) string {
	return fmt.Sprintf("%s.%d", subjectRound(SubjectPrepared, epoch, round), index)
}

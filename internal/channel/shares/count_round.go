package shares

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// counting is the work on one round. Chunks are worked on in the order of their indices, one at a time, so that every
// verdict is a function of the chunks before: a process that begins anew comes to the same answers. Only who was
// accepted is kept in memory: about 180 bytes of each report, whatever its size.
type counting struct {
	*channel.Round
	c       *Counting
	ctx     context.Context // of Count; chunks come without one
	round   *shares.Round
	arrived chan struct{} // holds a token after a chunk was taken
	missed  atomic.Bool   // a chunk came out of order: it must be read again
	taken   atomic.Int64  // reports that were answered

	working turn  // guards what follows
	failed  error // after which Count cannot go on
	refused error // why the round is not accepted; wraps an outcome.Reason
	ended   bool  // the statement is out

	header    *header
	secret    shares.Secret
	digests   [][32]byte // of the header and of the chunks of prepare messages that were answered
	helpers   []*helper
	nonces    []nonce    // of the reports that are accepted
	messages  [][32]byte // digests of their prepare messages
	known     map[nonce]struct{}
	who       map[devices.Participant]devices.Present
	sponsors  *channel.Sponsors
	set       set
	sum       *sum // from the shuffler
	sumDigest [32]byte
}

// turn is a lock whose holder may wait for the broker. It is a channel, and no sync.Mutex, so that under the virtual
// time of testing/synctest whoever waits for it counts as waiting.
type turn chan struct{}

func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

// helper is what one goroutine verifies and adds with.
type helper struct {
	*shares.Helper
	sum *shares.HelperSum
}

func (c *Counting) newCounting(ctx context.Context, of *channel.Round) (*counting, error) {
	round, err := shares.NewRound(of.Announcement, of.Digest)
	if err != nil {
		return nil, err
	}
	return &counting{
		Round: of, c: c, ctx: ctx, round: round, arrived: make(chan struct{}, 1), working: make(turn, 1),
		known: map[nonce]struct{}{}, who: map[devices.Participant]devices.Present{},
		sponsors: channel.NewSponsors(of, c.SponsorShare, c.Participants),
	}, nil
}

func (r *counting) tell() {
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// failure is the error after which Count cannot go on, if there is one.
func (r *counting) failure() error {
	r.working.Lock()
	defer r.working.Unlock()
	return r.failed
}

// take works on a chunk. What goes wrong is kept for Count.
func (r *counting) take(payload []byte) {
	r.working.Lock()
	defer r.working.Unlock()
	if r.failed != nil || r.refused != nil || r.ctx.Err() != nil {
		return
	}
	chunk, err := wire.ParseChunk(payload)
	if err == nil && (chunk.Epoch != r.Epoch || chunk.Round != r.Announcement.Round) {
		err = fmt.Errorf("a chunk of round %d of epoch %d in the stream of round %d of epoch %d",
			chunk.Round, chunk.Epoch, r.Announcement.Round, r.Epoch)
	}
	if err != nil { // the broker stores one message under an index, so no other one can come in its place
		r.refuse(wire.RefusalMalformed, "%v", err)
		return
	}
	digest := wire.ChunkDigest(payload)
	switch next := uint32(len(r.digests)); {
	case chunk.Index < next:
		if digest != r.digests[chunk.Index] {
			r.refuse(wire.RefusalSecondSet, "another chunk %d came after it was answered", chunk.Index)
		}
	case r.header != nil && chunk.Index == r.header.chunks+1:
		r.takeSum(chunk.Payload, digest)
	case chunk.Index > next:
		r.missed.Store(true)
	case next == 0:
		r.failed = r.takeHeader(chunk.Payload, digest)
	default:
		r.failed = r.takeMessages(chunk.Index, chunk.Payload, digest)
	}
}

// refuse notes why the round is not accepted.
func (r *counting) refuse(why wire.Refusal, format string, v ...any) {
	if r.refused == nil {
		r.refused = fmt.Errorf("%w: %s", reason(why), fmt.Sprintf(format, v...))
	}
}

// takeHeader takes the epoch's secret. There is one in an epoch, ever: what the shuffler shows of one report under two
// verification keys would give the report's values away.
func (r *counting) takeHeader(payload []byte, digest [32]byte) error {
	h, err := parseHeader(payload)
	if err != nil {
		r.refuse(wire.RefusalMalformed, "%v", err)
		return nil
	}
	perChunk := uint64(messagesPerChunk(r.round.PrepareMessageSize(), r.c.perChunk))
	if n := uint64(h.reports); n > uint64(r.Cohort.Size) || n == 0 || uint64(h.chunks) != (n+perChunk-1)/perChunk {
		r.refuse(wire.RefusalMalformed, "a header of %d reports in %d chunks, the cohort has %d slots",
			h.reports, h.chunks, r.Cohort.Size)
		return nil
	}
	plain, err := seal.NewEnvelopeOpener(r.Key, seal.SecretEnvelope, r.Digest).Open(h.secret, nil)
	if err != nil {
		r.refuse(wire.Reason(err), "the secret of the verification keys: %v", err)
		return nil
	}
	secret, err := shares.ParseSecret(plain)
	if err != nil {
		r.refuse(wire.Reason(err), "%v", err)
		return nil
	}
	if err := r.only(secret); err != nil {
		return err
	}
	if err := r.same(name("taken", r.Epoch, r.Announcement.Round), append(digest[:], payload...)); err != nil {
		return err
	}
	if r.refused != nil {
		return nil
	}
	for range runtime.GOMAXPROCS(0) {
		one, err := r.round.NewHelper(secret, r.Key, r.c.Verifier)
		if err != nil {
			return err
		}
		sum, err := r.round.NewHelperSum()
		if err != nil {
			return err
		}
		r.helpers = append(r.helpers, &helper{one, sum})
	}
	r.header, r.secret, r.digests = &h, secret, append(r.digests, digest)
	return nil
}

// only refuses a second secret for an epoch.
func (r *counting) only(secret shares.Secret) error {
	file := fmt.Sprintf("shares-secret-%d", r.Epoch)
	known, err := channel.ReadFile(r.c.Disk, file)
	if err != nil {
		return err
	}
	if known == nil {
		return channel.StoreFile(r.c.Disk, file, secret.Commitment())
	}
	if !bytes.Equal(known, secret.Commitment()) {
		r.refuse(wire.RefusalSecondKey, "the shuffler sends a second secret for epoch %d", r.Epoch)
	}
	return nil
}

// same makes content durable before anything follows from it. Other content under the name is a second set.
func (r *counting) same(file string, content []byte) error {
	known, err := channel.ReadFile(r.c.Disk, file)
	if err != nil {
		return err
	}
	if known == nil {
		return channel.StoreFile(r.c.Disk, file, content)
	}
	if !bytes.Equal(known, content) {
		r.refuse(wire.RefusalSecondSet, "another one was taken and answered before: %s", file)
	}
	return nil
}

// readHeader reads the header that was taken of a round; nil if none was.
func (c *Counting) readHeader(epoch uint64, round uint32) (*header, error) {
	b, err := channel.ReadFile(c.Disk, name("taken", epoch, round))
	if b == nil || err != nil {
		return nil, err
	}
	if len(b) < sha256.Size {
		return nil, errOther
	}
	h, err := parseHeader(b[sha256.Size:])
	return &h, err
}

func answerName(epoch uint64, round, index uint32) string {
	return fmt.Sprintf("%s-%d", name("answer", epoch, round), index)
}

// verdict is what the analyzer says of a prepare message.
type verdict struct {
	shares.Verified
	refused wire.Refusal
}

// takeMessages verifies a chunk of prepare messages and answers it.
func (r *counting) takeMessages(index uint32, payload []byte, digest [32]byte) error {
	size := r.round.PrepareMessageSize()
	messages, err := parseMessages(payload, size, messagesPerChunk(size, r.c.perChunk))
	if err != nil {
		r.refuse(wire.RefusalMalformed, "chunk %d: %v", index, err)
		return nil
	}
	if n := r.taken.Load() + int64(len(messages)); n > int64(r.header.reports) {
		r.refuse(wire.RefusalMalformed, "%d prepare messages up to chunk %d, the header says %d",
			n, index, r.header.reports)
		return nil
	}
	judged, err := r.verify(messages)
	if err != nil {
		return err
	}
	answer := make([]byte, 0, len(messages)*verdictSize)
	for i := range judged {
		one := &judged[i]
		if one.refused == wire.NoRefusal {
			one.refused = r.admit(one.Verified)
		}
		if one.refused == wire.NoRefusal {
			r.messages = append(r.messages, wire.MessageDigest(messages[i]))
		}
		answer = append(answer, byte(one.refused))
		if one.refused != wire.NoRefusal {
			answer = append(answer, make([]byte, shares.AnswerSize)...)
			r.c.Messages.Received(1)
			r.c.Messages.Refused(reason(one.refused), 1)
		} else {
			answer = append(answer, one.Answer[:]...)
		}
	}
	err = r.each(len(messages), func(h *helper, i int) error {
		if judged[i].refused != wire.NoRefusal {
			return nil
		}
		return h.Add(h.sum, judged[i].Verified)
	})
	if err != nil {
		return err
	}
	// The answer is durable before the shuffler can see it: after a crash it is given again, or the round is refused.
	err = r.same(answerName(r.Epoch, r.Announcement.Round, index), append(digest[:], answer...))
	if err != nil || r.refused != nil {
		return err
	}
	if err := r.publish(index, answer); err != nil {
		return err
	}
	r.digests = append(r.digests, digest)
	r.taken.Add(int64(len(messages)))
	return nil
}

// verify judges prepare messages one by one, on all processors or by workers. It knows nothing of other reports.
func (r *counting) verify(messages [][]byte) (judged []verdict, err error) {
	judged = make([]verdict, len(messages))
	left := make([]int, len(messages))
	for i := range left {
		left[i] = i
	}
	if r.c.Pool != nil {
		c := crowd{
			pool: r.c.Pool, kind: TaskVerify, a: r.Announcement, digest: r.Digest, secret: r.secret,
			item: r.round.PrepareMessageSize(), result: r.round.VerifiedSize(), log: r.c.Log,
		}
		left, err = c.do(r.ctx, messages, func(i int, why wire.Refusal, result []byte) (err error) {
			if judged[i].refused = why; why != wire.NoRefusal {
				return nil
			}
			if judged[i].Verified, err = r.round.ParseVerified(result); err != nil {
				return err
			}
			if judged[i].Nonce != shares.Nonce(messages[i]) {
				return errTask
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return judged, r.each(len(left), func(h *helper, i int) error {
		v, err := h.Verify(messages[left[i]])
		judged[left[i]] = verdict{v, wire.Reason(err)}
		return nil
	})
}

// admit accepts a verified report, or says why it is refused: a nonce or a device that is in the round already, a
// device that cannot be in the panel, a sponsor with as many reports as one may have, or as many as an issuer's
// certificate lets in, or a device that was counted before.
// The first two come first, so that a process that begins anew after the participants were remembered judges alike.
func (r *counting) admit(v shares.Verified) wire.Refusal {
	if _, twice := r.known[v.Nonce]; twice {
		return wire.RefusalDuplicate
	}
	if _, twice := r.who[v.Participant]; twice {
		return wire.RefusalDuplicate
	}
	if !r.Drawn.Holds(v.Participant) {
		return wire.RefusalNotDrawn
	}
	switch err := r.sponsors.Check(v.Present); {
	case errors.Is(err, channel.ErrIssuerFull):
		return wire.RefusalIssuerFull
	case err != nil:
		return wire.RefusalSponsorShare
	}
	if err := r.c.Participants.Check(r.Epoch, v.Participant); err != nil {
		if errors.Is(err, channel.ErrNewcomer) && r.Announcement.Round > 0 {
			return wire.RefusalNotEnrolled
		}
		return wire.RefusalAlreadyEnrolled
	}
	r.known[v.Nonce], r.who[v.Participant] = struct{}{}, v.Present
	r.sponsors.Enter(v.Present)
	r.nonces = append(r.nonces, v.Nonce)
	return wire.NoRefusal
}

// publish sends an answer. Where another one is in its place, the round is refused.
func (r *counting) publish(index uint32, answer []byte) error {
	err := r.c.Broker.PublishPrepared(r.ctx, r.Epoch, r.Announcement.Round, index, answer)
	if errors.Is(err, bus.ErrExists) {
		r.refuse(wire.RefusalSecondSet, "the broker holds another answer %d, which this analyzer did not keep: "+
			"another client writes with its credential, or its state folder is older than what it answered", index)
		return nil
	}
	return err
}

// each calls f for the first n numbers, on all helpers at a time.
func (r *counting) each(n int, f func(*helper, int) error) error {
	var all errgroup.Group
	var next atomic.Int64
	for _, h := range r.helpers {
		all.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := f(h, i); err != nil {
					return err
				}
			}
		})
	}
	return all.Wait()
}

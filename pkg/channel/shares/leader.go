package shares

import (
	"crypto/sha256"
	"fmt"

	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// Leader is the shuffler's side of preparation. It is used by one goroutine at a time; make one for each.
type Leader struct {
	round   *Round
	vdaf    *sumvec.SumVec
	key     sumvec.VerifyKey
	share   sumvec.InputShare  // reused: preparation keeps nothing of it
	message sumvec.PrepMessage // reused
}

// NewLeader prepares a round with the secret of its epoch.
func (r *Round) NewLeader(s Secret) (*Leader, error) {
	vdaf, err := r.vdaf(s.Commitment())
	if err != nil {
		return nil, err
	}
	l, params := &Leader{round: r, vdaf: vdaf, key: s.key(r)}, vdaf.Params()
	l.share.New(&params, leader)
	l.message.New(&params)
	return l, nil
}

// Pending is the shuffler's share of a report that awaits the analyzer's answer. It holds 16 bytes for each coordinate
// and little more.
type Pending struct{ once *pending }

// pending is shared by the copies of a Pending; it is empty after the report was added.
type pending struct{ state *sumvec.PrepState }

// Prepare appends to message what the analyzer needs of a report, the prepare message: PrepareMessageSize bytes,
//
//	nonce (16) | public share (64) | SHA-256 of the leader's share and blind (32) | envelope | preparation share
//
// The same payload gives the same prepare message at any time. The hash covers the blind: a hash of the measurement's
// share alone would let the analyzer, which holds the other share, try all measurements. Errors, for wire.Reason:
// wire.ErrSize, wire.ErrShare. Nothing is appended then.
func (l *Leader) Prepare(message, payload []byte) ([]byte, Pending, error) {
	if len(payload) != l.round.PayloadSize() {
		return message, Pending{}, fmt.Errorf("%w: a payload of %d bytes, must have %d",
			wire.ErrSize, len(payload), l.round.PayloadSize())
	}
	nonce := sumvec.Nonce(payload[:NonceSize])
	public, rest := payload[NonceSize:NonceSize+publicSize], payload[NonceSize+publicSize:]
	share, envelope := rest[:l.round.leader], rest[l.round.leader:]
	if err := l.share.UnmarshalBinary(share); err != nil {
		return message, Pending{}, fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	state, mine, err := l.vdaf.PrepInit(&l.key, &nonce, leader, public, l.share)
	if err != nil {
		return message, Pending{}, fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	preparation, err := mine.MarshalBinary()
	if err != nil {
		return message, Pending{}, fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	hash := sha256.Sum256(share)
	message = append(append(append(message, nonce[:]...), public...), hash[:]...)
	return append(append(message, envelope...), preparation...), Pending{&pending{state}}, nil
}

// Finish adds the shuffler's share of a report to a sum, if the analyzer's answer belongs to it. An answer says that
// the analyzer accepts the report, and not that its proof verifies: only the analyzer can know that. Errors, for
// wire.Reason: wire.ErrSize, wire.ErrShare, also where the report was added before. Nothing is added then.
func (l *Leader) Finish(sum *LeaderSum, p Pending, answer []byte) error {
	if len(answer) != AnswerSize {
		return fmt.Errorf("%w: an answer of %d bytes, must have %d", wire.ErrSize, len(answer), AnswerSize)
	}
	if p.once == nil || p.once.state == nil || sum.round.digest != l.round.digest {
		return fmt.Errorf("%w: it is not prepared or was added, or the sum is of another round", wire.ErrShare)
	}
	if err := l.message.UnmarshalBinary(answer); err != nil {
		return fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	out, err := l.vdaf.PrepNext(p.once.state, &l.message)
	if err != nil {
		return fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	p.once.state = nil
	sum.add(l.vdaf, out)
	return nil
}

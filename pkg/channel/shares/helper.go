package shares

import (
	"crypto/sha256"
	"fmt"

	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Helper is the analyzer's side of preparation. It is used by one goroutine at a time; make one for each.
type Helper struct {
	round      *Round
	vdaf       *sumvec.SumVec
	key        sumvec.VerifyKey
	commitment []byte
	opener     *seal.EnvelopeOpener
	verifier   *channel.Verifier
	mine       sumvec.InputShare   // reused: preparation keeps nothing of it
	theirs     [2]sumvec.PrepShare // reused
	bound      []byte              // reused
}

// NewHelper prepares a round with the secret that the shuffler sent, the key that envelopes are sealed to, and who may
// take part. A secret that is not the one that devices saw the commitment of gives a helper that refuses every report.
func (r *Round) NewHelper(s Secret, analyzer *seal.HPKEKey, verifier *channel.Verifier) (*Helper, error) {
	commitment := s.Commitment()
	vdaf, err := r.vdaf(commitment)
	if err != nil {
		return nil, err
	}
	h := &Helper{
		round: r, vdaf: vdaf, key: s.key(r), commitment: commitment,
		opener: seal.NewEnvelopeOpener(analyzer, seal.ShareEnvelope, r.digest), verifier: verifier,
	}
	params := vdaf.Params()
	h.mine.New(&params, helper)
	h.theirs[leader].New(&params)
	return h, nil
}

// Verified is a report that the analyzer accepts: it proves that its entries are in range, and who took part. It is not
// in a sum yet.
type Verified struct {
	channel.Present
	Nonce  [NonceSize]byte
	Answer [AnswerSize]byte // for the shuffler; the analyzer's preparation share never leaves it
	once   *verified
}

// verified is shared by the copies of a Verified; it is empty after the report was added.
type verified struct{ out *sumvec.OutShare }

// Verify opens and checks a prepare message. It does not know which participants and nonces were seen before. Errors,
// for wire.Reason:
//
//   - wire.ErrSize: not PrepareMessageSize bytes;
//   - seal.ErrOpen: the envelope is of another report, round or commitment, or the prepare message names another
//     leader's share;
//   - wire.ErrCredential, wire.ErrSignature: no proof of participation for this report;
//   - wire.ErrShare: a share does not decode or does not fit the report's public share;
//   - wire.ErrProof: the entries are not in their range.
func (h *Helper) Verify(message []byte) (Verified, error) {
	if len(message) != h.round.PrepareMessageSize() {
		return Verified{}, fmt.Errorf("%w: a prepare message of %d bytes, must have %d",
			wire.ErrSize, len(message), h.round.PrepareMessageSize())
	}
	nonce, rest := sumvec.Nonce(message[:NonceSize]), message[NonceSize:]
	public, rest := rest[:publicSize], rest[publicSize:]
	hash, rest := rest[:hashSize], rest[hashSize:]
	envelope, preparation := rest[:envelopeSize], rest[envelopeSize:]
	content := bound(h.bound[:0], nonce[:], public, hash, h.commitment)
	h.bound = content
	plain, err := h.opener.Open(envelope, content)
	if err != nil {
		return Verified{}, err
	}
	defer clear(plain)
	share, proof := plain[:helperSize], plain[helperSize:]
	inner := sha256.Sum256(share)
	content = append(content, inner[:]...)
	v := Verified{Nonce: nonce}
	if v.Present, err = h.verifier.Check(proof, h.round.epoch, h.round.digest, content); err != nil {
		return Verified{}, err
	}
	out, answer, err := h.prepare(&nonce, public, share, preparation)
	if err != nil {
		return Verified{}, err
	}
	v.Answer, v.once = answer, &verified{out}
	return v, nil
}

// prepare verifies the report's proof with the leader's preparation share and the helper's own, which it drops.
func (h *Helper) prepare(nonce *sumvec.Nonce, public, share, preparation []byte,
) (out *sumvec.OutShare, answer [AnswerSize]byte, err error) {
	if err := h.theirs[leader].UnmarshalBinary(preparation); err != nil {
		return nil, answer, fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	if err := h.mine.UnmarshalBinary(share); err != nil {
		return nil, answer, fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	state, own, err := h.vdaf.PrepInit(&h.key, nonce, helper, public, h.mine)
	if err != nil {
		return nil, answer, fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	h.theirs[helper] = *own
	message, err := h.vdaf.PrepSharesToPrep(h.theirs[:])
	if err != nil { // with shares of the right lengths, circl fails here only if the proof does not verify
		return nil, answer, fmt.Errorf("%w: %w", wire.ErrProof, err)
	}
	if out, err = h.vdaf.PrepNext(state, message); err != nil {
		return nil, answer, fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	b, err := message.MarshalBinary()
	if err != nil || len(b) != AnswerSize {
		return nil, answer, fmt.Errorf("%w: a preparation message of %d bytes: %w", wire.ErrShare, len(b), err)
	}
	return out, [AnswerSize]byte(b), nil
}

// Add adds the analyzer's share of a verified report to a sum, once. The error wraps wire.ErrShare: the report was not
// verified or was added before, or the sum is of another round.
func (h *Helper) Add(sum *HelperSum, v Verified) error {
	if v.once == nil || v.once.out == nil || sum.round.digest != h.round.digest {
		return fmt.Errorf("%w: it is not verified or was added, or the sum is of another round", wire.ErrShare)
	}
	sum.add(h.vdaf, v.once.out)
	v.once.out = nil
	return nil
}

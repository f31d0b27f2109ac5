package shares

import (
	"fmt"

	"github.com/cloudflare/circl/vdaf/prio3/arith/fp128"
	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What one process of a server prepared or verified is handed over to the process that adds it up. These bytes hold the
// server's own share of one report: whoever has them of both servers has the report's entries. They leave a process
// only sealed, to another one of the same server, and nowhere else.

// PendingSize is the length in bytes of a pending share that is handed over.
func (r *Round) PendingSize() int { return int(r.entries)*fp128.Size + AnswerSize }

// AppendPending appends a pending share that was not added yet. The error wraps wire.ErrShare.
func (r *Round) AppendPending(b []byte, p Pending) ([]byte, error) {
	if p.once == nil || p.once.state == nil {
		return b, fmt.Errorf("%w: it is not prepared or was added", wire.ErrShare)
	}
	state, err := p.once.state.MarshalBinary()
	if err != nil || len(state) != r.PendingSize() {
		return b, fmt.Errorf("%w: a pending share of %d bytes: %w", wire.ErrShare, len(state), err)
	}
	return append(b, state...), nil
}

// ParsePending reads what AppendPending wrote. The error wraps wire.ErrShare.
func (r *Round) ParsePending(b []byte) (Pending, error) {
	vdaf, err := r.vdaf(nil)
	if err != nil {
		return Pending{}, err
	}
	params := vdaf.Params()
	state := new(sumvec.PrepState).New(&params)
	if err := state.UnmarshalBinary(b); err != nil {
		return Pending{}, fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	return Pending{&pending{state}}, nil
}

const verifiedFixed = NonceSize + channel.PresentSize + AnswerSize

// VerifiedSize is the length in bytes of a verified report that is handed over.
func (r *Round) VerifiedSize() int { return verifiedFixed + int(r.entries)*fp128.Size }

// AppendVerified appends a verified report that was not added yet. The error wraps wire.ErrShare.
func (r *Round) AppendVerified(b []byte, v Verified) ([]byte, error) {
	if v.once == nil || v.once.out == nil {
		return b, fmt.Errorf("%w: it is not verified or was added", wire.ErrShare)
	}
	out, err := v.once.out.MarshalBinary()
	if err != nil || len(out) != r.VerifiedSize()-verifiedFixed {
		return b, fmt.Errorf("%w: a verified share of %d bytes: %w", wire.ErrShare, len(out), err)
	}
	b = v.Present.Append(append(b, v.Nonce[:]...))
	return append(append(b, v.Answer[:]...), out...), nil
}

// ParseVerified reads what AppendVerified wrote. The error wraps wire.ErrShare.
func (r *Round) ParseVerified(b []byte) (v Verified, err error) {
	if len(b) != r.VerifiedSize() {
		return v, fmt.Errorf("%w: a verified share of %d bytes, must have %d", wire.ErrShare, len(b), r.VerifiedSize())
	}
	vdaf, err := r.vdaf(nil)
	if err != nil {
		return v, err
	}
	params := vdaf.Params()
	out := new(sumvec.OutShare).New(&params)
	if err := out.UnmarshalBinary(b[verifiedFixed:]); err != nil {
		return v, fmt.Errorf("%w: %w", wire.ErrShare, err)
	}
	v.Nonce, b = [NonceSize]byte(b), b[NonceSize:]
	v.Present, b = channel.ParsePresent([channel.PresentSize]byte(b)), b[channel.PresentSize:]
	v.Answer, v.once = [AnswerSize]byte(b), &verified{out}
	return v, nil
}

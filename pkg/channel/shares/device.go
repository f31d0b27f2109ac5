package shares

import (
	"crypto/sha256"
	"fmt"

	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Device implements channel.Device.
type Device struct {
	round  *Round
	sealer *seal.EnvelopeSealer
	random func([]byte) // seal.Random, but in tests of fixed vectors
}

// NewDevice prepares an announced round. The announcement is in range, and digest is its own. Errors: ErrRound; a key
// of the analyzer that is of low order or not 32 bytes long is seal.ErrKey.
func NewDevice(a *plan.Announcement, digest [32]byte) (*Device, error) {
	r, err := NewRound(a, digest)
	if err != nil {
		return nil, err
	}
	sealer, err := seal.NewEnvelopeSealer(a.AnalyzerKey, seal.ShareEnvelope, digest)
	if err != nil {
		return nil, err
	}
	return &Device{round: r, sealer: sealer, random: seal.Random}, nil
}

// Size implements channel.Device.
func (d *Device) Size() int { return d.round.PayloadSize() }

// Append implements channel.Device: every vector is encoded with its noise, all entries are split into two shares with
// a proof, and the analyzer's part goes into an envelope with a proof of participation. The payload is
//
//	nonce (16) | public share (64) | leader's share with its blind | envelope
//
// A sender without a commitment of CommitmentSize bytes is refused: the shuffler that enrolled the device does not
// carry the channel.
func (d *Device) Append(
	dst []byte, by channel.Sender, vectors [][]float64, src protocol.Source,
) ([]byte, error) {
	if len(vectors) != len(d.round.encodings) {
		return dst, fmt.Errorf("shares: %d vectors for %d releases", len(vectors), len(d.round.encodings))
	}
	entries := make([]uint64, 0, d.round.entries)
	var ones []uint32
	defer func() { clear(ones); clear(entries) }()
	for i, e := range d.round.encodings {
		var err error
		if ones, err = e.Encode(ones, vectors[i], src); err != nil {
			return dst, fmt.Errorf("shares: encoding: %w", err)
		}
		for _, n := range ones {
			entries = append(entries, uint64(n))
		}
	}
	return d.share(dst, by, entries)
}

// share appends the payload for encoded entries.
func (d *Device) share(dst []byte, by channel.Sender, entries []uint64) ([]byte, error) {
	if len(by.Commitment) != CommitmentSize {
		return dst, fmt.Errorf("shares: the reply to the enrolment has a commitment of %d bytes instead of %d",
			len(by.Commitment), CommitmentSize)
	}
	vdaf, err := d.round.vdaf(by.Commitment)
	if err != nil {
		return dst, err
	}
	var drawn [NonceSize + 2*(helperSize)]byte // nonce; two seeds and two blinds
	defer clear(drawn[:])
	d.random(drawn[:])
	nonce := sumvec.Nonce(drawn[:NonceSize])
	public, split, err := vdaf.Shard(entries, &nonce, drawn[NonceSize:])
	if err != nil {
		return dst, fmt.Errorf("shares: sharing: %w", err)
	}
	first, err := split[leader].MarshalBinary()
	if err != nil {
		return dst, fmt.Errorf("shares: sharing: %w", err)
	}
	second, err := split[helper].MarshalBinary()
	if err != nil {
		return dst, fmt.Errorf("shares: sharing: %w", err)
	}
	defer clear(second)
	return d.pack(dst, by, nonce[:], public, first, second)
}

// pack appends the payload of a report whose two shares are made.
func (d *Device) pack(dst []byte, by channel.Sender, nonce, public, first, second []byte) ([]byte, error) {
	hash := sha256.Sum256(first)
	content := bound(make([]byte, 0, boundSize+hashSize), nonce, public, hash[:], by.Commitment)
	aad := content[:boundSize:boundSize]
	inner := sha256.Sum256(second)
	plain := append(make([]byte, 0, helperSize+channel.ProofSize), second...)
	defer func() { clear(plain) }()
	plain, err := by.AppendProof(plain, d.round.digest, append(content, inner[:]...))
	if err != nil {
		return dst, fmt.Errorf("shares: proof of participation: %w", err)
	}
	begin := len(dst)
	out := append(append(append(dst, nonce...), public...), first...)
	if out, err = d.sealer.AppendSeal(out, plain, aad); err != nil {
		return dst, fmt.Errorf("shares: sealing: %w", err)
	}
	if made := len(out) - begin; made != d.Size() {
		return dst, fmt.Errorf("shares: a payload of %d bytes instead of %d", made, d.Size())
	}
	return out, nil
}

package shares

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/cloudflare/circl/vdaf/prio3/arith/fp128"
	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Sizes in bytes that no announcement changes.
const (
	// NonceSize is the length of a report's nonce.
	NonceSize = 16
	// AnswerSize is the length of the analyzer's answer to a prepare message that it accepts: the two servers'
	// preparation shares combined, which VDAF calls the preparation message.
	AnswerSize = 32
	// CommitmentSize is the length of the commitment to an epoch's secret.
	CommitmentSize = sha256.Size

	publicSize   = 2 * 32 // a part of the joint randomness for each server
	helperSize   = 2 * 32 // seed of the shares, and blind
	hashSize     = sha256.Size
	envelopeSize = seal.EnvelopeOverhead + helperSize + channel.ProofSize
)

// The two servers, as the vector sum numbers them.
const (
	leader = 0 // the shuffler
	helper = 1 // the analyzer
)

// ErrRound is wrapped by every error about an announced round that the channel cannot carry.
var ErrRound = errors.New("shares: the round cannot be reported as shares")

// vdafVersion names what is computed on the wire: circl 1.6.5 puts the version byte 12 of draft-irtf-cfrg-vdaf into
// every derivation. A library that computes another version must be given another name here.
const vdafVersion = "draft-irtf-cfrg-vdaf-12 Prio3SumVec"

// contextDomain starts the application context of every report.
const contextDomain = "riffle/v1/shares\x00" + vdafVersion + "\x00"

// shape is what the encodings of a round make of the vector sum.
type shape struct {
	entries, bits, chunk uint // length of the vector, bits of an entry, elements that the proof checks at a time
	leader               int  // bytes of the leader's share of a report with its blind
	preparation          int  // bytes of a preparation share
}

// shapeOf computes the shape: all coordinates of all releases form one vector, and one width holds the largest entry
// of any coordinate. The error wraps ErrRound.
func shapeOf(encodings []protocol.Encoding) (s shape, err error) {
	for _, e := range encodings {
		s.entries += uint(len(e.Coordinates))
		for j := range e.Coordinates {
			s.bits = max(s.bits, uint(bits.Len64(uint64(e.Coordinates[j].Levels)+uint64(e.NoiseBits))))
		}
	}
	s.chunk = chunkLength(s.entries * s.bits)
	vdaf, err := sumvec.New(2, s.entries, s.bits, s.chunk, nil)
	if err != nil {
		return shape{}, fmt.Errorf("%w: %w", ErrRound, err)
	}
	p := vdaf.Params()
	share := uint64(p.MeasurementLength()+p.ProofLength())*fp128.Size + 32
	if most := uint64(wire.MaxPayload - NonceSize - publicSize - envelopeSize); share > most {
		return shape{}, fmt.Errorf("%w: %d entries of %d bits need %d bytes, at most %d travel",
			ErrRound, s.entries, s.bits, share, most)
	}
	s.leader = int(share)
	s.preparation = int(p.VerifierLength())*fp128.Size + 32
	return s, nil
}

// chunkLength is how many elements (bits of entries) the proof checks at a time. With chunks of c elements, a proof has
// 2c + 2p - 1 elements, where the power of two p is above the number of chunks. For each p, the shortest chunk is taken
// that needs no larger one, and among these the one with the shortest proof; of equals the one with the smaller p. That
// is near the square root of the elements. In time, what is chosen is within measurement of the best: sharing costs
// about p multiplications for each element (BenchmarkChunk), so the smaller p of two that are close is the better one.
func chunkLength(elements uint) uint {
	best, least := elements, ^uint(0)
	for p := uint(2); p/2 <= elements; p *= 2 {
		chunk := (elements + p - 2) / (p - 1)
		if size := chunk + p; size < least {
			best, least = chunk, size
		}
	}
	return best
}

// PayloadSize is the length in bytes of the payload of every report with these encodings; 0 if the channel cannot carry
// them.
func PayloadSize(encodings []protocol.Encoding) int {
	s, err := shapeOf(encodings)
	if err != nil {
		return 0
	}
	return s.payload()
}

func (s shape) payload() int { return NonceSize + publicSize + s.leader + envelopeSize }

// Round is what every party computes of an announced round before it handles reports. It does not change and is safe
// for concurrent use.
type Round struct {
	shape
	epoch     uint64
	digest    [32]byte
	number    uint32
	encodings []protocol.Encoding
	releases  []plan.Release
}

// NewRound prepares an announced round. The announcement is in range, and digest is its own. The error wraps ErrRound
// and says why the channel cannot carry the round.
func NewRound(a *plan.Announcement, digest [32]byte) (*Round, error) {
	releases := a.Releases()
	if len(releases) != len(a.Encodings) {
		return nil, fmt.Errorf("%w: %d encodings for %d releases", ErrRound, len(a.Encodings), len(releases))
	}
	s, err := shapeOf(a.Encodings)
	if err != nil {
		return nil, err
	}
	return &Round{
		shape: s, epoch: a.Epoch, digest: digest, number: a.Round, encodings: a.Encodings, releases: releases,
	}, nil
}

// PayloadSize is the length in bytes of the payload of every report of the round.
func (r *Round) PayloadSize() int { return r.payload() }

// PrepareMessageSize is the length in bytes of what the shuffler sends the analyzer of one report.
func (r *Round) PrepareMessageSize() int {
	return NonceSize + publicSize + hashSize + envelopeSize + r.preparation
}

// AggregateSize is the length in bytes of a server's share of the sums.
func (r *Round) AggregateSize() int { return int(r.entries) * fp128.Size }

// Nonce is the nonce of a payload or prepare message, which both begin with it. It returns zeros for what is too short
// to have one.
func Nonce(b []byte) (nonce [NonceSize]byte) {
	if len(b) >= NonceSize {
		nonce = [NonceSize]byte(b)
	}
	return nonce
}

// context is what the vector sum binds every share and proof of a round to: with another commitment, announcement or
// round, no share of the report fits its public share.
func (r *Round) context(commitment []byte) []byte {
	b := append(make([]byte, 0, len(contextDomain)+32+4+CommitmentSize+3*4), contextDomain...)
	b = append(b, r.digest[:]...)
	b = binary.BigEndian.AppendUint32(b, r.number)
	b = append(b, commitment...)
	for _, n := range []uint{r.entries, r.bits, r.chunk} {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// vdaf makes the vector sum of the round. It is not safe for concurrent use: circl keeps the state of its hash in it.
func (r *Round) vdaf(commitment []byte) (*sumvec.SumVec, error) {
	v, err := sumvec.New(2, r.entries, r.bits, r.chunk, r.context(commitment))
	if err != nil {
		return nil, fmt.Errorf("shares: %w", err)
	}
	return v, nil
}

// bound is the associated data of an envelope and, with the hash of what the envelope carries, what a proof of
// participation is for: which report the analyzer's part belongs to.
func bound(dst, nonce, public, hash, commitment []byte) []byte {
	return append(append(append(append(dst, nonce...), public...), hash...), commitment...)
}

const boundSize = NonceSize + publicSize + hashSize + CommitmentSize

package shuffle

import (
	"context"
	"errors"
	"math"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Part is a part of the noise that a shuffler adds to a round, where several processes make it: the messages From up to
// To, without To, of NoiseMessages, counted release by release and coordinate by coordinate. Parts that cover a round
// once are together what AppendNoise makes: a sum of independent binomial numbers of one bias is binomial again.
type Part struct {
	Key      []byte         `json:"key"`    // the analyzer's HPKE public key
	Digest   []byte         `json:"digest"` // of the announcement, 32 bytes
	Releases []NoiseRelease `json:"releases"`
	From     uint64         `json:"from"`
	To       uint64         `json:"to"`
}

// NoiseRelease is what one release of a round says of the shuffler's noise.
type NoiseRelease struct {
	Noise       uint64        `json:"noise"` // messages for each coordinate
	Bias        protocol.Bias `json:"bias"`
	Coordinates int           `json:"coordinates"`
}

// NoiseParts divides the noise of a round into parts of at most this many messages (above 0); none where there is no
// noise. digest is the announcement's.
func NoiseParts(a *plan.Announcement, digest [32]byte, most uint64) (parts []Part) {
	all := Part{Key: a.AnalyzerKey, Digest: digest[:]}
	for i, r := range a.Releases() {
		n := r.ShufflerNoise
		if a.Plan.Channel != plan.Shuffle {
			n = 0
		}
		all.Releases = append(all.Releases, NoiseRelease{n, r.Bias, len(a.Encodings[i].Coordinates)})
	}
	messages := NoiseMessages(a)
	for from := uint64(0); from < messages; from += most {
		all.From, all.To = from, min(from+most, messages)
		parts = append(parts, all)
	}
	return parts
}

// ErrPart says that a part is none of NoiseParts.
var ErrPart = errors.New("shuffle: a part of the noise is malformed: run lead and workers of one version")

// check refuses a part of which no announced round can be.
func (p Part) check() error {
	if len(p.Digest) != 32 || len(p.Releases) > math.MaxUint8+1 {
		return ErrPart
	}
	for _, r := range p.Releases {
		if r.Coordinates < 0 || r.Coordinates > math.MaxUint16+1 || r.Noise > MaxNoiseMessages {
			return ErrPart
		}
	}
	return nil
}

// Append appends the part's messages to dst, as AppendNoise does, and with its errors and ErrPart.
func (p Part) Append(ctx context.Context, dst []byte, src protocol.Source) ([]byte, error) {
	if p.To-p.From > MaxNoiseMessages || p.To < p.From {
		return dst, ErrNoise
	}
	if err := p.check(); err != nil {
		return dst, err
	}
	var digest [32]byte
	copy(digest[:], p.Digest)
	sealer, err := seal.NewBitSealer(p.Key, digest)
	if err != nil {
		return dst, err
	}
	begin := uint64(0) // of the coordinate
	for i, r := range p.Releases {
		for j := range r.Coordinates {
			from, to := max(begin, p.From), min(begin+r.Noise, p.To)
			begin += r.Noise
			if from >= to {
				continue
			}
			ones := protocol.Binomial(to-from, r.Bias, src)
			room := make([]byte, (to-from)*seal.BitSize)
			if err := (task{room, uint8(i), uint16(j), ones}).seal(ctx, sealer); err != nil {
				return dst, err
			}
			dst = append(dst, room...)
		}
	}
	return dst, nil
}

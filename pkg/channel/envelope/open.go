package envelope

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// ErrRange says that an entry is larger than its coordinate's levels and noise bits together.
var ErrRange = errors.New("envelope: an entry is out of range")

// Opener opens the envelopes of one round. It is safe for concurrent use.
type Opener struct {
	opener   *seal.EnvelopeOpener
	verifier *channel.Verifier
	epoch    uint64
	digest   [32]byte
	width    int
	most     []uint32 // the largest value of each entry, release by release
}

// NewOpener prepares an announced round of the channel local or central; digest is the announcement's, and key the
// private half of its AnalyzerKey.
func NewOpener(a *plan.Announcement, digest [32]byte, key *seal.HPKEKey, verifier *channel.Verifier) (*Opener, error) {
	if domain(a.Plan.Channel) == "" {
		return nil, fmt.Errorf("envelope: the channel %q has no envelopes", a.Plan.Channel)
	}
	o := &Opener{
		opener: seal.NewEnvelopeOpener(key, domain(a.Plan.Channel), digest), verifier: verifier, epoch: a.Epoch,
		digest: digest,
	}
	o.width, _ = width(a.Encodings)
	for _, e := range a.Encodings {
		for j := range e.Coordinates {
			o.most = append(o.most, uint32(e.MessagesAt(j)))
		}
	}
	return o, nil
}

// Entries is how many entries an envelope holds: one for each coordinate of each release.
func (o *Opener) Entries() int { return len(o.most) }

// Open opens an envelope, checks that each entry is in its range, and verifies who made it. It appends the entries to
// dst, those of the first release first. Errors: seal.ErrSize, seal.ErrOpen, ErrRange, and those of channel.Verifier.
// No error says what is in the envelope.
func (o *Opener) Open(dst []uint32, envelope []byte) (entries []uint32, by channel.Present, err error) {
	length := o.width * len(o.most)
	if len(envelope) != seal.EnvelopeOverhead+length+channel.ProofSize {
		return dst, by, fmt.Errorf("%w: an envelope of %d bytes, must have %d",
			seal.ErrSize, len(envelope), seal.EnvelopeOverhead+length+channel.ProofSize)
	}
	content, err := o.opener.Open(envelope, nil)
	if err != nil {
		return dst, by, err
	}
	defer clear(content)
	entries = dst
	for i, most := range o.most {
		var entry uint64 // of 4 bytes at most
		for _, digit := range content[i*o.width : (i+1)*o.width] {
			entry = entry<<8 | uint64(digit)
		}
		if entry > uint64(most) {
			clear(entries[len(dst):])
			return dst, by, fmt.Errorf("%w: entry %d", ErrRange, i)
		}
		entries = append(entries, uint32(entry))
	}
	if by, err = o.verifier.Check(content[length:], o.epoch, o.digest, content[:length]); err != nil {
		clear(entries[len(dst):])
		return dst, channel.Present{}, err
	}
	return entries, by, nil
}

// Absent appends the entries of an envelope that is not counted, so that a sum over all envelopes needs no other mean
// than that of their number: those of the null record, zero vectors, with the mean of the device's noise, rounded.
//
// A malformed envelope must not count as zeros. A zero would lack the mean of the noise, which in the channel local is
// thousands of levels, and so move a sum by several standard deviations; the null record moves it by less than one
// level.
func Absent(dst []uint32, encodings []protocol.Encoding) []uint32 {
	for _, e := range encodings {
		noise := (uint64(e.NoiseBits)*uint64(e.Bias) + 1<<31) >> 32
		for _, c := range e.Coordinates {
			level := min(max(-c.Offset*e.Scale, 0), float64(c.Levels))
			dst = append(dst, uint32(uint64(level+0.5)+noise))
		}
	}
	return dst
}

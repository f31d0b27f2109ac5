package channel

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Outline is what a worker must know of an announced round to open, verify or prepare what belongs to it, and no more:
// no policy, no budget, no noise of a server. It travels inside tasks, as JSON.
type Outline struct {
	Channel      plan.Channel `json:"channel"`
	Epoch        uint64       `json:"epoch"`
	Round        uint32       `json:"round"`
	Announcement []byte       `json:"announcement"` // digest, 32 bytes
	Key          []byte       `json:"key"`          // public half of the analyzer's HPKE key
	Releases     []Levels     `json:"releases"`
}

// Levels are the entries of one release: of coordinate j, an entry is at most Levels[j] + NoiseBits.
type Levels struct {
	Levels    []uint32 `json:"levels"`
	NoiseBits uint32   `json:"noise_bits"`
}

// maxRounds bounds the number of a round in an outline, far above any plan's.
const maxRounds = 1 << 16

// ErrOutline says that a task's outline is no round of the task's channel: lead and worker are of different versions.
var ErrOutline = errors.New("channel: the outline of a round is malformed: run lead and workers of one version")

// NewOutline is the outline of an announced round; digest is the announcement's.
func NewOutline(a *plan.Announcement, digest [32]byte) Outline {
	o := Outline{
		Channel: a.Plan.Channel, Epoch: a.Epoch, Round: a.Round, Announcement: digest[:], Key: a.AnalyzerKey,
	}
	for _, e := range a.Encodings {
		of := Levels{NoiseBits: uint32(e.NoiseBits)}
		for _, c := range e.Coordinates {
			of.Levels = append(of.Levels, uint32(c.Levels))
		}
		o.Releases = append(o.Releases, of)
	}
	return o
}

// Announced is an announcement of which only what the outline holds is known. The error wraps ErrOutline.
func (o Outline) Announced() (a *plan.Announcement, digest [32]byte, err error) {
	if len(o.Announcement) != len(digest) || len(o.Releases) == 0 || o.Round >= maxRounds {
		return nil, digest, ErrOutline
	}
	a = &plan.Announcement{Epoch: o.Epoch, Round: o.Round, AnalyzerKey: o.Key}
	a.Plan.Channel, a.Plan.Rounds = o.Channel, make([]plan.Round, o.Round+1)
	a.Plan.Rounds[o.Round].Releases = make([]plan.Release, len(o.Releases))
	for _, of := range o.Releases {
		e := protocol.Encoding{NoiseBits: of.NoiseBits}
		for _, levels := range of.Levels {
			e.Coordinates = append(e.Coordinates, protocol.Coordinate{Levels: levels})
		}
		a.Encodings = append(a.Encodings, e)
	}
	return a, [32]byte(o.Announcement), nil
}

// Open is the round that the outline is of, for a process that holds the analyzer's HPKE keys. The error wraps
// ErrOutline, or says that the round's key is not among them.
func (o Outline) Open(keys []*seal.HPKEKey) (*Round, error) {
	a, digest, err := o.Announced()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if bytes.Equal(key.Public(), o.Key) {
			return &Round{Announcement: a, Digest: digest, Key: key}, nil
		}
	}
	return nil, fmt.Errorf("channel: this worker does not hold the HPKE key of epoch %d, which begins with %.6x: "+
		"give it the analyzer's newest folder of keys and start it again", o.Epoch, o.Key)
}

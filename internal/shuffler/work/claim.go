package work

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Question is the kind of question by which workers ask about reports.
const Question = "claims"

// Claim is what a worker says to the lead of one report: what it found in it, why it refuses it, or that it does not
// know what the round's reports look like.
type Claim struct {
	Epoch             uint64
	Round             uint32
	Sequence          uint64
	Redelivered       bool
	Unopened          bool         // the worker does not know the round
	Refused           wire.Refusal // why the worker refuses it; NoRefusal: not at all
	Device            cohort.DeviceID
	Slot              uint32
	Announced, Digest cohort.Digest
}

// ClaimSize is how many bytes a claim takes, whatever it says.
const ClaimSize = 8 + 4 + 8 + 1 + 4 + 32 + 4 + 4 + 32 + 32

// flagsAt is where the flags of a claim are.
const flagsAt = 8 + 4 + 8

const (
	flagRedelivered = 1 << iota
	flagUnopened
)

// Append appends the claim as it travels.
func (c *Claim) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, c.Epoch)
	b = binary.BigEndian.AppendUint32(b, c.Round)
	b = binary.BigEndian.AppendUint64(b, c.Sequence)
	var flags byte
	if c.Redelivered {
		flags |= flagRedelivered
	}
	if c.Unopened {
		flags |= flagUnopened
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(c.Refused))
	b = append(b, c.Device.Host[:]...)
	b = binary.BigEndian.AppendUint32(b, c.Device.Number)
	b = binary.BigEndian.AppendUint32(b, c.Slot)
	b = append(b, c.Announced[:]...)
	return append(b, c.Digest[:]...)
}

// Batch is what a worker asks about these claims.
func Batch(id BatchID, all []Claim) []byte {
	body := id[:]
	for i := range all {
		body = all[i].Append(body)
	}
	return body
}

// ReadBatch reads a batch. The error is errClaims.
func ReadBatch(body []byte) (id BatchID, all []Claim, err error) {
	n := (len(body) - len(id)) / ClaimSize
	if len(body) < len(id) || len(body) != len(id)+n*ClaimSize || n > MaxBatch {
		return id, nil, errClaims
	}
	copy(id[:], body)
	all = make([]Claim, n)
	for i := range all {
		b := body[len(id)+i*ClaimSize:]
		if b[flagsAt]&^(flagRedelivered|flagUnopened) != 0 {
			return id, nil, errClaims
		}
		all[i] = readClaim(b)
	}
	return id, all, nil
}

// readClaim reads a claim of ClaimSize bytes.
func readClaim(b []byte) (c Claim) {
	c.Epoch, c.Round, c.Sequence = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]),
		binary.BigEndian.Uint64(b[12:])
	c.Redelivered, c.Unopened = b[flagsAt]&flagRedelivered != 0, b[flagsAt]&flagUnopened != 0
	c.Refused = wire.Refusal(binary.BigEndian.Uint32(b[21:]))
	copy(c.Device.Host[:], b[25:])
	c.Device.Number, c.Slot = binary.BigEndian.Uint32(b[57:]), binary.BigEndian.Uint32(b[61:])
	copy(c.Announced[:], b[65:])
	copy(c.Digest[:], b[97:])
	return c
}

// BatchID names a batch of claims, so that it is accounted for once however often it is asked.
type BatchID [16]byte

// MaxBatch is how many claims travel together. The lead decides on them under one lock, and waits once for its journal.
const MaxBatch = 1024

// What becomes of a delivered report.
const (
	Settled   = iota // admitted, or refused: it is acknowledged
	Postponed        // its round is not announced here yet: it comes again
	Open             // it is to be opened, with the layout in the answer
)

// Answer is the lead's answer to a batch. It is given once the decisions are durable.
type Answer struct {
	Verdicts []byte         `json:"verdicts"` // in the order of the claims
	Rounds   []cohort.Known `json:"rounds"`   // that are open, or were in this epoch
}

var errClaims = errors.New("claims that cannot be read: lead and workers are of different versions")

const (
	// laterPause is how long a report waits whose round was announced to its device before it was announced here.
	laterPause = 200 * time.Millisecond
	// laterAgainPause is how long it waits every further time: a sender of many that wait must not keep the broker
	// busy.
	laterAgainPause = time.Second
)

// Later is how long a report waits that is to come again.
func Later(redelivered bool) time.Duration {
	if redelivered {
		return laterAgainPause
	}
	return laterPause
}

package shuffler

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/worker"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// claimsQuestion is the kind of question by which workers ask about reports.
const claimsQuestion = "claims"

// claim is what a worker says to the lead of one report: what it found in it, why it refuses it, or that it does not
// know what the round's reports look like.
type claim struct {
	epoch             uint64
	round             uint32
	sequence          uint64
	redelivered       bool
	unopened          bool         // the worker does not know the round
	refused           wire.Refusal // why the worker refuses it; NoRefusal: not at all
	device            cohort.DeviceID
	slot              uint32
	announced, digest cohort.Digest
}

// claimSize is how many bytes a claim takes, whatever it says.
const claimSize = 8 + 4 + 8 + 1 + 4 + 32 + 4 + 4 + 32 + 32

// flagsAt is where the flags of a claim stand.
const flagsAt = 8 + 4 + 8

const (
	flagRedelivered = 1 << iota
	flagUnopened
)

func (c *claim) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, c.epoch)
	b = binary.BigEndian.AppendUint32(b, c.round)
	b = binary.BigEndian.AppendUint64(b, c.sequence)
	var flags byte
	if c.redelivered {
		flags |= flagRedelivered
	}
	if c.unopened {
		flags |= flagUnopened
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(c.refused))
	b = append(b, c.device.Host[:]...)
	b = binary.BigEndian.AppendUint32(b, c.device.Number)
	b = binary.BigEndian.AppendUint32(b, c.slot)
	b = append(b, c.announced[:]...)
	return append(b, c.digest[:]...)
}

// readClaims reads a batch. The error is errClaims.
func readClaims(body []byte) (id batchID, all []claim, err error) {
	n := (len(body) - len(id)) / claimSize
	if len(body) < len(id) || len(body) != len(id)+n*claimSize || n > maxBatch {
		return id, nil, errClaims
	}
	copy(id[:], body)
	all = make([]claim, n)
	for i := range all {
		b := body[len(id)+i*claimSize:]
		if b[flagsAt]&^(flagRedelivered|flagUnopened) != 0 {
			return id, nil, errClaims
		}
		all[i] = readClaim(b)
	}
	return id, all, nil
}

// readClaim reads a claim of claimSize bytes.
func readClaim(b []byte) (c claim) {
	c.epoch, c.round, c.sequence = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]),
		binary.BigEndian.Uint64(b[12:])
	c.redelivered, c.unopened = b[flagsAt]&flagRedelivered != 0, b[flagsAt]&flagUnopened != 0
	c.refused = wire.Refusal(binary.BigEndian.Uint32(b[21:]))
	copy(c.device.Host[:], b[25:])
	c.device.Number, c.slot = binary.BigEndian.Uint32(b[57:]), binary.BigEndian.Uint32(b[61:])
	copy(c.announced[:], b[65:])
	copy(c.digest[:], b[97:])
	return c
}

// batchID names a batch of claims, so that it is accounted for once however often it is asked.
type batchID [16]byte

// maxBatch is how many claims travel together. The lead decides on them under one lock, and waits once for its journal.
const maxBatch = 1024

// What becomes of a delivered report.
const (
	verdictSettled = iota // admitted, or refused: it is acknowledged
	verdictLater          // its round is not announced here yet: it comes again
	verdictOpen           // it is to be opened, with the layout in the answer
)

// answer is the lead's answer to a batch. It is given once the decisions are durable.
type answer struct {
	Verdicts []byte         `json:"verdicts"` // in the order of the claims
	Rounds   []cohort.Known `json:"rounds"`   // that are open, or were in this epoch
}

// rounds are those that a worker knows.
type rounds struct {
	mu    sync.Mutex
	known []cohort.Known
}

func (r *rounds) learn(known []cohort.Known) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = known
}

// layout is that of a round's reports; the zero layout if the round is not known.
func (r *rounds) layout(epoch uint64, round uint32) channel.Layout {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.known {
		if k.Epoch == epoch && k.Round == round {
			return k.Layout
		}
	}
	return channel.Layout{}
}

// counter is where workers' claims are answered.
type counter struct {
	failed chan error // an error after which the shuffler must stop

	mu       sync.Mutex
	answered map[batchID]*answered
	order    []batchID
}

// answered is a batch that was asked about.
type answered struct {
	done  chan struct{} // closed when there is an answer
	reply []byte        // nil where there was none
}

// remembered is how many batches are known again. A worker has few under way, and repeats one within moments.
const remembered = 4096

func newCounter() *counter {
	return &counter{failed: make(chan error, 1), answered: map[batchID]*answered{}}
}

// begin tells whether a batch is new, and else returns what was answered, or is being answered now.
func (k *counter) begin(id batchID) (a *answered, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.answered[id]; a != nil {
		return a, false
	}
	a = &answered{done: make(chan struct{})}
	k.answered[id] = a
	if k.order = append(k.order, id); len(k.order) > remembered {
		delete(k.answered, k.order[0])
		k.order = k.order[1:]
	}
	return a, true
}

var errClaims = errors.New("claims that cannot be read: lead and workers are of different versions")

// Answers are the answers to what workers ask. They wait until reports may be decided on.
func (s *Shuffler) Answers() worker.Handlers { return worker.Handlers{claimsQuestion: s.claims} }

// claims decides on a batch of reports that a worker has opened, as take does on one. It answers when all decisions are
// durable, and counts a batch once.
func (s *Shuffler) claims(ctx context.Context, body []byte) ([]byte, error) {
	id, all, err := readClaims(body)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.begun:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	a, fresh := s.counter.begin(id)
	if !fresh {
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if a.reply == nil {
			return nil, errors.New("the shuffler could not decide on these reports")
		}
		return a.reply, nil
	}
	defer close(a.done)
	reply, err := s.decideAll(all)
	if err != nil {
		select {
		case s.counter.failed <- err:
		default: // it stops already
		}
		return nil, err
	}
	if a.reply, err = json.Marshal(reply); err != nil {
		return nil, fmt.Errorf("shuffler: %w", err)
	}
	return a.reply, nil
}

// decideAll makes the decisions on a batch, under one lock and with one wait for the journal, and accounts for them.
// Its error is fatal.
func (s *Shuffler) decideAll(all []claim) (*answer, error) {
	reply := &answer{Verdicts: make([]byte, len(all))}
	defer s.c.Steps.Since(stepAdmission, s.c.Clock.Now())
	refusals := map[int]error{}
	later, reports, messages := 0, 0, 0
	s.mu.Lock()
	for i := range all {
		c := &all[i]
		layout, ahead := s.state.Expects(c.epoch, c.round)
		var ev *cohort.Event
		var err error
		switch known := layout != (channel.Layout{}); {
		case ahead:
			reply.Verdicts[i] = verdictLater
			later++
		case c.epoch == 0:
			err = cohort.Refuse(wire.RefusalMalformed, "the report names no round")
		case s.state.Past(c.epoch):
			err = cohort.Refuse(wire.RefusalLate, "epoch %d is over", c.epoch)
		case c.refused != wire.NoRefusal:
			err = cohort.Refuse(c.refused, "a worker refused it")
		case c.unopened && known:
			reply.Verdicts[i] = verdictOpen
		case c.unopened:
			err = cohort.Refuse(wire.RefusalWrongEpoch, "round %d of epoch %d is not open", c.round, c.epoch)
		default:
			var id cohort.DeviceID
			if id, err = s.known(c.device); err != nil {
				break
			}
			ev, err = s.state.Admit(id, c.epoch, c.round, c.slot, c.announced, c.digest, c.sequence)
			s.strangers.Note(s.state, id, c.epoch, c.round, c.sequence, err)
		}
		if err != nil {
			refusals[i] = err
		}
		if ev == nil {
			continue
		}
		if err := s.apply(ev); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		reports++
		messages += layout.Messages
	}
	reply.Rounds = s.state.Rounds()
	latest := s.latest
	s.mu.Unlock()
	if latest != nil {
		if err := latest(); err != nil {
			return nil, fatal(err)
		}
	}
	for i, err := range refusals {
		c := &all[i]
		var refused *cohort.Refused
		errors.As(err, &refused)
		s.c.Reports.Received(1)
		s.c.Reports.Refused(err, 1)
		d := &bus.Delivery{Epoch: c.epoch, Round: c.round, Redelivered: c.redelivered}
		s.refusedAsItCame(d, refused.Reason)
	}
	for range later {
		s.c.Reports.Retried(Ahead)
	}
	s.c.Reports.Received(reports)
	s.c.Messages.Received(messages)
	if reports > 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return reply, nil
}

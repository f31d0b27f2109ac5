package randomizer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// session is one sampled decision until its last report has left. Its record exists here and nowhere else.
type session struct {
	token  string
	seat   *seat
	epoch  uint64
	slot   uint32
	number uint32
	rounds int // planned

	maxReward float64 // that the policy's family allows

	// Guarded by the seat's lock.
	record   glm.Record
	rewarded bool
	expires  time.Time
	reported int
	owed     bool // a report is promised and not sealed yet
	over     bool
}

// promise makes the enrolment durable and enters the report into the timetable. From here on there will be a report at that time.
func (h *Host) promise(a *announced, seat *seat, reply *wire.EnrolReply) (*session, error) {
	seat.mu.Lock()
	defer seat.mu.Unlock()
	d := seat.device
	var err error
	if d.Ledger, err = d.Ledger.Promise(a.Epoch); err != nil {
		return nil, fmt.Errorf("randomizer: the ledger changed while the shuffler was asked: %w", err)
	}
	d.Enrolment = &enrolment{Epoch: a.Epoch, Slot: reply.Slot, ReportAt: time.Now().Add(reply.ReportAfter)}
	if err := h.store.put(d); err != nil {
		return nil, fmt.Errorf("randomizer: the enrolment cannot be kept: %w", err)
	}
	seat.device = d
	s := h.begin(seat, a)
	h.c.Reports.Received(1)
	h.owe(job{s.expires, s, a})
	h.mu.Lock()
	rolledBack := h.rolledBack != nil
	h.mu.Unlock()
	if rolledBack { // proved while this was made durable
		h.drop(s, StateRolledBack)
	}
	return s, nil
}

// owe enters a report into the timetable. The seat's lock is held, or the host does not run yet.
func (h *Host) owe(j job) {
	j.session.owed = true
	h.mu.Lock()
	h.pending++
	h.mu.Unlock()
	h.timetable.enter(j)
}

// begin opens the session of a device's enrolment, with the null record until a reward comes. The seat's lock is held, or the host
// does not run yet.
func (h *Host) begin(seat *seat, a *announced) *session {
	e := seat.device.Enrolment
	s := &session{
		token: newToken(), seat: seat, epoch: e.Epoch, slot: e.Slot, number: seat.device.Number, rounds: len(a.Plan.Rounds),
		maxReward: a.Policy.MaxReward, record: glm.Record{Null: true}, expires: e.ReportAt, reported: e.Reported,
	}
	h.mu.Lock()
	h.sessions[s.token], h.open[s.number] = s, s
	h.mu.Unlock()
	return s
}

// remember keeps what was decided until the report is due. A report that was sealed meanwhile needs it no more.
func (s *session) remember(arm []float64, weight float64) {
	s.seat.mu.Lock()
	defer s.seat.mu.Unlock()
	if s.over || s.reported > 0 {
		return
	}
	s.record.Arm, s.record.Weight = slices.Clone(arm), weight
}

// end closes a session: what is left of its record is wiped.
func (h *Host) end(s *session) {
	clear(s.record.Arm)
	s.record, s.over = glm.Record{Null: true}, true
	h.mu.Lock()
	delete(h.sessions, s.token)
	if h.open[s.number] == s {
		delete(h.open, s.number)
	}
	h.mu.Unlock()
}

// recall opens sessions for what an earlier process promised in the epoch in force: their records are gone, so they are null.
func (h *Host) recall() {
	h.mu.Lock()
	a, rolledBack := h.current, h.rolledBack != nil
	h.mu.Unlock()
	if a == nil || a.Final || rolledBack {
		return
	}
	for _, seat := range h.seats() {
		e := seat.device.Enrolment
		if e == nil || e.Epoch != a.Epoch || e.Reported >= len(a.Plan.Rounds) || e.Reported < int(a.Round) {
			continue
		}
		s := h.begin(seat, a)
		if e.Reported > 0 {
			continue // a later round will tell
		}
		h.c.Reports.Resumed(1)
		h.owe(job{s.expires, s, a})
		if a.weak != nil { // the host's limits are stricter than they were: it keeps to them
			h.drop(s, BadPlan)
		}
	}
}

// resume takes the announcement in force to the open sessions: those of earlier epochs are over, those of a later round of this one
// report again, each at a public time of its own.
func (h *Host) resume() {
	h.mu.Lock()
	a, sessions := h.current, slices.Collect(maps.Values(h.open))
	h.mu.Unlock()
	if a == nil {
		return
	}
	for _, s := range sessions {
		s.seat.mu.Lock()
		switch {
		case s.over:
		case s.epoch != a.Epoch:
			h.drop(s, EpochOver)
		case a.Round > 0 && a.weak != nil:
			h.drop(s, BadPlan)
		case a.Round > 0 && s.reported == int(a.Round) && !s.owed:
			h.c.Reports.Received(1)
			h.owe(job{time.Now().Add(jitter(a, s.slot)), s, a})
		}
		s.seat.mu.Unlock()
	}
}

// drop ends a session whose next report, if it owes one, will not be sent.
func (h *Host) drop(s *session, why outcome.Reason) {
	h.end(s)
	if !s.owed {
		return
	}
	s.owed = false
	h.mu.Lock()
	h.pending--
	h.mu.Unlock()
	h.c.Reports.Refused(why, 1)
}

// jitter spreads the reports of a later round over its window by public randomness, as enrolment does for the first.
func jitter(a *announced, slot uint32) time.Duration {
	spread := uint64(min(a.Timing.Jitter, a.Timing.RoundWindow) / time.Millisecond)
	d := sha256.Sum256(binary.BigEndian.AppendUint32(slices.Clone(a.digest[:]), slot))
	return time.Duration(binary.BigEndian.Uint64(d[:8])%(spread+1)) * time.Millisecond
}

// sealDue seals reports as they fall due, with a source of its own.
func (h *Host) sealDue(ctx context.Context, due <-chan job) error {
	src := h.c.Source()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case j := <-due:
			o, ok, err := h.sealOne(j, src)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case h.outbox <- o:
			}
		}
	}
}

// sealOne makes the report of a job and makes it durable together with what it costs. The work is the same for every record.
func (h *Host) sealOne(j job, src protocol.Source) (o outgoing, ok bool, err error) {
	defer h.c.Steps.Since(stepSealing, time.Now())
	s := j.session
	s.seat.mu.Lock()
	defer s.seat.mu.Unlock()
	if s.over || s.reported != int(j.under.Round) {
		return o, false, nil
	}
	h.mu.Lock()
	shuffler := h.shuffler
	h.mu.Unlock()
	if shuffler == nil { // enrolled by an earlier process, and the shuffler's key is not here yet
		j.at = time.Now().Add(100 * time.Millisecond)
		h.timetable.enter(j)
		return o, false, nil
	}
	bits, err := sealBits(j.under, s.record, src)
	if err != nil {
		return o, false, err
	}
	report, err := wire.BuildReport(wire.Report{
		Announcement: j.under.digest, Epoch: s.epoch, Round: j.under.Round, Slot: s.slot, Device: s.number, Bits: bits,
	}, h.c.Identity)
	if err != nil {
		return o, false, err
	}
	o = outgoing{epoch: s.epoch, round: j.under.Round, number: s.number}
	o.envelope, err = wire.SealReport(report, shuffler, seal.ReportContext{Deployment: h.c.Deployment, Epoch: s.epoch, Round: j.under.Round})
	if err != nil {
		return o, false, err
	}
	d := s.seat.device
	if d.Ledger, err = d.Ledger.Spend(s.epoch); err != nil {
		return o, false, fmt.Errorf("randomizer: a report without a reservation: %w", err)
	}
	e := *d.Enrolment
	e.Reported++
	d.Enrolment = &e
	if err := h.store.seal(d, o); err != nil {
		return o, false, fmt.Errorf("randomizer: the report cannot be kept: %w", err)
	}
	s.seat.device = d
	s.reported, s.owed = s.reported+1, false
	h.mu.Lock()
	delete(h.sessions, s.token) // the reward window is over
	h.mu.Unlock()
	if s.reported == s.rounds {
		h.end(s)
	}
	return o, true, nil
}

// sealBits encodes a record for all releases of the announced round and encrypts every bit on its own. A record that a statistic
// refuses is reported as null, so that there are always the same messages.
func sealBits(a *announced, record glm.Record, src protocol.Source) ([]byte, error) {
	vectors := make([][]float64, len(a.round.Statistics))
	for i, s := range a.round.Statistics {
		v, err := s.Vector(nil, record)
		if err != nil {
			record = glm.Record{Null: true}
			for k := range i + 1 {
				if vectors[k], err = a.round.Statistics[k].Vector(nil, record); err != nil {
					return nil, fmt.Errorf("randomizer: the null record: %w", err)
				}
			}
			continue
		}
		vectors[i] = v
	}
	sealed := make([]byte, 0, a.round.Messages*seal.BitSize)
	var ones []uint32
	var bits []protocol.Bit
	for i, e := range a.round.Encodings {
		var err error
		if ones, err = e.Encode(ones, vectors[i], src); err != nil {
			return nil, fmt.Errorf("randomizer: encoding: %w", err)
		}
		if bits, err = e.AppendBits(bits[:0], ones); err != nil {
			return nil, fmt.Errorf("randomizer: encoding: %w", err)
		}
		for _, b := range bits {
			if sealed, err = a.sealer.AppendSeal(sealed, uint8(i), uint16(b.Coordinate), b.One); err != nil {
				return nil, fmt.Errorf("randomizer: sealing: %w", err)
			}
		}
	}
	if len(sealed) != a.round.Messages*seal.BitSize {
		return nil, fmt.Errorf("randomizer: a report of %d bit messages instead of %d", len(sealed)/seal.BitSize, a.round.Messages)
	}
	return sealed, nil
}

// resend hands in what an earlier process sealed: the same bytes.
func (h *Host) resend(ctx context.Context) error {
	for _, o := range h.unsent {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case h.outbox <- o:
		}
	}
	return nil
}

// send hands sealed reports to the broker until it has them.
func (h *Host) send(ctx context.Context) error {
	for {
		var o outgoing
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o = <-h.outbox:
		}
		h.mu.Lock()
		rolledBack := h.rolledBack != nil
		h.mu.Unlock()
		if rolledBack {
			if err := h.withhold(o); err != nil {
				return err
			}
			continue
		}
		err := h.handIn(ctx, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := h.store.sent(o); err != nil {
			return fmt.Errorf("randomizer: outbox: %w", err)
		}
		h.mu.Lock()
		h.pending--
		h.mu.Unlock()
		if err != nil {
			why := Unsendable
			if errors.Is(err, bus.ErrFull) {
				why = EpochOver
			}
			h.c.Reports.Refused(why, 1)
			h.c.Log.Error().Err(err).Str(outcome.Field, string(why)).Uint64("epoch", o.epoch).Uint32("round", o.round).Msg("report given up")
			continue
		}
		h.c.Reports.Released(1)
	}
}

// A report for which the broker has no room is handed in again after pauses that grow from the first to the last of these.
const (
	firstRoomPause = 100 * time.Millisecond
	lastRoomPause  = 2 * time.Second
)

// handIn has the broker store a report. Where it has no room it is asked again, until the report's round is over.
func (h *Host) handIn(ctx context.Context, o outgoing) error {
	digest := sha256.Sum256(o.envelope)
	for pause := firstRoomPause; ; pause = min(2*pause, lastRoomPause) {
		over := h.past(o)
		err := h.c.Bus.PublishReport(ctx, o.epoch, o.round, hex.EncodeToString(digest[:16]), o.envelope)
		if !errors.Is(err, bus.ErrFull) || over {
			return err
		}
		why := h.c.Reports.Retried(NoRoom)
		if pause == firstRoomPause {
			h.c.Log.Warn().Err(err).Str(outcome.Field, string(why)).Uint64("epoch", o.epoch).Uint32("round", o.round).Msg("report waits for room at the broker")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// past tells whether a report's round is over: nobody would admit it any more.
func (h *Host) past(o outgoing) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.current
	return a != nil && (a.Epoch > o.epoch || a.Epoch == o.epoch && a.Round > o.round)
}

// withhold forgets a sealed report of a host whose state is old: its person may have reported before.
func (h *Host) withhold(o outgoing) error {
	if err := h.store.sent(o); err != nil {
		return fmt.Errorf("randomizer: outbox: %w", err)
	}
	h.mu.Lock()
	h.pending--
	h.mu.Unlock()
	h.c.Reports.Refused(StateRolledBack, 1)
	return nil
}

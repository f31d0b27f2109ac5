package randomizer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// session is one promise to report until the last report has left. Its record exists here and nowhere else.
type session struct {
	token  string // of the one decision that it is about; empty where panels are drawn
	seat   *seat
	epoch  uint64
	slot   uint32
	number uint32
	due    time.Time // of the first report: the end of the reward window

	// Guarded by the seat's lock.
	record device.Record
	owed   bool     // a report is promised and not sealed yet
	tokens []string // of its decisions
}

// told is what a token names: a decision of a session.
type told struct {
	session  *session
	decision int
}

// tell enters the token of a session's decision. The seat's lock is held, or the host does not run yet.
func (h *Host) tell(s *session, token string, decision int) {
	s.tokens = append(s.tokens, token)
	h.mu.Lock()
	h.sessions[token] = told{s, decision}
	h.mu.Unlock()
}

// untell forgets the tokens of a session: the reward window is over. The host's lock is held, and the seat's.
func (h *Host) untell(s *session) {
	for _, t := range s.tokens {
		delete(h.sessions, t)
	}
	s.tokens = nil
}

// promise makes the enrolment durable and enters the report into the timetable. From here on there will be a report at
// that time.
func (h *Host) promise(a *device.Announced, seat *seat, reply *wire.EnrolReply) (*session, error) {
	seat.mu.Lock()
	defer seat.mu.Unlock()
	next, err := seat.state.Promise(a, reply, h.c.Clock.Now())
	if err != nil {
		return nil, fmt.Errorf("randomizer: %w", err)
	}
	if err := h.keep(seat, next); err != nil {
		return nil, fmt.Errorf("randomizer: the enrolment cannot be kept: %w", err)
	}
	if a.Panels() { // once the session is over
		seat.why = because(WindowOver, "the report of epoch %d has left", a.Epoch)
	}
	s := h.begin(seat, a)
	h.c.Reports.Received(1)
	h.owe(job{s.due, s, a})
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

// begin opens the session of a device's enrolment, with the null record until a reward comes. The seat's lock is held,
// or the host does not run yet.
func (h *Host) begin(seat *seat, a *device.Announced) *session {
	e := seat.state.Enrolment
	s := &session{
		seat: seat, epoch: e.Epoch, slot: e.Slot, number: seat.state.Number, due: e.ReportAt,
		record: seat.state.Begin(a),
	}
	h.mu.Lock()
	h.open[s.number] = s
	h.mu.Unlock()
	if !a.Panels() { // where the decision is one for sure, and its token is told before it is made
		s.token = newToken()
		h.tell(s, s.token, 0)
	}
	return s
}

// end closes a session: what is left of its record is wiped.
func (h *Host) end(s *session) {
	s.record.Wipe()
	h.mu.Lock()
	h.untell(s)
	if h.open[s.number] == s {
		delete(h.open, s.number)
	}
	h.mu.Unlock()
}

// recall opens sessions for what an earlier process promised in the epoch in force: their records are gone, so they are
// null.
func (h *Host) recall() {
	h.mu.Lock()
	a, rolledBack := h.current, h.rolledBack != nil
	h.mu.Unlock()
	if a == nil || rolledBack {
		return
	}
	for _, seat := range h.seats() {
		if !seat.state.Owes(a) {
			continue
		}
		h.joined(a)
		s := h.begin(seat, a)
		if s.record.Reported() > 0 {
			continue // a later round will tell
		}
		h.c.Reports.Resumed(1)
		h.owe(job{s.due, s, a})
		if a.Weak != nil { // the host's limits are stricter than they were: it keeps to them
			h.drop(s, BadPlan)
		}
	}
}

// resume takes the announcement in force to the open sessions: those of earlier epochs are over, those of a later round
// of this one report again, each at a public time of its own.
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
		case s.record.Over():
		case s.epoch != a.Epoch:
			h.drop(s, EpochOver)
		case a.Round > 0 && a.Weak != nil:
			h.drop(s, BadPlan)
		case a.Round > 0 && s.record.Reported() == int(a.Round) && !s.owed:
			h.c.Reports.Received(1)
			h.owe(job{h.c.Clock.Now().Add(a.Jitter(s.slot)), s, a})
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

// sealersPerCore is how many reports are in the making at a time for each core. Few of them are computed, and the
// others wait for the disk, which takes all that wait in one write. In a channel whose reports take less time than a
// write, the cores would else wait for the disk.
const sealersPerCore = 32

// bench is where reports are computed: one place for each core, with a random source of its own.
type bench chan protocol.Source

func newBench(cores int, source func() protocol.Source) bench {
	b := make(bench, cores)
	for range cores {
		b <- source()
	}
	return b
}

// sealDue seals reports as they fall due.
func (h *Host) sealDue(ctx context.Context, due <-chan job, at bench) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case j := <-due:
			o, ok, err := h.sealOne(j, at)
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

// sealOne makes the report of a job and makes it durable together with what it costs. The work is the same for every
// record.
func (h *Host) sealOne(j job, at bench) (o store.Outgoing, ok bool, err error) {
	s := j.session
	s.seat.mu.Lock()
	defer s.seat.mu.Unlock()
	if s.record.Over() || s.record.Reported() != int(j.under.Round) {
		return o, false, nil
	}
	h.mu.Lock()
	shuffler := h.shuffler
	h.mu.Unlock()
	if shuffler == nil { // enrolled by an earlier process, and the shuffler's key is not here yet
		j.at = h.c.Clock.Now().Add(100 * time.Millisecond)
		h.timetable.enter(j)
		return o, false, nil
	}
	src := <-at
	envelope, next, err := h.core.Report(s.seat.state, s.record, j.under, shuffler, src)
	at <- src
	if err != nil {
		return o, false, fmt.Errorf("randomizer: %w", err)
	}
	o = store.Outgoing{Epoch: s.epoch, Round: j.under.Round, Number: s.number, Envelope: envelope}
	if err := h.store.Seal(store.Device{Name: s.seat.name, State: next}, o); err != nil {
		return o, false, fmt.Errorf("randomizer: the report cannot be kept: %w", err)
	}
	s.seat.state, s.owed = next, false
	s.record.Made()
	h.mu.Lock()
	h.untell(s)
	h.mu.Unlock()
	if s.record.Over() {
		h.end(s)
	}
	return o, true, nil
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
		var o store.Outgoing
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o = <-h.outbox:
		}
		h.mu.Lock()
		rolledBack := h.rolledBack != nil
		h.mu.Unlock()
		if rolledBack { // the person may have reported before
			if err := h.forget(o); err != nil {
				return err
			}
			h.c.Reports.Refused(StateRolledBack, 1)
			continue
		}
		err := h.handIn(ctx, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := h.forget(o); err != nil {
			return err
		}
		if err != nil {
			why := Unsendable
			if errors.Is(err, bus.ErrFull) {
				why = EpochOver
			}
			h.c.Reports.Refused(why, 1)
			about(h.c.Log.Error(), err, why, o.Epoch, o.Round).Msg("report given up")
			continue
		}
		h.c.Reports.Released(1)
	}
}

// A report for which the broker has no room is handed in again after pauses that grow from the first to the last of
// these.
const (
	firstRoomPause = 100 * time.Millisecond
	lastRoomPause  = 2 * time.Second
)

// handIn has the broker store a report. Where it has no room it is asked again, until the report's round is over.
func (h *Host) handIn(ctx context.Context, o store.Outgoing) error {
	digest := sha256.Sum256(o.Envelope)
	for pause := firstRoomPause; ; pause = min(2*pause, lastRoomPause) {
		over := h.past(o)
		err := h.c.Bus.PublishReport(ctx, o.Epoch, o.Round, hex.EncodeToString(digest[:16]), o.Envelope)
		if !errors.Is(err, bus.ErrFull) || over {
			return err
		}
		why := h.c.Reports.Retried(NoRoom)
		if pause == firstRoomPause {
			about(h.c.Log.Warn(), err, why, o.Epoch, o.Round).Msg("report waits for room at the broker")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.c.Clock.After(pause):
		}
	}
}

// past reports whether a report's round is over: the shuffler would not admit it any more.
func (h *Host) past(o store.Outgoing) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.current
	return a != nil && (a.Epoch > o.Epoch || a.Epoch == o.Epoch && a.Round > o.Round)
}

// forget takes a sealed report out of the outbox: the broker has it, or it will not be sent.
func (h *Host) forget(o store.Outgoing) error {
	if err := h.store.Sent(o); err != nil {
		return fmt.Errorf("randomizer: outbox: %w", err)
	}
	h.mu.Lock()
	h.pending--
	h.mu.Unlock()
	return nil
}

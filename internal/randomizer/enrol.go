package randomizer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A slot that was given and that stays empty can destroy a cohort. So a device's wish for a slot is durable before
// the shuffler hears of it, and once the shuffler may have heard of it the host asks on until it knows the answer, for
// as long as the epoch is in force, over restarts too. Only the decision that began it stops waiting earlier: its
// device then reports the null record.

const (
	// tryTime is how long one try waits for its answer while a decision waits for it; otherwise the broker connection's
	// own limit holds.
	tryTime = 2 * time.Second
	// askAgain is the wait before a shuffler that is in another epoch is asked again while a decision waits.
	askAgain = 100 * time.Millisecond
	// firstPause and longestPause bound the wait after a try that brought no answer; it doubles.
	firstPause, longestPause = 50 * time.Millisecond, 5 * time.Second
	// maxPatient bounds how many questions about panels are put at a time.
	maxPatient = 32
)

// question is a device's wish for a slot in one cohort, from when it is durable until the shuffler's answer is.
type question struct {
	a      *device.Announced
	seat   *seat
	number uint32    // the device's
	until  time.Time // when the decision that began it stops waiting; zero where none did
	found  bool      // in the store: an earlier process may have asked

	done chan struct{} // closed when the rest is known
	s    *session      // the promise; nil where there is none
	why  error         // why there is none
	err  error         // why nothing is known
}

var (
	// errEpochOver ends a question that the next announcement overtook.
	errEpochOver = errors.New("the epoch is over")
	// errStopped ends what a process that stops leaves to the next one.
	errStopped = errors.New("the randomizer is stopping")
)

// enrol tries to take part in the current epoch. s is nil where the device is not sampled, and why says for what
// reason; err means that there is no policy to decide with. A device of which the shuffler is not asked takes no place.
func (h *Host) enrol(ctx context.Context, name string) (a *device.Announced, s *session, why error, err error) {
	until := h.c.Clock.Now().Add(api.EnrolTime)
	ctx, cancel := h.c.Clock.WithTimeout(ctx, api.EnrolTime)
	defer cancel()
	for {
		if a, why, err = h.enrolling(); err != nil || why != nil {
			return a, nil, why, err
		}
		if a.Panels() { // announced since the decision began, and no decision asks for a place in a panel
			return a, nil, because(NotDrawn, "it is not known yet whether the device is in the panel of epoch %d", a.Epoch),
				nil
		}
		seat, _, why, err := h.seat(name)
		if err != nil || why != nil {
			return a, nil, why, err
		}
		q, mine, why, err := h.ask(a, seat, until)
		if err != nil || why != nil {
			return a, nil, why, err
		}
		if q == nil { // the place, which was vacant, went to another device meanwhile
			continue
		}
		select {
		case <-q.done:
		case <-ctx.Done():
			return a, nil, because(Unreachable,
				"the shuffler did not answer in time; the host asks on, and if it was given a slot the device "+
					"reports without this decision"), nil
		}
		switch {
		case q.err != nil:
			return nil, nil, nil, q.err
		case mine && !errors.Is(q.why, errEpochOver):
			return a, q.s, q.why, nil
		}
		// Another decision of this device has its answer, or the next epoch has begun.
	}
}

// enrolling is the announcement in force. why says for what reason no device is enrolled under it; err that there is
// none to decide with.
func (h *Host) enrolling() (a *device.Announced, why, err error) {
	h.mu.Lock()
	a = h.current
	full, refusal, rolledBack := h.full, h.refusal, h.rolledBack
	h.mu.Unlock()
	switch {
	case a == nil && refusal != nil:
		return nil, nil, fmt.Errorf("%w that this host accepts: %w", api.ErrNoPolicy, refusal)
	case a == nil:
		return nil, nil, api.ErrNoPolicy
	case h.rewound(a) != nil:
		return nil, nil, h.rewound(a)
	case a.Final:
		return a, because(FinalPolicy, "learning is over; this is the last policy"), nil
	case a.Weak != nil:
		return a, because(PlanRefused, "%v", a.Weak), nil
	case rolledBack != nil:
		return a, because(StateRolledBack, "%v", rolledBack), nil
	case a.Round > 0:
		return a, because(RoundsUnderWay, "the cohort of epoch %d is closed and answers further rounds", a.Epoch), nil
	case full:
		return a, because(CohortFull, "the cohort of epoch %d is full", a.Epoch), nil
	}
	return a, nil, nil
}

// ask opens the question of a device under an announcement, durably, or finds the one that is open. mine tells that it
// was opened here. why says that the ledger rules it out. There is no question where the place is another device's.
func (h *Host) ask(a *device.Announced, seat *seat, until time.Time) (q *question, mine bool, why, err error) {
	seat.mu.Lock()
	defer seat.mu.Unlock()
	if seat.question != nil {
		return seat.question, false, nil, nil
	}
	if !h.occupy(seat) {
		return nil, false, nil, nil
	}
	q = &question{
		a: a, seat: seat, number: seat.state.Number, until: until, found: seat.state.Asked(a.Epoch),
		done: make(chan struct{}),
	}
	if !q.found {
		next, err := seat.state.Ask(a, h.c.Clock.Now())
		if err != nil {
			h.vacate(seat)
			return nil, false, because(RecordUsed, "%v", err), nil
		}
		if err := h.keep(seat, next); err != nil {
			return nil, false, nil, fmt.Errorf("randomizer: the device's wish to take part cannot be kept: %w", err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.Err() != nil {
		return nil, false, nil, errStopped
	}
	seat.question = q
	h.questions++
	if q.found {
		h.c.Enrolments.Resumed(1)
	} else {
		h.c.Enrolments.Received(1)
	}
	h.asking.Go(func() {
		q.s, q.why, q.err = h.settle(q)
		h.settled(q)
		seat.mu.Lock()
		seat.question = nil
		h.vacate(seat)
		seat.mu.Unlock()
		close(q.done)
	})
	return q, true, nil, nil
}

// settled enters what became of a question into the account. One that the next process goes on with stays pending.
func (h *Host) settled(q *question) {
	if errors.Is(q.err, errStopped) {
		return
	}
	h.mu.Lock()
	h.questions--
	h.mu.Unlock()
	switch {
	case q.err != nil:
		h.c.Enrolments.Refused(api.Internal, 1)
	case q.s != nil:
		h.c.Enrolments.Released(1)
	case errors.Is(q.why, errEpochOver):
		h.c.Enrolments.Refused(EpochOver, 1)
	default:
		h.c.Enrolments.Refused(q.why, 1)
	}
}

// askOn opens the questions that an earlier process left without an answer in the epoch in force. Those that are open
// already stay. Where panels are drawn every device asks.
func (h *Host) askOn() error {
	a, why, err := h.enrolling()
	if a != nil && h.drawsPanels() {
		for _, seat := range h.seats() {
			h.attend(a, seat)
		}
		h.attendance.turn()
		return nil
	}
	if a != nil { // no device registers, so that none is waited for
		h.vacateAll()
	}
	if a == nil || err != nil || why != nil && reasonOf(why) != CohortFull {
		return nil // no slot is asked for now
	}
	for _, seat := range h.seats() {
		if !seat.now().Asked(a.Epoch) {
			continue
		}
		if _, _, _, err := h.ask(a, seat, time.Time{}); err != nil { // its place is its own: its ledger has an entry
			return err
		}
	}
	return nil
}

// settle asks until the answer is known, and makes it durable.
func (h *Host) settle(q *question) (s *session, why, err error) {
	over := h.over(q.a)
	// heard says that the shuffler may have heard a request to which no answer came, or may yet. While it is false, the
	// shuffler has answered all that it knows of the wish, and the wish can be taken back.
	heard := q.found
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		reply, err := h.try(q)
		wait := pause
		switch {
		case err == nil && reply.Refusal != wire.RefusalWrongEpoch:
			return h.answered(q, reply, heard)
		case err == nil: // the shuffler is ahead of what was seen here, or not there yet
			wait, why = askAgain, because(NotAdmitted, "the shuffler is not in epoch %d", q.a.Epoch)
		case unheard(err):
			why = because(Unreachable, "%v", err)
		default:
			heard, why = true, because(Unreachable, "%v", err)
		}
		if h.waitsPast(q, wait) {
			h.c.Enrolments.Retried(why)
		} else if !heard {
			return nil, why, h.withdraw(q)
		} else {
			wait = pause
		}
		select {
		case <-h.c.Clock.After(wait):
			continue
		case <-over:
			why = errEpochOver
		case <-h.life.Done():
			why, err = nil, errStopped
		}
		if !heard {
			err = errors.Join(h.withdraw(q), err)
		}
		return nil, why, err
	}
}

// waitsPast reports whether the decision that began the question still waits after a pause.
func (h *Host) waitsPast(q *question, pause time.Duration) bool {
	return h.c.Clock.Now().Add(pause).Before(q.until)
}

// over is closed when the announcement is not in force any more, or the host asks no more.
func (h *Host) over(a *device.Announced) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == a && h.rolledBack == nil {
		return h.changed
	}
	over := make(chan struct{})
	close(over)
	return over
}

// try puts the question to the shuffler once. Questions that no decision waits for keep none waiting that one does.
func (h *Host) try(q *question) (*wire.EnrolReply, error) {
	if !h.waitsPast(q, 0) {
		return h.patiently.put(q)
	}
	return h.promptly.put(q)
}

// answered makes a definite answer durable. heard is as in settle, before the request that was answered.
func (h *Host) answered(q *question, reply *wire.EnrolReply, heard bool) (s *session, why, err error) {
	if did := q.seat.now().Contradicts(reply, heard); did != "" {
		why, err = h.provedOld(fmt.Sprintf("in epoch %d the shuffler %s (device %d)", q.a.Epoch, did, q.number))
		return nil, why, err
	}
	switch r := reply.Refusal; {
	case reply.Enrolled:
		s, err := h.promise(q.a, q.seat, reply)
		return s, nil, err
	case r == wire.RefusalCohortFull, r == wire.RefusalEnrolmentClosed:
		h.mu.Lock()
		if h.current == q.a {
			h.full = true
		}
		h.mu.Unlock()
		return nil, because(CohortFull, "the cohort of epoch %d is full", q.a.Epoch), h.takeBack(q)
	case r == wire.RefusalAlreadyEnrolled: // the number is of no use to any other device
		q.seat.mu.Lock()
		q.seat.spent = true
		q.seat.mu.Unlock()
		fallthrough
	default:
		return nil, because(NotAdmitted, "the shuffler refused: %s", r), h.takeBack(q)
	}
}

// takeBack releases what was set aside for a slot that will not be given.
func (h *Host) takeBack(q *question) error { return h.release(q, device.State.Release) }

// withdraw is takeBack where only the broker says that the shuffler has not heard of the wish.
func (h *Host) withdraw(q *question) error { return h.release(q, device.State.Withdraw) }

func (h *Host) release(q *question, by func(device.State, *device.Announced) (device.State, error)) error {
	q.seat.mu.Lock()
	defer q.seat.mu.Unlock()
	next, err := by(q.seat.state, q.a)
	if err != nil {
		return fmt.Errorf("randomizer: %w", err)
	}
	if err := h.keep(q.seat, next); err != nil {
		return fmt.Errorf("randomizer: the shuffler's refusal cannot be kept: %w", err)
	}
	return nil
}

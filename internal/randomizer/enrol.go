package randomizer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
	"golang.org/x/sync/semaphore"
)

// A slot that was given and that stays empty can destroy a cohort. So a device's question for a slot is durable before
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

// question is whether a device is given a slot in one cohort, from when it is durable until the shuffler's answer is.
type question struct {
	a      *device.Announced
	dev    *localDevice
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

// enrolments asks the shuffler for slots, where no panels are drawn.
type enrolments struct {
	*core
	places              *places
	promises            *promises
	rollback            *rollback
	promptly, patiently *asks               // while a decision waits, and while none does
	waiting             *semaphore.Weighted // decisions that wait
	questions           int                 // that are not resolved; the core's lock guards it
}

// Asking counts the questions for a slot that wait for the shuffler's answer.
func (e *enrolments) Asking() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int64(e.questions)
}

// enrol tries to take part in the current epoch. s is nil where the device is not sampled, and why says for what
// reason; err means that there is no policy to decide with. A device of which the shuffler is not asked takes no place.
func (e *enrolments) enrol(ctx context.Context, name string) (a *device.Announced, s *session, why error, err error) {
	until := e.c.Clock.Now().Add(api.EnrolTime)
	ctx, cancel := e.c.Clock.WithTimeout(ctx, api.EnrolTime)
	defer cancel()
	for {
		if a, why, err = e.enrolling(); err != nil || why != nil {
			return a, nil, why, err
		}
		if a.Panels() { // announced since the decision began, and no decision asks for a place in a panel
			return a, nil, because(NotDrawn, "it is not known yet whether the device is in the panel of epoch %d",
				a.Epoch), nil
		}
		if e.places.isOut(e.store.Key(name)) { // who opted out takes no place
			return a, nil, optedOut, nil
		}
		dev, _, why, err := e.places.find(name)
		if err != nil || why != nil {
			return a, nil, why, err
		}
		q, mine, why, err := e.ask(a, dev, until)
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

// ask opens the question of a device under an announcement, durably, or finds the one that is open. mine tells that it
// was opened here. why says that the ledger rules it out. There is no question where the place is another device's.
func (e *enrolments) ask(
	a *device.Announced, dev *localDevice, until time.Time,
) (q *question, mine bool, why, err error) {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	if dev.question != nil {
		return dev.question, false, nil, nil
	}
	if !e.places.occupy(dev) {
		return nil, false, nil, nil
	}
	found := dev.state.Asked(a.Epoch)
	if !found && e.places.isOut(dev.name) { // since it was looked for
		e.places.vacate(dev)
		return nil, false, optedOut, nil
	}
	q = &question{
		a: a, dev: dev, number: dev.state.Number, until: until, found: found,
		done: make(chan struct{}),
	}
	if !q.found {
		next, err := dev.state.Ask(a, e.c.Clock.Now())
		if err != nil {
			e.places.vacate(dev)
			return nil, false, because(RecordUsed, "%v", err), nil
		}
		if err := e.keep(dev, next); err != nil {
			return nil, false, nil, fmt.Errorf("randomizer: the device's question cannot be kept: %w", err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life.Err() != nil {
		return nil, false, nil, errStopped
	}
	dev.question = q
	e.questions++
	if q.found {
		e.c.Enrolments.Resumed(1)
	} else {
		e.c.Enrolments.Received(1)
	}
	e.asking.Go(func() {
		q.s, q.why, q.err = e.resolve(q)
		e.account(q)
		if err := e.finish(q); q.err == nil {
			q.err = err
		}
		close(q.done)
	})
	return q, true, nil, nil
}

// finish ends a question. Who was erased while it was open, and was given no slot, is forgotten. One without an answer
// may have a slot, and is kept.
func (e *enrolments) finish(q *question) error {
	q.dev.mu.Lock()
	erased := q.dev.erased
	q.dev.question, q.dev.blank, q.dev.erased = nil, false, false
	var err error
	if erased {
		erased, err = e.places.depart(q.dev)
	}
	if !erased {
		e.places.vacate(q.dev)
	}
	q.dev.mu.Unlock()
	if err == nil && erased {
		err = e.store.Scrub()
	}
	if err != nil {
		return fmt.Errorf("randomizer: a device cannot be forgotten: %w", err)
	}
	return nil
}

// account enters what became of a question into the account. One that the next process goes on with stays pending.
func (e *enrolments) account(q *question) {
	if errors.Is(q.err, errStopped) {
		return
	}
	e.mu.Lock()
	e.questions--
	e.mu.Unlock()
	switch {
	case q.err != nil:
		e.c.Enrolments.Refused(api.Internal, 1)
	case q.s != nil:
		e.c.Enrolments.Released(1)
	case errors.Is(q.why, errEpochOver):
		e.c.Enrolments.Refused(EpochOver, 1)
	default:
		e.c.Enrolments.Refused(q.why, 1)
	}
}

// resume opens the questions that an earlier process left without an answer in the epoch in force. Those that are open
// already stay.
func (e *enrolments) resume() error {
	a, why, err := e.enrolling()
	if a != nil { // no device registers, so that none is waited for
		e.places.vacateAll()
	}
	if a == nil || err != nil || why != nil && reasonOf(why) != CohortFull {
		return nil // no slot is asked for now
	}
	for _, dev := range e.places.all() {
		if !dev.now().Asked(a.Epoch) {
			continue
		}
		if _, _, _, err := e.ask(a, dev, time.Time{}); err != nil { // its place is its own: its ledger has an entry
			return err
		}
	}
	return nil
}

// resolve asks until the answer is known, and makes it durable.
func (e *enrolments) resolve(q *question) (s *session, why, err error) {
	over := e.over(q.a)
	// heard says that the shuffler may have heard a request to which no answer came, or may yet. While it is false, the
	// shuffler has answered all that it knows of the question, and it can be taken back.
	heard := q.found
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		reply, err := e.try(q)
		wait := pause
		switch {
		case err == nil && reply.Refusal != wire.RefusalWrongEpoch:
			return e.conclude(q, reply, heard)
		case err == nil: // the shuffler is ahead of what was seen here, or not there yet
			wait, why = askAgain, because(NotAdmitted, "the shuffler is not in epoch %d", q.a.Epoch)
		case isUnheard(err):
			why = because(Unreachable, "%v", err)
		default:
			heard, why = true, because(Unreachable, "%v", err)
		}
		if e.waitsPast(q, wait) {
			e.c.Enrolments.Retried(why)
		} else if !heard {
			return nil, why, e.withdraw(q)
		} else {
			wait = pause
		}
		select {
		case <-e.c.Clock.After(wait):
			continue
		case <-over:
			why = errEpochOver
		case <-e.life.Done():
			why, err = nil, errStopped
		}
		if !heard {
			err = errors.Join(e.withdraw(q), err)
		}
		return nil, why, err
	}
}

// waitsPast reports whether the decision that began the question still waits after a pause.
func (e *enrolments) waitsPast(q *question, pause time.Duration) bool {
	return e.c.Clock.Now().Add(pause).Before(q.until)
}

// try puts the question to the shuffler once. Questions that no decision waits for keep none waiting that one does.
func (e *enrolments) try(q *question) (*wire.EnrolReply, error) {
	if !e.waitsPast(q, 0) {
		return e.patiently.put(q)
	}
	return e.promptly.put(q)
}

// conclude makes a definite answer durable. heard is as in resolve, before the request that was answered.
func (e *enrolments) conclude(q *question, reply *wire.EnrolReply, heard bool) (s *session, why, err error) {
	if did := q.dev.now().Contradicts(reply, heard); did != "" {
		why, err = e.rollback.prove(fmt.Sprintf("in epoch %d the shuffler %s (device %d)", q.a.Epoch, did, q.number))
		return nil, why, err
	}
	switch r := reply.Refusal; {
	case reply.Enrolled:
		s, err := e.promises.promise(q.a, q.dev, reply)
		return s, nil, err
	case r == wire.RefusalCohortFull, r == wire.RefusalEnrolmentClosed:
		e.mu.Lock()
		if e.current == q.a {
			e.full = true
		}
		e.mu.Unlock()
		return nil, because(CohortFull, "the cohort of epoch %d is full", q.a.Epoch), e.takeBack(q)
	case r == wire.RefusalAlreadyEnrolled: // the number is of no use to any other device
		q.dev.mu.Lock()
		q.dev.spent = true
		q.dev.mu.Unlock()
		fallthrough
	default:
		return nil, because(NotAdmitted, "the shuffler refused: %s", r), e.takeBack(q)
	}
}

// takeBack releases what was set aside for a slot that will not be given.
func (e *enrolments) takeBack(q *question) error { return e.release(q, device.State.Release) }

// withdraw is takeBack where only the broker says that the shuffler has not heard of the question.
func (e *enrolments) withdraw(q *question) error { return e.release(q, device.State.Withdraw) }

func (e *enrolments) release(q *question, by func(device.State, *device.Announced) (device.State, error)) error {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	next, err := by(q.dev.state, q.a)
	if err != nil {
		return fmt.Errorf("randomizer: %w", err)
	}
	if err := e.keep(q.dev, next); err != nil {
		return fmt.Errorf("randomizer: the shuffler's refusal cannot be kept: %w", err)
	}
	return nil
}

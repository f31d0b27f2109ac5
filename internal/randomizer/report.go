package randomizer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// sealersPerCore is how many reports are in the making at a time for each core. Few of them are computed, and the
// others wait for the disk, which takes all that wait in one write. In a channel whose reports take less time than a
// write, the cores would else wait for the disk.
const sealersPerCore = 32

// sources are the random sources that reports are computed with: one for each core.
type sources chan protocol.Source

func newSources(cores int, source func() protocol.Source) sources {
	all := make(sources, cores)
	for range cores {
		all <- source()
	}
	return all
}

// reports makes the reports that fall due, and hands them in.
type reports struct {
	*core
	promises *promises
	outbox   chan store.Outgoing // sealed reports
	unsent   []store.Outgoing    // what an earlier process sealed and may not have sent

	lock   sync.Mutex
	erased map[uint32]bool // numbers of devices of which nothing may be left once their reports are sent
}

// sealDue seals reports as they fall due.
func (r *reports) sealDue(ctx context.Context, due <-chan job, from sources) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case j := <-due:
			o, ok, err := r.sealOne(j, from)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case r.outbox <- o:
			}
		}
	}
}

// sealOne makes the report of a job and makes it durable together with what it costs. The work is the same for every
// record.
func (r *reports) sealOne(j job, from sources) (o store.Outgoing, ok bool, err error) {
	s := j.session
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.record.Over() || s.record.Reported() != int(j.under.Round) {
		return o, false, nil
	}
	shuffler := r.shufflerKey()
	if shuffler == nil { // enrolled by an earlier process, and the shuffler's key is not here yet
		j.at = r.c.Clock.Now().Add(100 * time.Millisecond)
		r.promises.timetable.enter(j)
		return o, false, nil
	}
	src := <-from
	envelope, next, err := r.rules.Report(s.dev.state, s.record, j.under, shuffler, src)
	from <- src
	if err != nil {
		return o, false, fmt.Errorf("randomizer: %w", err)
	}
	if int(j.under.Round)+1 == len(j.under.Plan.Rounds) {
		next = next.Done()
	}
	o = store.Outgoing{Epoch: s.epoch, Round: j.under.Round, Number: s.number, Envelope: envelope}
	if err := r.store.Seal(store.Device{Name: s.dev.name, State: next}, o); err != nil {
		return o, false, fmt.Errorf("randomizer: the report cannot be kept: %w", err)
	}
	s.dev.state, s.owed = next, false
	s.record.Made()
	r.promises.forgetTokens(s)
	if s.record.Over() {
		r.promises.end(s)
	}
	return o, true, nil
}

// resend hands in what an earlier process sealed: the same bytes.
func (r *reports) resend(ctx context.Context) error {
	for _, o := range r.unsent {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r.outbox <- o:
		}
	}
	return nil
}

// send hands sealed reports to the broker until it has them.
func (r *reports) send(ctx context.Context) error {
	for {
		var o store.Outgoing
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o = <-r.outbox:
		}
		if r.isRolledBack() { // the person may have reported before
			if err := r.forget(o); err != nil {
				return err
			}
			r.c.Reports.Refused(StateRolledBack, 1)
			continue
		}
		err := r.handIn(ctx, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.forget(o); err != nil {
			return err
		}
		if err != nil {
			why := Unsendable
			if errors.Is(err, bus.ErrFull) {
				why = EpochOver
			}
			r.c.Reports.Refused(why, 1)
			about(r.c.Log.Error(), err, why, o.Epoch, o.Round).Msg("report given up")
			continue
		}
		r.c.Reports.Released(1)
	}
}

// A report for which the broker has no room is handed in again after pauses that grow from the first to the last of
// these.
const (
	firstRoomPause = 100 * time.Millisecond
	lastRoomPause  = 2 * time.Second
)

// handIn has the broker store a report. Where it has no room it is asked again, until the report's round is over.
func (r *reports) handIn(ctx context.Context, o store.Outgoing) error {
	digest := sha256.Sum256(o.Envelope)
	for pause := firstRoomPause; ; pause = min(2*pause, lastRoomPause) {
		over := r.isPast(o)
		err := r.c.Bus.PublishReport(ctx, o.Epoch, o.Round, hex.EncodeToString(digest[:16]), o.Envelope)
		if !errors.Is(err, bus.ErrFull) || over {
			return err
		}
		why := r.c.Reports.Retried(NoRoom)
		if pause == firstRoomPause {
			about(r.c.Log.Warn(), err, why, o.Epoch, o.Round).Msg("report waits for room at the broker")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.c.Clock.After(pause):
		}
	}
}

// forget takes a sealed report out of the outbox: the broker has it, or it will not be sent.
func (r *reports) forget(o store.Outgoing) error {
	if err := r.store.Sent(o); err != nil {
		return fmt.Errorf("randomizer: outbox: %w", err)
	}
	r.promises.left()
	r.lock.Lock()
	scrub := r.erased[o.Number]
	delete(r.erased, o.Number)
	r.lock.Unlock()
	if !scrub {
		return nil
	}
	if err := r.store.Scrub(); err != nil {
		return fmt.Errorf("randomizer: what was forgotten cannot be overwritten: %w", err)
	}
	return nil
}

// scrubAfter has nothing be left in the store's files of a device whose report was sent.
func (r *reports) scrubAfter(number uint32) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.erased == nil {
		r.erased = map[uint32]bool{}
	}
	r.erased[number] = true
}
